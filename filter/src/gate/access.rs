//! Access to the gate. Pure: a request's headers and the properties of its connection go in, a
//! refusal comes out.
//!
//! There are three checks: for browsers and the pages in them, for clients on the network, and for
//! clients in the pod without the secret. docs/threat-model.md describes what each of them can do.

use core::net::{Ipv4Addr, Ipv6Addr};

use laststream_drain::requests::Command;

use super::http::{is_of_hook, same_secret, secret_in_query};
use super::policy::GatePolicy;
use crate::config::wire::SHORTEST_SECRET;
use crate::headers::{Headers, begins_with};
use crate::host::Host;

const SECRET_HEADER: &str = "x-laststream-secret";

/// The filter state key of the connection's local address, from Envoy itself:
/// `%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%`. The property `destination.address` is the address that a
/// PROXY protocol header claims, if the listener takes such headers. It is used only where no
/// filter writes this key, so that the hooks of gates from earlier manifests keep working.
pub const ADDRESS_KEY: &str = "laststream.gate_address";

/// The filter state key of the gate's secret, in rendered configurations.
pub const SECRET_KEY: &str = "laststream.gate_secret";

/// The conditions under which the gate accepts a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access<'a> {
    /// Names that `:authority` may have besides addresses and `localhost`.
    pub(super) hosts: &'a [String],
    pub(super) secret: Secret<'a>,
    /// The local address of the connection, if Envoy has it.
    pub(super) address: Option<&'a [u8]>,
}

/// The gate's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secret<'a> {
    /// No secret is configured.
    NotConfigured,
    /// A secret is configured, but Envoy does not have it, or it is too short.
    Missing,
    /// The secret.
    Known(&'a [u8]),
}

impl<'a> Secret<'a> {
    /// A secret from outside of the configuration. Files and variables often end with a line feed.
    fn from_state(value: &'a [u8]) -> Self {
        let value = value.trim_ascii();
        if value.len() < SHORTEST_SECRET { Self::Missing } else { Self::Known(value) }
    }
}

/// The properties of the connection that Envoy keeps, among them the secret in filter state.
#[derive(Debug)]
pub(super) struct ConnectionProperties {
    address: Option<Vec<u8>>,
    secret: Option<Vec<u8>>,
}

impl ConnectionProperties {
    pub(super) fn read(host: &impl Host, policy: &GatePolicy) -> Self {
        let state = |key: &str| host.property(&format!("filter_state\0{key}"));
        let address = state(ADDRESS_KEY)
            .filter(|address| !address.is_empty())
            .or_else(|| host.property("destination\0address"));
        Self { address, secret: policy.wire.secret_key.as_deref().and_then(state) }
    }

    pub(super) fn access<'a>(&'a self, policy: &'a GatePolicy) -> Access<'a> {
        let secret = match (&policy.wire.secret, &policy.wire.secret_key) {
            (Some(secret), _) => Secret::Known(secret.as_bytes()),
            (None, Some(_)) => Secret::from_state(self.secret.as_deref().unwrap_or_default()),
            (None, None) => Secret::NotConfigured,
        };
        Access { hosts: &policy.wire.hosts, secret, address: self.address.as_deref() }
    }
}

/// The reason to refuse a request from a page in a browser, whatever its command. Browsers send
/// headers that show a page, or a host name that is not the gate's.
pub(super) fn browser_refusal(headers: Headers<'_>, access: &Access<'_>) -> Option<&'static str> {
    let is_foreign = |site: &[u8]| !matches!(site, b"none" | b"same-origin");
    if headers.first("origin").is_some() || headers.all("sec-fetch-site").any(is_foreign) {
        return Some(
            "a page in a browser sent this, which the gate does not take: use `laststream`, curl \
             or wget",
        );
    }
    let authority =
        headers.first(":authority").and_then(|authority| core::str::from_utf8(authority).ok());
    let is_named = authority.and_then(host_of).is_some_and(|host| is_own_host(host, access.hosts));
    (!is_named).then_some(
        "the gate does not know this host: use an IP address or `localhost`, or add the name to \
         `gate.hosts`",
    )
}

/// The reason to refuse a command that needs access, if there is one.
pub(super) fn access_refusal(
    headers: Headers<'_>,
    path: &[u8],
    command: &Command,
    access: &Access<'_>,
) -> Option<&'static str> {
    if is_of_browser(headers) {
        return Some(
            "a browser sent this, from which the gate takes /status and /ready only: use \
             `laststream`, curl or wget",
        );
    }
    match access.secret {
        Secret::Known(secret) => {
            let in_header =
                headers.first(SECRET_HEADER).is_some_and(|given| same_secret(given, secret));
            let in_query = || {
                is_of_hook(command)
                    && secret_in_query(path).is_some_and(|given| same_secret(&given, secret))
            };
            (!in_header && !in_query()).then_some("x-laststream-secret is missing or wrong")
        }
        Secret::Missing => Some(
            "the gate's secret is not there, or is shorter than 16 characters: see where \
             `gate.secret_key` comes from",
        ),
        Secret::NotConfigured => match access.address {
            Some(address) if address.starts_with(b"127.") || address.starts_with(b"[::1]:") => None,
            _ => Some(
                "this listener is not on the loopback interface: this needs a secret, see \
                 `gate.secret`",
            ),
        },
    }
}

