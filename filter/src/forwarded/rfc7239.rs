//! The `proto` parameters of a `Forwarded` header, RFC 7239.
//!
//! ```text
//! Forwarded: for=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8::1]:80";proto=https
//! ```

/// A header that does not follow the RFC. None of it is believed, because the client may control
/// what follows a broken quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The RFC has four parameters. Each one is compared with all before it, so ten thousand would
/// block a worker.
const MOST_PARAMETERS: usize = 32;

/// The `proto` of each element, in order; `None` for an element without one. Empty elements are
/// skipped, because lists may have them.
///
/// # Errors
/// [`Malformed`] when any part of the header breaks the grammar, or an element has a parameter
/// twice, or too many of them.
pub fn protos(header: &[u8]) -> Result<Vec<Option<Vec<u8>>>, Malformed> {
    let mut cursor = Cursor { rest: header };
    let mut elements = Vec::new();
    loop {
        cursor.blank();
        match cursor.rest.first() {
            None => return Ok(elements),
            Some(b',') => cursor.step(),
            Some(_) => {
                elements.push(cursor.element()?);
                cursor.blank();
                if !cursor.rest.is_empty() && !cursor.take(b',') {
                    return Err(Malformed);
                }
            }
        }
    }
}

struct Cursor<'h> {
    rest: &'h [u8],
}

impl<'h> Cursor<'h> {
    fn step(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.rest.first() == Some(&byte);
        if there {
            self.step();
        }
        there
    }

    fn blank(&mut self) {
        while matches!(self.rest.first(), Some(b' ' | b'\t')) {
            self.step();
        }
    }

    /// `[ pair ] *( ";" [ pair ] )`
    fn element(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let mut proto = None;
        let mut names: Vec<&[u8]> = Vec::new();
        loop {
            self.blank();
            if !matches!(self.rest.first(), None | Some(b';' | b',')) {
                let (name, value) = self.pair()?;
                if names.len() == MOST_PARAMETERS
                    || names.iter().any(|other| other.eq_ignore_ascii_case(name))
                {
                    return Err(Malformed);
                }
                names.push(name);
                if name.eq_ignore_ascii_case(b"proto") {
                    proto = Some(value);
                }
            }
            self.blank();
            if !self.take(b';') {
                return Ok(proto);
            }
        }
    }

    /// `token "=" ( token / quoted-string )`, no white space around `=`.
    fn pair(&mut self) -> Result<(&'h [u8], Vec<u8>), Malformed> {
        let name = self.token()?;
        if !self.take(b'=') {
            return Err(Malformed);
        }
        let value = if self.take(b'"') { self.quoted()? } else { self.token()?.to_vec() };
        Ok((name, value))
    }

    fn token(&mut self) -> Result<&'h [u8], Malformed> {
        let length = self.rest.iter().take_while(|&&byte| is_token(byte)).count();
        let (token, rest) = self.rest.split_at_checked(length).unwrap_or_default();
        self.rest = rest;
        if token.is_empty() { Err(Malformed) } else { Ok(token) }
    }

    /// The rest of a quoted string, its opening quote already taken.
    fn quoted(&mut self) -> Result<Vec<u8>, Malformed> {
        let mut value = Vec::new();
        loop {
            let byte = *self.rest.first().ok_or(Malformed)?;
            self.step();
            match byte {
                b'"' => return Ok(value),
                b'\\' => {
                    value.push(*self.rest.first().filter(|&&byte| is_text(byte)).ok_or(Malformed)?);
                    self.step();
                }
                byte if is_text(byte) => value.push(byte),
                _ => return Err(Malformed),
            }
        }
    }
}

/// A byte of a quoted string, escaped or not.
fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// A byte of the name of a header or a parameter.
pub(crate) fn is_token(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z'
            | b'|' | b'~'
    )
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Malformed, protos};

    fn read(header: &str) -> Result<Vec<Option<String>>, Malformed> {
        let text = |proto: Option<Vec<u8>>| {
            proto.map(|proto| String::from_utf8_lossy(&proto).into_owned())
        };
        protos(header.as_bytes()).map(|protos| protos.into_iter().map(text).collect())
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn limits_the_parameters_of_an_element() {
        let with = |extensions: usize| {
            let extensions: String = (0..extensions).map(|index| format!(";x{index}=1")).collect();
            format!("proto=https{extensions}, proto=http{extensions}")
        };
        assert_eq!(read(&with(31)), Ok(vec![Some("https".to_owned()), Some("http".to_owned())]));
        assert_eq!(read(&with(32)), Err(Malformed));
    }
}
