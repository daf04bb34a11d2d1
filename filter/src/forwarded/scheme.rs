//! The two schemes, and the words for them.

/// What `x-forwarded-proto` may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As it is written into headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Reads a word as a load balancer writes it: any case, and the WebSocket schemes stand for
    /// what they run on.
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