/// Whether a browser sent this, also without a page: from its address bar, for a link in another
/// program, or as a prefetch. Over plain HTTP a browser sends `Sec-Fetch-Site` to the loopback
/// interface only, and for an image it sends no `Origin`. Elsewhere its user agent shows it.
fn is_of_browser(headers: Headers<'_>) -> bool {
    headers.iter().any(|(name, value)| match name {
        b"sec-purpose" | b"purpose" | b"x-moz" => true,
        b"user-agent" => begins_with(value, "Mozilla/"),
        _ => name.starts_with(b"sec-fetch-"),
    })
}

/// The host of an authority, without its port.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.find(']') {
        Some(end) => authority.split_at_checked(end + 1)?,
        None => authority.split_at_checked(authority.find(':').unwrap_or(authority.len()))?,
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

/// Whether this is an address, `localhost` or a configured name. DNS rebinding cannot give any of
/// these to a page.
fn is_own_host(host: &str, hosts: &[String]) -> bool {
    if let Some(literal) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        // Browsers treat only ::1 as the loopback interface. They do not send the headers that show
        // a page to other addresses that lead there.
        return literal
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| !address.is_unspecified() && address.to_ipv4_mapped().is_none());
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return !address.is_unspecified();
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_name = |own: &String| name.eq_ignore_ascii_case(own.trim_end_matches('.'));
    name.eq_ignore_ascii_case("localhost") || hosts.iter().any(is_name)
}

