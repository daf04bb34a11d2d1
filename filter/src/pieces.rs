//! Texts put together from pieces. `format!` would bring an engine along that is as large as a good part of the module.

use alloc::string::String;

/// The pieces, one after the other.
macro_rules! text {
    ($($piece:expr),+ $(,)?) => {{
        let mut text = alloc::string::String::new();
        $( $crate::pieces::Piece::add(&$piece, &mut text); )+
        text
    }};
}

pub(crate) use text;

/// What a text can be made of.
pub(crate) trait Piece {
    fn add(&self, text: &mut String);
}

impl Piece for str {
    fn add(&self, text: &mut String) {
        text.push_str(self);
    }
}

impl Piece for String {
    fn add(&self, text: &mut String) {
        self.as_str().add(text);
    }
}

impl Piece for u64 {
    fn add(&self, text: &mut String) {
        number(*self, 10, text);
    }
}

impl Piece for usize {
    fn add(&self, text: &mut String) {
        number(*self as u64, 10, text);
    }
}

impl Piece for u32 {
    fn add(&self, text: &mut String) {
        number((*self).into(), 10, text);
    }
}

impl Piece for u16 {
    fn add(&self, text: &mut String) {
        number((*self).into(), 10, text);
    }
}

impl Piece for u8 {
    fn add(&self, text: &mut String) {
        number((*self).into(), 10, text);
    }
}

impl<T: Piece + ?Sized> Piece for &T {
    fn add(&self, text: &mut String) {
        (*self).add(text);
    }
}

/// Numbers with blanks between them, behind a word that says what they are.
pub(crate) fn numbers(what: &str, numbers: &[u64]) -> String {
    let mut text = String::from(what);
    for number in numbers {
        text.push(' ');
        number.add(&mut text);
    }
    text
}

/// In a base of up to sixteen.
pub(crate) fn number(number: u64, base: u64, text: &mut String) {
    if number >= base {
        self::number(number / base, base, text);
    }
    text.push(char::from(b"0123456789abcdef"[(number % base) as usize % 16]));
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test(unsupported = test)]
    fn pieces_become_a_text() {
        let name = String::from("b");
        assert_eq!(text!["a", name, 0_u8, " ", 10_u16, " ", u64::MAX], "ab0 10 18446744073709551615");
        let mut hex = String::new();
        super::number(0xfd00, 16, &mut hex);
        assert_eq!(hex, "fd00");
    }
}
