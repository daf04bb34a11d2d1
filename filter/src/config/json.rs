//! JSON text to a tree that borrows from it.
//!
//! Hand-written for two reasons: `serde_json` alone makes the module twice as large, and a tree lets the readers name the path of
//! every value that it refuses. Numbers are whole, which is all the configuration knows.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::{Fault, fault};
use crate::pieces::{Piece as _, number, text};

/// A JSON value. Objects keep their members in the order of the text, twins included: the reader refuses those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'t> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A string.
    Text(Cow<'t, str>),
    /// An array.
    List(Vec<Value<'t>>),
    /// An object.
    Object(Vec<(Cow<'t, str>, Value<'t>)>),
}

/// Writes a text in quotes.
pub(crate) fn quoted(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => text.push('\\'),
            '\0'..' ' => {
                text.push_str(if character < '\u{10}' { "\\u000" } else { "\\u00" });
                number(character.into(), 16, text);
                continue;
            }
            _ => {}
        }
        text.push(character);
    }
    text.push('"');
}

/// Deeper than any configuration, shallow enough for a small stack.
const DEEPEST: usize = 32;

/// Parses a whole text.
///
/// # Errors
/// Where it stops being JSON, as line and column.
pub fn parse(text: &str) -> Result<Value<'_>, Fault> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(DEEPEST)?;
    parser.blank();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.problem("more text follows after the end of the configuration")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes the byte if it is next, after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.blank();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn problem(&self, what: &str) -> Fault {
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        fault(&text!["line ", line, ", column ", column], &text!["not JSON: ", what])
    }

    fn value(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        let Some(depth) = depth.checked_sub(1) else { return Err(self.problem("nested too deeply")) };
        self.blank();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            None => Err(self.problem("the text ends where a value is expected")),
            Some(_) => Err(self.problem("a value is expected here")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.blank();
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.problem("`:` is expected after a name"));
            }
            members.push((name, self.value(depth)?));
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.problem("`,` or `}` is expected here"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.take(b',') {
                return Err(self.problem("`,` or `]` is expected here"));
            }
        }
    }

    fn word(&mut self, word: &str, value: Value<'t>) -> Result<Value<'t>, Fault> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.problem("a value is expected here"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value<'t>, Fault> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let digits = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let led_by_zero = self.at > digits + 1 && self.text.as_bytes().get(digits) == Some(&b'0');
        let goes_on = matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        let number = self.text.as_bytes().get(digits..self.at).and_then(crate::words::number);
        let number = number.and_then(|number| match digits - start {
            0 => 0_i64.checked_add_unsigned(number),
            _ => 0_i64.checked_sub_unsigned(number),
        });
        match number {
            Some(number) if !led_by_zero && !goes_on => Ok(Value::Number(number)),
            _ => {
                self.at = start;
                Err(self.problem("a whole number, in digits alone, is expected here"))
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.problem("a string in double quotes is expected here"));
        }
        self.at += 1;
        let mut run = self.at;
        let mut before = String::new(); // what comes before the last escape, and that
        loop {
            match self.peek() {
                Some(b'"') => {
                    let rest = self.text.get(run..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(if before.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(text![before, rest]) });
                }
                Some(b'\\') => {
                    self.text.get(run..self.at).unwrap_or_default().add(&mut before);
                    before.push(self.escaped()?);
                    run = self.at;
                }
                Some(0..0x20) => return Err(self.problem("a control character must be escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.problem("the text ends within a string")),
            }
        }
    }

    /// Reads an escape, from its backslash on.
    fn escaped(&mut self) -> Result<char, Fault> {
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => {
                self.at -= 1;
                return Err(self.problem("no such escape"));
            }
        })
    }

    fn unicode(&mut self) -> Result<char, Fault> {
        let first = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u")) {
            self.at += 2;
            let second = self.hex()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.problem("half of a surrogate pair"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.problem("half of a surrogate pair"))
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digit = |code: u32, byte: &u8| Some(code * 16 + char::from(*byte).to_digit(16)?);
        let Some(code) = digits.and_then(|digits| digits.iter().try_fold(0, digit)) else {
            return Err(self.problem("four hexadecimal digits are expected after `\\u`"));
        };
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Value, parse};

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_every_kind_of_value() {
        let text = r#" {"a": [null, true, false, -12, 0], "b\u00e9\ud83d\ude00\n\/": "x\"y", "": {}} "#;
        let Ok(Value::Object(members)) = parse(text) else { panic!("{:?}", parse(text)) };
        assert_eq!(
            members[0].1,
            Value::List(vec![Value::Null, Value::Bool(true), Value::Bool(false), Value::Number(-12), Value::Number(0)])
        );
        assert_eq!(members[1].0, "b\u{e9}\u{1f600}\n/");
        assert_eq!(members[1].1, Value::Text("x\"y".into()));
        assert_eq!(members[2], ("".into(), Value::Object(vec![])));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn says_where_it_stops_being_json() {
        for (text, place, what) in [
            ("{\n  \"a\": 1,\n  b: 2}", "line 3, column 3", "a string in double quotes"),
            ("[1 2]", "line 1, column 4", "`,` or `]`"),
            ("{\"a\": 1", "line 1, column 8", "`,` or `}`"),
            ("{\"a\" 1}", "line 1, column 6", "`:`"),
            ("[1] x", "line 1, column 5", "more text"),
            ("443.0", "line 1, column 1", "whole number"),
            ("01", "line 1, column 1", "whole number"),
            ("-", "line 1, column 1", "whole number"),
            ("9223372036854775808", "line 1, column 1", "whole number"),
            ("\"\\ud800\"", "line 1, column 8", "surrogate"),
            ("\"\\u+123\"", "line 1, column 4", "hexadecimal"),
            ("\"a", "line 1, column 3", "ends within"),
            ("\"\t\"", "line 1, column 2", "control"),
            ("", "line 1, column 1", "ends where"),
            ("nul", "line 1, column 1", "a value"),
        ] {
            let problem = parse(text).expect_err(text);
            assert_eq!(problem.path, place, "{text}");
            assert!(problem.message.contains(what), "{text}: {problem}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).expect_err("deep").message.contains("too deeply"));
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod against_serde_json {
        use proptest::prelude::*;

        use super::super::{Value, parse};

        fn same(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
            match (ours, theirs) {
                (Value::Null, serde_json::Value::Null) => true,
                (Value::Bool(ours), serde_json::Value::Bool(theirs)) => ours == theirs,
                (Value::Number(ours), serde_json::Value::Number(theirs)) => Some(*ours) == theirs.as_i64(),
                (Value::Text(ours), serde_json::Value::String(theirs)) => ours == theirs,
                (Value::List(ours), serde_json::Value::Array(theirs)) => {
                    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
                }
                (Value::Object(ours), serde_json::Value::Object(theirs)) => {
                    ours.len() == theirs.len()
                        && ours.iter().all(|(name, ours)| theirs.get(name.as_ref()).is_some_and(|theirs| same(ours, theirs)))
                }
                _ => false,
            }
        }

        fn any_value() -> impl Strategy<Value = serde_json::Value> {
            let leaf = prop_oneof![
                Just(serde_json::Value::Null),
                any::<bool>().prop_map(Into::into),
                any::<i64>().prop_map(Into::into),
                any::<String>().prop_map(Into::into),
            ];
            leaf.prop_recursive(4, 64, 8, |inner| {
                prop_oneof![
                    prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                    prop::collection::btree_map(any::<String>(), inner, 0..8)
                        .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
                ]
            })
        }

        proptest! {
            #[test]
            fn reads_what_serde_json_writes(value in any_value(), pretty: bool) {
                let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("it is JSON");
                prop_assert!(same(&parse(&text).expect("it is JSON"), &value));
            }

            #[test]
            fn quotes_any_text(value in any::<String>()) {
                let mut text = String::new();
                super::super::quoted(&value, &mut text);
                prop_assert_eq!(serde_json::from_str::<String>(&text).expect("it is JSON"), value);
            }

            #[test]
            fn accepts_no_more_than_serde_json(text in r#"[\[\]{}:,"0-9a-z\\ \n.-]{0,24}"#) {
                if let Ok(ours) = parse(&text) {
                    let theirs: Result<serde_json::Value, _> = serde_json::from_str(&text);
                    // A name that comes twice is left to the reader of objects.
                    prop_assert!(theirs.is_ok(), "{ours:?}");
                }
            }
        }
    }
}