/// The body of a refusal. It does not reveal the state of the gate.
pub(super) fn refusal_body(reason: &str) -> String {
    format!(r#"{{"reason":"{reason}"}}"#)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        Access, SECRET_HEADER, Secret, access_refusal, browser_refusal, host_of, is_own_host,
    };
    use crate::gate::http::parse_command;
    use crate::headers::{Headers, serialise};

    const SECRET: &[u8] = b"open-sesame/0123456789";

    fn is_from_browser(headers: &[(&str, &str)]) -> bool {
        let access =
            Access { hosts: &["gate.shop".into()], secret: Secret::NotConfigured, address: None };
        browser_refusal(Headers::new(&serialise(headers)), &access).is_some()
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn pages_in_browsers_are_recognised_by_their_headers() {
        let own = (":authority", "127.0.0.1:16091");
        for (marks, expected) in [
            (&[][..], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], false),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "")], true),
            (&[("sec-fetch-site", "None")], true),
            (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], true),
            (&[("origin", "http://127.0.0.1:16091")], true),
            (&[("origin", "null")], true),
            (&[("origin", "")], true),
        ] {
            let headers: Vec<_> = core::iter::once(own).chain(marks.iter().copied()).collect();
            assert_eq!(is_from_browser(&headers), expected, "{marks:?}");
        }
        assert!(is_from_browser(&[]), "no authority");
    }

    const AUTHORITIES: &[(&str, bool)] = &[
        ("127.0.0.1", true),
        ("127.0.0.1:16091", true),
        ("10.4.0.12:1", true),
        ("[::1]", true),
        ("[fd00::12]:65535", true),
        ("localhost", true),
        ("LOCALHOST.:80", true),
        ("Gate.Shop", true),
        ("gate.shop.:80", true),
        ("", false),
        (":80", false),
        ("evil.example", false),
        ("localhost.evil.example", false),
        ("a.localhost", false),
        ("gate.shop.evil.example", false),
        ("user@localhost", false),
        ("localhost..", false),
        ("localhost:", false),
        ("localhost:x", false),
        ("localhost:+80", false),
        ("localhost:65536", false),
        ("localhost:80:80", false),
        ("0.0.0.0", false),
        ("[::]", false),
        ("[::ffff:127.0.0.1]", false),
        ("[fe80::1%25eth0]", false),
        ("[127.0.0.1]", false),
        ("[localhost]", false),
        ("[::1]evil.example", false),
        ("::1", false),
        ("127.1", false),
        ("127.0.0.01", false),
        ("2130706433", false),
        ("127.0.0.1.", false),
    ];

    #[wasm_bindgen_test(unsupported = test)]
    fn requests_for_other_host_names_are_refused() {
        let hosts = ["gate.shop".into()];
        for (authority, expected) in AUTHORITIES {
            assert_eq!(
                host_of(authority).is_some_and(|host| is_own_host(host, &hosts)),
                *expected,
                "{authority}"
            );
        }
    }

    fn is_refused(method: &str, path: &str, marks: &[(&str, &str)], access: &Access<'_>) -> bool {
        let command = parse_command(method, path).expect(path);
        access_refusal(Headers::new(&serialise(marks)), path.as_bytes(), &command, access).is_some()
    }

    const PROTECTED: [(&str, &str); 7] = [
        ("GET", "/streams"),
        ("GET", "/prestop"),
        ("POST", "/drain"),
        ("DELETE", "/drain"),
        ("POST", "/force?reason=x"),
        ("POST", "/quitquitquit"),
        ("POST", "/drain_listeners?graceful"),
    ];

    #[wasm_bindgen_test(unsupported = test)]
    fn without_a_secret_only_loopback_connections_get_access() {
        let at = |address| Access { hosts: &[], secret: Secret::NotConfigured, address };
        for (address, expected) in [
            (Some(&b"127.0.0.1:16091"[..]), false),
            (Some(b"127.9.9.9:1"), false),
            (Some(b"[::1]:16091"), false),
            (Some(b"10.4.0.12:16091"), true),
            (Some(b"[::1:2]:16091"), true),
            (Some(b"/run/gate.sock"), true),
            (Some(b"-"), true),
            (Some(b""), true),
            (None, true),
        ] {
            for (method, path) in PROTECTED {
                assert_eq!(
                    is_refused(method, path, &[], &at(address)),
                    expected,
                    "{method} {path} {address:?}"
                );
            }
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_browser_gets_the_status_only() {
        const AGENT: &str = "user-agent";
        let loopback =
            Access { hosts: &[], secret: Secret::NotConfigured, address: Some(b"127.0.0.1:1") };
        for (header, expected) in [
            (("sec-fetch-site", "none"), true),
            (("sec-fetch-site", "same-origin"), true),
            (("sec-fetch-mode", "navigate"), true),
            (("sec-fetch-dest", ""), true),
            (("sec-purpose", "prefetch;prerender"), true),
            (("purpose", "prefetch"), true),
            (("x-moz", "prefetch"), true),
            ((AGENT, "Mozilla/4.0 (compatible; MSIE 8.0)"), true),
            ((AGENT, "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101"), true),
            ((AGENT, "Mozilla"), false),
            ((AGENT, "kube-probe/1.34"), false),
            ((AGENT, "kube-lifecycle/1.34"), false),
            ((AGENT, "Go-http-client/1.1"), false),
            ((AGENT, "curl/8.5.0"), false),
            ((AGENT, "Wget/1.21"), false),
            ((AGENT, "laststream/0.1.0"), false),
            (("sec-ch-ua", "x"), false),
        ] {
            for (method, path) in PROTECTED {
                assert_eq!(
                    is_refused(method, path, &[header], &loopback),
                    expected,
                    "{method} {path} {header:?}"
                );
            }
        }
        let known = Access { secret: Secret::Known(SECRET), ..loopback };
        let headers = [(SECRET_HEADER, "open-sesame/0123456789"), ("sec-fetch-site", "none")];
        assert!(is_refused("POST", "/drain", &headers, &known), "with the secret, too");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_missing_secret_gives_no_access() {
        for held in [&b""[..], b"-", b"\n", b"fifteen-letters", b"fifteen-letters\n\n"] {
            let access = Access {
                hosts: &[],
                secret: Secret::from_state(held),
                address: Some(b"127.0.0.1:1"),
            };
            assert_eq!(access.secret, Secret::Missing);
            for (method, path) in PROTECTED {
                assert!(is_refused(method, path, &[], &access), "{method} {path}");
                for given in ["", "-", "fifteen-letters"] {
                    let given = [(SECRET_HEADER, given)];
                    assert!(is_refused(method, path, &given, &access), "{method} {path}");
                }
            }
        }
        assert_eq!(Secret::from_state(b"sixteen-letters!\r\n"), Secret::Known(b"sixteen-letters!"));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn hooks_may_carry_the_secret_in_the_url() {
        let access = Access { hosts: &[], secret: Secret::Known(SECRET), address: None };
        let given = |secret| [(SECRET_HEADER, secret)];
        for (method, path) in PROTECTED {
            let (right, wrong) = (given("open-sesame/0123456789"), given("open-sesame/012345678"));
            assert!(!is_refused(method, path, &right, &access), "{method} {path}");
            assert!(is_refused(method, path, &wrong, &access), "{method} {path}");
            assert!(is_refused(method, path, &[], &access), "{method} {path}");
        }
        for path in [
            "/prestop?secret=open-sesame/0123456789",
            "/prestop?wait=1s&secret=open%2Dsesame%2f0123456789",
        ] {
            assert!(!is_refused("GET", path, &[], &access), "{path}");
        }
        assert!(!is_refused("POST", "/drain?secret=open-sesame/0123456789", &[], &access));
        for path in [
            "/prestop?secret",
            "/prestop?secret=open+sesame",
            "/prestop?secret=open-sesame%2F012345678%00",
        ] {
            assert!(is_refused("GET", path, &[], &access), "{path}");
        }
    }
}
