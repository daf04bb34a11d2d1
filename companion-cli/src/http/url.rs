//! Addresses of requests: where a registry is, and where a `Location` leads.

use std::fmt;

use super::Secret;

/// Scheme, host and port: secrets are sent to one origin only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    https: bool,
    /// Host and port as they stand in addresses, in lower case.
    authority: String,
}

impl Origin {
    pub(crate) fn new(https: bool, authority: &str) -> Self {
        let authority = authority.to_ascii_lowercase();
        let usual = if https { ":443" } else { ":80" };
        Self {
            https,
            authority: authority.strip_suffix(usual).map_or(authority.clone(), str::to_owned),
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url { origin: self.clone(), path: path.to_owned() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}", if self.https { "s" } else { "" }, self.authority)
    }
}

/// An address of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) origin: Origin,
    /// With the query.
    path: String,
}

impl Url {
    /// An absolute address. One with a user in it is none here: secrets have other ways.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let rest = rest.split('#').next()?;
        let (authority, path) =
            rest.find(['/', '?']).map_or((rest, ""), |place| rest.split_at(place));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let plain = |character: char| character.is_ascii_graphic() && character != '\\';
        if authority.is_empty()
            || authority.contains('@')
            || !authority.chars().chain(path.chars()).all(plain)
        {
            return None;
        }
        Some(Self { origin: Origin::new(https, authority), path })
    }

    /// An absolute address that may have a user and a password in it, which are shown as a header.
    pub(crate) fn parse_with_login(text: &str) -> Option<(Self, Option<Secret>)> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let Some((login, _)) = authority.rsplit_once('@') else {
            return Some((Self::parse(text)?, None));
        };
        let url = Self::parse(&format!("{scheme}://{}", rest.get(login.len() + 1..)?))?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        Some((url, Some(Secret::basic(&unescaped(user), &Secret::new(unescaped(password))))))
    }

    /// Where a `Location` in the answer from here leads.
    pub(crate) fn join(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        if location.contains("://") && !location.starts_with(['/', '?']) {
            return Self::parse(location);
        }
        let scheme = if self.origin.https { "https" } else { "http" };
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let here = self.path.split('?').next().unwrap_or_default();
        let folder = here.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = match location.chars().next()? {
            '/' => location.to_owned(),
            '?' => format!("{here}{location}"),
            _ => format!("{folder}/{location}"),
        };
        Self::parse(&format!("{}{path}", self.origin))
    }

    /// With one more parameter in the query. Name and value must not need escaping, but for the
    /// characters of digests and scopes.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{separator}{name}={}", self.path, escaped(value));
        self
    }

    pub(crate) fn is_https(&self) -> bool {
        self.origin.https
    }

    /// Whether this address is without TLS and the one before was not.
    pub(crate) fn is_downgrade_of(&self, other: &Origin) -> bool {
        other.https && !self.origin.https
    }
}

/// In full, with a query that may be secret: only for the request itself.
pub(crate) fn in_full(url: &Url) -> String {
    format!("{}{}", url.origin, url.path)
}

/// For people: queries carry signatures and session states.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path.split('?').next().unwrap_or_default())
    }
}

/// For a query or a form.
pub(crate) fn escaped(value: &str) -> String {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'/')
    };
    value
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// What was escaped in an address.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_leads_where_browsers_would_go() {
        let here = Origin::new(true, "r.test:443").url("/v2/a/blobs/uploads/?x=1");
        for (location, leads) in [
            ("https://r.test/v2/a?_state=s%3D", "https://r.test/v2/a?_state=s%3D"),
            ("HTTP://Other.Test:5000/v2/A", "http://other.test:5000/v2/A"),
            ("/v2/b?next=http://x/", "https://r.test/v2/b?next=http://x/"),
            ("//other.test/c", "https://other.test/c"),
            ("uuid?state=1", "https://r.test/v2/a/blobs/uploads/uuid?state=1"),
            ("?state=1", "https://r.test/v2/a/blobs/uploads/?state=1"),
            ("https://r.test?a=b", "https://r.test/?a=b"),
            ("https://r.test/x#fragment", "https://r.test/x"),
        ] {
            assert_eq!(
                here.join(location).map(|url| in_full(&url)).as_deref(),
                Some(leads),
                "{location}"
            );
        }
        for wrong in [
            "",
            "ftp://r.test/",
            "https://",
            "https://user:pass@r.test/",
            "https://r.test/a b",
            "/a\r\nx: y",
        ] {
            assert_eq!(here.join(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn origins_are_compared_as_a_whole() {
        let origin = |text: &str| Url::parse(text).unwrap().origin;
        assert_eq!(origin("https://r.test/a"), origin("https://R.test:443/b"));
        assert_ne!(origin("https://r.test/"), origin("http://r.test/"));
        assert_ne!(origin("https://r.test/"), origin("https://r.test:444/"));
        assert_ne!(origin("https://r.test/"), origin("https://r.test.evil/"));
    }

    #[test]
    fn people_do_not_see_queries_and_values_are_escaped() {
        let url = Url::parse("https://r.test/v2/a?_state=secret")
            .unwrap()
            .with("digest", "sha256:ab")
            .with("scope", "a b&c=d");
        assert_eq!(url.to_string(), "https://r.test/v2/a");
        assert_eq!(
            in_full(&url),
            "https://r.test/v2/a?_state=secret&digest=sha256:ab&scope=a%20b%26c%3Dd"
        );
        assert_eq!(
            escaped("the app & its ☕ are gone"),
            "the%20app%20%26%20its%20%E2%98%95%20are%20gone"
        );
    }

    #[test]
    fn a_login_in_an_address_becomes_a_header() {
        let (url, login) =
            Url::parse_with_login("https://me:s%40c%2fret@r.test:8080/a@b?c").unwrap();
        assert_eq!(
            (in_full(&url).as_str(), login.unwrap().reveal()),
            ("https://r.test:8080/a@b?c", "Basic bWU6c0BjL3JldA==")
        );
        assert!(Url::parse_with_login("https://r.test/a@b").unwrap().1.is_none());
    }
}
