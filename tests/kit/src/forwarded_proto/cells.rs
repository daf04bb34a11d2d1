//! The notation of bytes in a cell: code spans, with escapes for invisible bytes.

use crate::{Context as _, Outcome, bail, ensure};

/// A header line: `name: value`. A name may begin with a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub value: Vec<u8>,
}

/// The code spans of a cell. Only blanks and commas may stand between them.
pub fn spans(cell: &str) -> Outcome<Vec<&str>> {
    let parts: Vec<&str> = cell.split('`').collect();
    ensure!(parts.len() % 2 == 1, "a backtick without its twin in {cell:?}");
    let outside =
        parts.iter().step_by(2).all(|text| text.bytes().all(|byte| matches!(byte, b' ' | b',')));
    ensure!(outside, "something stands outside of the code spans in {cell:?}");
    let inside: Vec<&str> = parts.into_iter().skip(1).step_by(2).collect();
    ensure!(inside.iter().all(|span| !span.is_empty()), "an empty code span in {cell:?}");
    Ok(inside)
}

/// A cell of exactly one code span.
pub(crate) fn span(cell: &str) -> Outcome<&str> {
    match spans(cell)?.as_slice() {
        [only] => Ok(only),
        _ => bail!("one code span should stand in {cell:?}"),
    }
}

pub fn lines(cell: &str) -> Outcome<Vec<Line>> {
    spans(cell)?.into_iter().map(line).collect()
}

fn line(span: &str) -> Outcome<Line> {
    let colon = span
        .get(1..)
        .and_then(|rest| rest.find(':'))
        .with_context(|| format!("no colon in {span:?}"))?
        + 1;
    let (name, value) = (&span[..colon], &span[colon + 1..]);
    ensure!(!name.contains(' '), "a blank in the name of {span:?}: write `\\s`, if it is meant");
    let name = String::from_utf8(bytes(name)?)?;
    if value.is_empty() {
        return Ok(Line { name, value: Vec::new() });
    }
    let value = value
        .strip_prefix(' ')
        .with_context(|| format!("no blank behind the colon of {span:?}"))?;
    ensure!(!value.is_empty(), "write an empty value without a blank: `{name}:`");
    Ok(Line { name, value: bytes(value)? })
}

/// `\s` blank, `\t` tab, `\r`, `\n`, `\\`, `\xff` any byte, `\{8000*a}` a text that is repeated.
pub fn bytes(text: &str) -> Outcome<Vec<u8>> {
    ensure!(text.trim() == text, "blanks at the ends of {text:?} cannot be seen: write `\\s`");
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let length = escaped(escape, &mut bytes)
            .with_context(|| format!("the escape at {escape:?} of {text:?} is not known"))?;
        rest = &escape[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Appends the bytes of an escape, and returns its length.
fn escaped(escape: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let one = match escape.bytes().next()? {
        b's' => b' ',
        b't' => b'\t',
        b'r' => b'\r',
        b'n' => b'\n',
        b'\\' => b'\\',
        b'x' => {
            bytes.push(u8::from_str_radix(escape.get(1..3)?, 16).ok()?);
            return Some(3);
        }
        b'{' => {
            let inside = escape.get(1..escape.find('}')?)?;
            let (count, what) = inside.split_once('*')?;
            bytes.extend(what.bytes().cycle().take(count.parse::<usize>().ok()? * what.len()));
            return Some(inside.len() + 2);
        }
        _ => return None,
    };
    bytes.push(one);
    Some(1)
}

/// Bytes in a readable form with escapes, as in a cell; long ones are truncated.
pub fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    let mut text: String = bytes
        .iter()
        .take(LONGEST)
        .map(|&byte| if byte == b'\\' { r"\\".into() } else { one_shown(byte) })
        .collect();
    if bytes.len() > LONGEST {
        text.push_str(&format!("… ({} bytes)", bytes.len()));
    }
    format!("`{text}`")
}

fn one_shown(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        b'\t' => r"\t".into(),
        _ => format!(r"\x{byte:02x}"),
    }
}
