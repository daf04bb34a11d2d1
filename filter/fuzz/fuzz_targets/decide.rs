//! Whole requests: a configuration, and requests after lines of `===`. Whatever the headers, no
//! untrusted peer gets https without TLS, only necessary edits are made, and the counts are zero in
//! the end.
//!
//! If the configuration begins with `s`, the bytes after it make one that follows the schema.
#![no_main]

use arbitrary::Unstructured;
use laststream_filter::config::read_wire;
use laststream_filter::config::wire::{
    Configuration, Fallback, ForwardedProto, Preset, Role, TextMatch,
};
use laststream_filter::lifecycle::{HttpStream, Root};
use laststream_fuzz::host::{Edit, Memory};
use laststream_fuzz::request::Request;
use laststream_fuzz::{by_schema, ranges};
use libfuzzer_sys::fuzz_target;

const ROOT: u32 = 1;
const IN_FLIGHT: &str = "laststream_streams_in_flight_";
const PROTO: &str = "x-forwarded-proto";
const PORT: &str = "x-forwarded-port";

/// Headers that tell the scheme, and must be removed if a policy strips untrusted requests.
const FORGEABLE: [&str; 5] =
    ["forwarded", "cf-visitor", "front-end-https", "x_forwarded_proto", "x-forwarded-ssl"];

fuzz_target!(|data: &[u8]| {
    let mut sections = sections(data).into_iter();
    let configuration = configuration(sections.next().unwrap_or_default());
    let Ok(wire) = read_wire(&configuration) else { return };
    let host = Memory::new(peer_key(&wire));
    let mut root = Root::new(ROOT);
    if root.on_configure(&host, &configuration) {
        let requests = sections.map(Request::read).collect();
        match wire.role {
            Role::Stream => serve(&mut root, &host, &wire, requests),
            Role::Gate => ask(&root, &host, requests),
            Role::Websocket => {} // refused: it belongs to the other module
        }
    }
});

fn sections(data: &[u8]) -> Vec<&[u8]> {
    let mut sections = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(5).position(|window| window == b"\n===\n") {
        sections.push(&rest[..at]);
        rest = &rest[at + 5..];
    }
    sections.push(rest);
    sections
}

fn configuration(section: &[u8]) -> Vec<u8> {
    let made = section
        .strip_prefix(b"s")
        .and_then(|bytes| by_schema::configuration(&mut Unstructured::new(bytes)).ok());
    made.map_or_else(|| section.to_vec(), |made| made.to_string().into_bytes())
}

fn peer_key(wire: &Configuration) -> Vec<u8> {
    wire.forwarded_proto
        .as_ref()
        .map(|policy| policy.trust.peer_key.clone().into_bytes())
        .unwrap_or_default()
}

/// Checks that a gate counts nothing, and does not panic on any request.
fn ask(root: &Root, host: &Memory, requests: Vec<Request>) {
    for (id, request) in (2..).zip(requests) {
        host.serve(request);
        let mut stream = root.create_stream(id);
        stream.on_request_headers(host);
        root.on_tick(host);
        stream.on_delete(host);
    }
    assert_eq!(host.sum(IN_FLIGHT), 0, "a gate counts streams");
}

/// Serves the requests. Every other stream ends at once; the others outlive the configuration, and
/// end under an empty one.
fn serve(root: &mut Root, host: &Memory, wire: &Configuration, requests: Vec<Request>) {
    let mut streams = Vec::new();
    let mut served = 0;
    for (id, request) in (2..).zip(requests) {
        let mut stream = root.create_stream(id);
        begin(&mut stream, host, wire, request);
        served += 1;
        if id % 2 == 0 {
            stream.on_delete(host);
        }
        streams.push(stream);
        assert_eq!(
            host.sum("laststream_streams_begun_") + host.sum("laststream_streams_excluded_"),
            served
        );
        assert!(host.sum(IN_FLIGHT) <= host.sum("laststream_streams_begun_"));
        assert!(host.sum("laststream_streams_long_lived_") <= host.sum(IN_FLIGHT));
    }
    assert!(root.on_configure(host, b""), "the empty configuration is refused");
    for mut stream in streams.into_iter().rev() {
        stream.on_delete(host);
        stream.on_delete(host);
    }
    assert_eq!(host.sum(IN_FLIGHT), 0, "streams are left over");
    assert_eq!(host.sum("laststream_streams_long_lived_"), 0, "long-lived streams are left over");
    let expected = if wire.forwarded_proto.is_some() { served } else { 0 };
    assert_eq!(host.sum("laststream_forwarded_proto_"), expected, "requests without a verdict");
}

fn begin(stream: &mut HttpStream, host: &Memory, wire: &Configuration, request: Request) {
    let before = Request { headers: request.headers.clone(), ..Request::default() };
    let distrusted = host.sum("laststream_forwarded_proto_untrusted_");
    host.serve(request);
    stream.on_request_headers(host);
    let (after, edits) = (host.request.borrow(), host.edits.borrow());
    let Some(policy) = &wire.forwarded_proto else {
        assert!(edits.is_empty(), "edits without a policy");
        return;
    };
    edits.iter().for_each(|edit| check_edit(edit, policy, &before));
    let is_trusted = trusts(policy, &after);
    assert_eq!(
        host.sum("laststream_forwarded_proto_untrusted_") - distrusted,
        i64::from(!is_trusted),
        "the wrong peer is believed"
    );
    if !is_trusted {
        check_fallback(policy.fallback, policy, &before, &after, &edits);
    } else if policy.presets.contains(&Preset::Nlb) {
        check_destination(policy, &before, &after, &edits);
    } else if is_silent(policy, &before) {
        check_fallback(policy.silent, policy, &before, &after, &edits);
    }
    if !is_trusted {
        check_stripped(policy, &after);
    }
}

