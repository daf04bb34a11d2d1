//! Addresses of requests: where a registry is, and where a `Location` leads. They are parsed as
//! reqwest parses them, so the origin that is compared here is the one that gets the request.

use std::fmt;

use ::url::{Host, Origin};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are escaped in a query. Some registries reject `:` and `/` if they are
/// escaped in digests and scopes.
const IN_QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'/');

/// An address of a request, over HTTP or HTTPS. It has no user or password: secrets are sent as
/// headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(::url::Url);

impl Url {
    /// Reads an absolute address with a host.
    pub fn parse(text: &str) -> Option<Self> {
        Self::checked(::url::Url::parse(text).ok()?)
    }

    /// The address that a `Location` in the response from this address leads to.
    pub fn join(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        (!location.is_empty()).then(|| Self::checked(self.0.join(location).ok()?))?
    }

    fn checked(mut url: ::url::Url) -> Option<Self> {
        let is_http = matches!(url.scheme(), "http" | "https");
        url.set_fragment(None);
        let has_login = !url.username().is_empty() || url.password().is_some();
        (is_http && !has_login).then_some(Self(url))
    }

    /// Another path of the same origin.
    pub fn at(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(path);
        url.set_query(None);
        Self(url)
    }

    /// The address with one more parameter in the query.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let before = self.0.query().map(|query| format!("{query}&")).unwrap_or_default();
        self.0.set_query(Some(&format!("{before}{name}={}", escaped(value))));
        self
    }

    /// Scheme, host and port. Secrets are sent to one origin only.
    pub fn origin(&self) -> Origin {
        self.0.origin()
    }

    /// Whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        self.0.host_str().is_some_and(is_loopback)
    }

    /// Whether the host has a name, or an address of the internet: `localhost` and addresses of
    /// loopback interfaces, private networks and links are none.
    pub fn is_public(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name != "localhost",
            Some(Host::Ipv4(ip)) => !ip.is_private() && !ip.is_loopback() && !ip.is_link_local(),
            Some(Host::Ipv6(ip)) => {
                !ip.is_unique_local() && !ip.is_loopback() && !ip.is_unicast_link_local()
            }
            None => false,
        }
    }

    /// Whether TLS is used.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether this address is without TLS, and the other one is not.
    pub fn is_downgrade_of(&self, other: &Self) -> bool {
        other.is_https() && !self.is_https()
    }

    /// The address with its query, which may be secret: only for the request itself.
    pub fn in_full(&self) -> &str {
        self.0.as_str()
    }
}

/// For messages. Queries are left out, because they carry signatures and session states.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().split('?').next().unwrap_or_default())
    }
}

/// Whether a host is this machine: `localhost`, 127.0.0.0/8 or `[::1]`. No proxy is asked for it,
/// because another machine would be this one to the proxy; Go's programs do the same.
pub fn is_loopback(host: &str) -> bool {
    match Host::parse(host) {
        Ok(Host::Domain(name)) => name == "localhost",
        Ok(Host::Ipv4(address)) => address.is_loopback(),
        Ok(Host::Ipv6(address)) => address.is_loopback(),
        Err(_) => false,
    }
}

/// A value, escaped for a query.
pub fn escaped(value: &str) -> impl fmt::Display {
    utf8_percent_encode(value, IN_QUERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved_as_in_browsers() {
        let here = Url::parse("https://r.test:443/v2/a/blobs/uploads/?x=1").unwrap();
        for (location, leads) in [
            ("https://r.test/v2/a?_state=s%3D", "https://r.test/v2/a?_state=s%3D"),
            ("HTTP://Other.Test:5000/v2/A", "http://other.test:5000/v2/A"),
            ("/v2/b?next=http://x/", "https://r.test/v2/b?next=http://x/"),
            ("//other.test/c", "https://other.test/c"),
            ("uuid?state=1", "https://r.test/v2/a/blobs/uploads/uuid?state=1"),
            ("?state=1", "https://r.test/v2/a/blobs/uploads/?state=1"),
            ("https://r.test?a=b", "https://r.test/?a=b"),
            ("https://r.test/x#fragment", "https://r.test/x"),
            ("\\\\other.test/c", "https://other.test/c"),
            ("/a\r\nx: y", "https://r.test/ax:%20y"),
        ] {
            assert_eq!(here.join(location).as_ref().map(Url::in_full), Some(leads), "{location}");
        }
        for wrong in [
            "",
            "ftp://r.test/",
            "https://",
            "https://user:pass@r.test/",
            "https://:secret@r.test/",
            "https://r.test:port/",
        ] {
            assert_eq!(here.join(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn origins_are_compared_as_a_whole() {
        let origin = |text: &str| Url::parse(text).unwrap().origin();
        assert_eq!(origin("https://r.test/a"), origin("https://R.test:443/b"));
        assert_ne!(origin("https://r.test/"), origin("http://r.test/"));
        assert_ne!(origin("https://r.test/"), origin("https://r.test:444/"));
        assert_ne!(origin("https://r.test/"), origin("https://r.test.evil/"));
    }

    #[test]
    fn every_name_of_this_machine_is_known() {
        let url = |host: &str| Url::parse(&format!("http://{host}/")).unwrap();
        let is_loopback = |host| url(host).is_loopback();
        for host in ["localhost", "LOCALHOST:9090", "127.0.0.1", "127.1.2.3:80", "[::1]:5000"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.test", "r.test:80", "10.0.0.1", "[::2]", "128.0.0.1:80"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_host_with_a_name_or_an_address_of_the_internet_is_public() {
        let is_public = |host| Url::parse(&format!("http://{host}/")).unwrap().is_public();
        for host in ["r.test:80", "8.8.8.8", "[2001:db8::1]"] {
            assert!(is_public(host), "{host}");
        }
        for host in ["localhost:80", "127.1.2.3", "10.0.0.1", "169.254.0.1", "[fe80::1]", "[::1]"] {
            assert!(!is_public(host), "{host}");
        }
    }

    #[test]
    fn displayed_addresses_have_no_query_and_values_are_escaped() {
        let url = Url::parse("https://r.test/v2/a?_state=secret")
            .unwrap()
            .with("digest", "sha256:ab")
            .with("scope", "a b&c=d");
        assert_eq!(url.to_string(), "https://r.test/v2/a");
        assert_eq!(
            url.in_full(),
            "https://r.test/v2/a?_state=secret&digest=sha256:ab&scope=a%20b%26c%3Dd"
        );
    }
}
