//! The two schemes, and their words in headers.

/// A value of `x-forwarded-proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Its name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Parses a word in any case. A WebSocket scheme stands for the scheme below it.
    pub fn from_word(word: &[u8]) -> Option<Self> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("https") || is("wss") {
            Some(Self::Https)
        } else if is("http") || is("ws") {
            Some(Self::Http)
        } else {
            None
        }
    }
}