fn trusts(policy: &ForwardedProto, request: &Request) -> bool {
    let line = request.peer.as_deref().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let with_addresses = policy.presets.contains(&Preset::Nlb);
    let alone = match words[..] {
        [peer, _, _] if with_addresses => peer,
        _ => line,
    };
    let alone = std::str::from_utf8(alone).ok();
    let peer = alone.and_then(|peer| peer.split('%').next()?.parse().ok());
    let is_peer = peer.is_some_and(|peer| {
        policy
            .trust
            .peers
            .iter()
            .filter_map(|range| ranges::read(range))
            .any(|range| range.holds(peer))
    });
    let is = |identity: &TextMatch| match (&identity.exact, &identity.prefix) {
        (Some(whole), _) => request.identity.as_deref() == Some(whole.as_bytes()),
        (None, start) => request
            .identity
            .as_deref()
            .zip(start.as_deref())
            .is_some_and(|(uri, start)| uri.starts_with(start.as_bytes())),
    };
    is_peer || policy.trust.identities.iter().any(is)
}

/// Checks that an edit sets only one of three headers, and to a new value, or removes a header that
/// was there, if the policy strips headers.
fn check_edit(edit: &Edit, policy: &ForwardedProto, before: &Request) {
    match edit {
        Edit::Set(name, value) => {
            let ports = [policy.ports.https.first(), policy.ports.http.first()]
                .map(|port| port.map(u16::to_string));
            let allowed = match std::str::from_utf8(name) {
                Ok(PROTO) => value == b"http" || value == b"https",
                Ok(":scheme") => policy.write_scheme && (value == b"http" || value == b"https"),
                Ok(PORT) => {
                    policy.write_port && ports.iter().flatten().any(|port| port.as_bytes() == value)
                }
                _ => false,
            };
            assert!(allowed, "{edit:?}");
            let name = String::from_utf8_lossy(name);
            assert!(!before.values(&name).eq([value.as_slice()]), "needless: {edit:?}");
        }
        Edit::Remove(name) => {
            let kept = [PROTO.as_bytes(), PORT.as_bytes()].contains(&name.as_slice())
                || name.starts_with(b":");
            assert!(!kept && (policy.strip.untrusted || policy.strip.twins), "{edit:?}");
            assert!(
                before.headers.iter().any(|(other, _)| other == name),
                "it was not there: {edit:?}"
            );
        }
    }
}

/// Checks the result for a request without a believed header. `keep` believes the
/// `x-forwarded-proto` of the request, and no other header.
fn check_fallback(
    fallback: Fallback,
    policy: &ForwardedProto,
    before: &Request,
    after: &Request,
    edits: &[Edit],
) {
    let written = |header: &[u8]| {
        edits.iter().find(|edit| matches!(edit, Edit::Set(name, _) if name == header))
    };
    match fallback {
        Fallback::Connection | Fallback::Http => {
            let expected: &[u8] =
                if after.tls && fallback == Fallback::Connection { b"https" } else { b"http" };
            assert!(after.values(PROTO).eq([expected]), "x-forwarded-proto is not {fallback:?}");
            assert!(
                !policy.write_scheme || after.values(":scheme").eq([expected]),
                ":scheme is not {fallback:?}"
            );
        }
        Fallback::Keep => {
            assert_eq!(written(PROTO.as_bytes()), None, "written though it is to be kept");
            if let Some(Edit::Set(_, scheme)) = written(b":scheme") {
                assert_eq!(scheme, b"http", ":scheme is https though no trusted peer says so");
                assert!(
                    before.values(PROTO).eq([scheme.as_slice()]),
                    ":scheme is not what was kept"
                );
            }
        }
    }
}

/// Checks the scheme by the port of the local address, which counts only if the address differs
/// from the socket's own.
fn check_destination(policy: &ForwardedProto, before: &Request, after: &Request, edits: &[Edit]) {
    let line = String::from_utf8_lossy(after.peer.as_deref().unwrap_or_default()).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    let read = |word: &str| {
        let address: std::net::SocketAddr = word.parse().ok()?;
        Some((address.ip().to_canonical(), address.port()))
    };
    let port = match words[..] {
        [_, local, direct] => match (read(local), read(direct)) {
            (Some(local), Some(direct)) if local != direct => Some(local.1),
            _ => None,
        },
        _ => None,
    };
    let is_in = |ports: &[u16]| port.is_some_and(|port| ports.contains(&port));
    let expected: &[u8] = match (is_in(&policy.ports.https), is_in(&policy.ports.http)) {
        (true, _) => b"https",
        (false, true) => b"http",
        (false, false) => return check_fallback(policy.silent, policy, before, after, edits),
    };
    assert!(after.values(PROTO).eq([expected]), "x-forwarded-proto is not what the port says");
}

fn check_stripped(policy: &ForwardedProto, after: &Request) {
    if policy.strip.untrusted {
        assert!(
            FORGEABLE.iter().all(|name| after.values(name).next().is_none()),
            "a forgeable header is left"
        );
    }
}

/// Whether no header in the request tells the scheme. False if there are presets, because those
/// name headers, too.
fn is_silent(policy: &ForwardedProto, request: &Request) -> bool {
    let header = |header: &str| match header.to_ascii_lowercase() {
        name if name == PROTO => policy.original_header.to_ascii_lowercase(),
        name => name,
    };
    policy.presets.is_empty()
        && policy
            .sources
            .iter()
            .all(|source| request.values(&header(&source.header)).next().is_none())
}
