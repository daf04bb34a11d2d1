//! The conditions under which the text of a source's value means a scheme. The module's own parser
//! is in the filter's `forwarded` modules; a test compares both.

use laststream_filter::config::wire::{Element, Form};
use laststream_filter::forwarded::{Ports, Source};

use super::matcher::{Test, all, any, not};

pub(super) struct SourceTests {
    pub(super) https: ValueTest,
    pub(super) nothing: Test,
}

/// The condition that a value says https. A value that fulfils neither this nor `nothing` is http
/// or conflicting.
pub(super) struct ValueTest {
    /// In the usual spelling, which is cheap to match.
    pub(super) usual: Test,
    any: Test,
}

impl ValueTest {
    pub(super) fn test(&self) -> Test {
        any([self.usual.clone(), self.any.clone()])
    }
}

/// The optional white space of HTTP, as the module trims it.
const BLANKS: &str = r"[\t ]*";
/// Blanks and elements that are empty.
const GAP: &str = r"[\t ,]*";
/// 0 to 65535 in canonical decimal form.
const PORT: &str =
    "(?:0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
/// Envoy refuses regular expressions of more than a hundred instructions.
const MOST_PORTS: usize = 8;

/// The conditions for a source, or why matchers cannot express them.
pub(super) fn source_tests(source: &Source, ports: &Ports) -> Result<SourceTests, &'static str> {
    let read = Reading { header: &source.header, element: source.element };
    match source.form {
        Form::Scheme => Ok(read.words("https", "wss")),
        Form::Flag => Ok(read.words("on", "1|true|yes")),
        Form::Port if ports.https.is_empty() || ports.http.is_empty() => {
            Err("needs `ports` for both schemes")
        }
        Form::Port if ports.https.len() + ports.http.len() > MOST_PORTS => {
            Err("has more `ports` than a matcher takes")
        }
        Form::Port => Ok(read.ports(ports)),
        Form::Present => {
            Err("counts by its presence, and matchers cannot tell one comma from two empty lines")
        }
        Form::Forwarded => Err("has a grammar that no matcher can follow"),
        Form::CfVisitor => Err("is JSON, which matchers do not read"),
    }
}

/// A pattern for words in both cases, from words in lower case. `(?i:s)` would not do: Envoy's RE2
/// takes the long s, U+017F, for an `s` there, and the module does not.
fn in_any_case(words: &str) -> String {
    let either = |letter: char| match letter {
        'a'..='z' => format!("[{letter}{}]", letter.to_ascii_uppercase()),
        other => other.to_string(),
    };
    words.chars().map(either).collect()
}

struct Reading<'s> {
    header: &'s str,
    element: Element,
}

impl Reading<'_> {
    fn words(&self, usual: &str, others: &str) -> SourceTests {
        let word = in_any_case(&format!("{usual}|{others}"));
        SourceTests { https: self.saying(usual, &format!("(?:{word})")), nothing: self.blank() }
    }

    /// A port that stands for neither scheme counts as no value.
    fn ports(&self, ports: &Ports) -> SourceTests {
        let one_of = |ports: &[u16]| {
            format!("(?:{})", ports.iter().map(u16::to_string).collect::<Vec<_>>().join("|"))
        };
        let saying = |ports: &[u16]| {
            self.saying(&ports.first().map(u16::to_string).unwrap_or_default(), &one_of(ports))
        };
        let known = one_of(&[ports.https.as_slice(), &ports.http].concat());
        let known = match self.element {
            Element::Agree => format!(r"(?:\C*,)?{BLANKS}{known}{BLANKS}(?:,\C*)?"),
            Element::First | Element::Last => self.pattern(&known),
        };
        let unknown = all([self.like(self.pattern(PORT)), not(self.like(known))]);
        SourceTests { https: saying(&ports.https), nothing: any([self.blank(), unknown]) }
    }

    fn saying(&self, usual: &str, word: &str) -> ValueTest {
        ValueTest { usual: Test::exact(self.header, usual), any: self.like(self.pattern(word)) }
    }

    /// The header is missing, or has no element.
    fn blank(&self) -> Test {
        any([not(self.like(r"\C+".into())), self.like(GAP.into())])
    }

    fn like(&self, pattern: String) -> Test {
        Test::regex(self.header, pattern)
    }

    /// A pattern for texts whose decisive element matches `word`.
    fn pattern(&self, word: &str) -> String {
        match self.element {
            Element::Agree => format!("{GAP}(?:{word}{BLANKS}(?:,{GAP}|$))+"),
            Element::First => format!(r"{GAP}{word}{BLANKS}(?:,\C*)?"),
            Element::Last => format!(r"(?:\C*,)?{BLANKS}{word}{GAP}"),
        }
    }
}
