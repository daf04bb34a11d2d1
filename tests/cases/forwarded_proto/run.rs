//! Sends every row to an Envoy that has all listeners, and compares the results.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use laststream_local::envoy::Version;
use laststream_policy::file::Engine as Native;

use super::engines::{self, FIRST_WITH_COMPOSITE, Place};
use crate::lab::Lab;
use kit::certificates::{Authority, Identity};
use kit::forwarded_proto::cells::shown;
use kit::forwarded_proto::client::{Connection, Way, redirected};
use kit::forwarded_proto::listeners::{
    Certificates, Form, REDIRECTED, ROUTE, Setup, TLS_ONLY, TO_HTTP1, TO_HTTP2, Transport,
};
use kit::forwarded_proto::table::{Expected, From, Protocol, Row, Section, Table};
use kit::prelude::*;
use kit::upstream::Received;

type Counts = BTreeMap<String, u64>;

/// The engine that restores the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// The module, with a filter in front that writes the direct peer's address. That it decides
    /// alike by headers in the same value is a property in `filter/src/forwarded/peer_info.rs`.
    Module,
    /// Envoy's own matchers. Sections that they cannot express are left out.
    Envoy(Native),
}

/// The result of a run.
#[derive(Default)]
pub(super) struct Shown {
    /// Each is a row, its reason, and below them the expected and the actual values.
    pub(super) mismatches: Vec<String>,
    /// The number of rows that were sent.
    pub(super) rows: usize,
    /// The number of those rows that are about destination ports.
    pub(super) rows_of_destinations: usize,
}

/// Runs every row.
pub(super) async fn all(lab: &Lab, table: &Table, engine: Engine) -> Outcome<Shown> {
    let bench = Bench::set_up(lab, table, engine).await?;
    let mut shown = Shown::default();
    for section in table.sections.iter().filter(|section| bench.sections.contains(&section.name)) {
        shown.rows += section.rows.len();
        if section.reads_destination() {
            shown.rows_of_destinations += section.rows.len();
        }
        let to = bench.envoy.address(&section.name).await?;
        let transport = table.setup(&section.setup)?.transport;
        for row in &section.rows {
            for &protocol in &row.over {
                let found = bench
                    .row(row, protocol, transport, to)
                    .await
                    .unwrap_or_else(|failure| vec![format!("{failure:#}")]);
                if !found.is_empty() {
                    shown.mismatches.push(format!(
                        "{} over {protocol:?} ({})\n    {}",
                        row.id,
                        row.why,
                        found.join("\n    ")
                    ));
                }
            }
        }
        shown.mismatches.extend(bench.warnings(section));
    }
    Ok(shown)
}

struct Bench {
    engine: Engine,
    /// The names of the sections that have a listener.
    sections: HashSet<String>,
    envoy: Envoy,
    upstream: Upstream,
    certificates: Certificates,
    /// Made once for each URI and signer.
    identities: HashMap<(String, bool), Identity>,
}

impl Bench {
    async fn set_up(lab: &Lab, table: &Table, engine: Engine) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let authority = Authority::new()?;
        let server = authority.server()?;
        let certificates = Certificates { authority, server };
        let stranger = Authority::new()?;
        let mut config = Bootstrap::new()
            .cluster(cluster::h1("http1", upstream.h1()))
            .cluster(cluster::h2("http2", upstream.h2()));
        let mut sections = HashSet::new();
        for section in &table.sections {
            let setup = table.setup(&section.setup)?;
            if let Some(form) = form(lab, section, setup, engine)? {
                config = config.listener(setup.listener(&section.name, form, &certificates));
                sections.insert(section.name.clone());
            }
        }
        let mut identities = HashMap::new();
        for (uri, known) in table
            .sections
            .iter()
            .flat_map(|section| &section.rows)
            .filter_map(|row| row.from.identity.clone())
        {
            let signer = if known { &certificates.authority } else { &stranger };
            let identity = signer.client(&uri)?;
            identities.insert((uri, known), identity);
        }
        let options = Options { concurrency: 1, ..Options::default() };
        let envoy = Envoy::start(&lab.envoy, config.build(), options).await?;
        Ok(Self { engine, sections, envoy, upstream, certificates, identities })
    }

    /// Whether Envoy's own matchers decide, which count and log nothing about decisions.
    fn is_native(&self) -> bool {
        matches!(self.engine, Engine::Envoy(_))
    }

    /// The differences from the row.
    async fn row(
        &self,
        row: &Row,
        protocol: Protocol,
        transport: Transport,
        to: SocketAddr,
    ) -> Outcome<Vec<String>> {
        let path = format!("/echo/{}/{protocol:?}", row.id);
        let mut connection =
            Connection::open(self.way(&row.from, protocol, transport, to)?).await?;
        let before = self.counts().await?;
        self.upstream.forget();
        let answer = connection.get(TO_HTTP1, &path, &row.request).await;
        let received = self.upstream.received().into_iter().find(|request| request.path == path);
        let Some(expected) = &row.expected else { return Ok(refused(&answer, received.is_some())) };
        let mut found = Found(Vec::new());
        let answer = answer?;
        let Some(received) = received else {
            return Ok(vec![format!("Envoy answered {} itself", answer.status)]);
        };
        found.same("route", &expected.route, &answer.headers.get(ROUTE).unwrap_or_default());
        found.upstream(expected, &received);
        let answer = connection.get(TLS_ONLY, &path, &row.request).await?;
        found.same("redirect", expected.redirect, redirected(&answer)?);
        let mut requests = 2;
        if let Some(scheme) = &expected.scheme {
            connection.get(TO_HTTP2, &path, &row.request).await?;
            let received = self.upstream.last()?;
            found.bytes(
                ":scheme",
                &[scheme],
                &[received.scheme.as_deref().unwrap_or_default().as_bytes()],
            );
            found.upstream(expected, &received);
            requests += 1;
        }
        if !self.is_native() {
            let wanted = Counts::from([(expected.verdict.clone(), requests)]);
            found.same("verdicts", &wanted, &counted(&before, &self.counts().await?));
        }
        self.redirected(&mut connection, row, protocol, &mut found).await?;
        Ok(found.0)
    }

    /// After an internal redirect everything must be as it was.
    async fn redirected(
        &self,
        connection: &mut Connection,
        row: &Row,
        protocol: Protocol,
        found: &mut Found,
    ) -> Outcome {
        let Some(expected) = &row.expected else { return Ok(()) };
        let path = format!("/echo/{}/{protocol:?}/redirected", row.id);
        let answer = connection.get(REDIRECTED, &format!("/redirect{path}"), &row.request).await?;
        let received = self.upstream.received().into_iter().find(|request| request.path == path);
        let Some(received) = received else {
            found.0.push(format!("Envoy answered {} to the internal redirect", answer.status));
            return Ok(());
        };
        found.same(
            "route after an internal redirect",
            &expected.route,
            &answer.headers.get(ROUTE).unwrap_or_default(),
        );
        found.header(
            "x-forwarded-proto",
            "after an internal redirect",
            &[&expected.proto],
            &received,
        );
        Ok(())
    }

    fn way(
        &self,
        from: &From,
        protocol: Protocol,
        transport: Transport,
        to: SocketAddr,
    ) -> Outcome<Way> {
        // A row may send a PROXY header to a listener that takes none.
        let is_proxied = transport.is_proxied() || from.proxied.is_some();
        let proxied = is_proxied.then(|| from.proxy_header(protocol));
        // A listener on all addresses is reached over IPv4, because the interesting peers are those
        // that it may see as IPv4-mapped addresses.
        let to = if to.ip().is_unspecified() {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port())
        } else {
            to
        };
        Ok(Way {
            to,
            from: from.address,
            protocol,
            proxied,
            tls: self.tls(from, protocol, transport)?,
        })
    }

    fn tls(
        &self,
        from: &From,
        protocol: Protocol,
        transport: Transport,
    ) -> Outcome<Option<Arc<rustls::ClientConfig>>> {
        if transport.is_plaintext() {
            return Ok(None);
        }
        let identity = from.identity.as_ref().and_then(|key| self.identities.get(key));
        let offered = match protocol {
            Protocol::H1 => "http/1.1",
            Protocol::H2 => "h2",
            Protocol::H3 => "h3",
        };
        self.certificates.authority.client_config(&[offered], identity).map(Some)
    }

    async fn counts(&self) -> Outcome<Counts> {
        const NAME: (&str, &str) = ("wasmcustom.laststream_forwarded_proto_", "_gateway_total");
        let text = self
            .envoy
            .admin_get("/stats?filter=laststream_forwarded_proto")
            .await?
            .expect(200)?
            .text();
        let count = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            let verdict = name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?;
            Some((verdict.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter_map(count).collect())
    }

    /// Differences from the section in the module's warnings: a missing one, or an unexpected line.
    fn warnings(&self, section: &Section) -> Vec<String> {
        let log = self.envoy.log();
        let ours = format!("wasm log {} ", section.name);
        let said: Vec<&str> =
            log.lines().filter(|line| line.contains(&ours) && !line.contains("[info]")).collect();
        match &section.warning {
            _ if self.is_native() => Vec::new(),
            Some(warning) if !said.iter().any(|line| line.contains(warning.as_str())) => {
                vec![format!("{}: no warning of {warning:?}", section.name)]
            }
            Some(_) => Vec::new(),
            None => said
                .into_iter()
                .map(|line| format!("{}: an unexpected line in the log: {line}", section.name))
                .collect(),
        }
    }
}

/// The filters of the section's listener, or `None` if the engine does not support the section.
fn form(lab: &Lab, section: &Section, setup: &Setup, engine: Engine) -> Outcome<Option<Form>> {
    match engine {
        Engine::Module => {
            let mut module = lab.stream(&section.configuration);
            module.name = &section.name;
            Ok(Some(setup.around(module.filter())))
        }
        Engine::Envoy(native) if section.reads_destination() => {
            let is_old = lab.version < FIRST_WITH_DESTINATIONS;
            if is_old || !setup.transport.is_plaintext() || section.warning.is_some() {
                return Ok(None);
            }
            Ok(engines::native(&section.configuration, native, Place::Bootstrap)?.ok())
        }
        // Matchers need no filter state, so sections about missing filter state do not apply to
        // them.
        Engine::Envoy(_) if !setup.is_complete() || section.warns_of("filter state") => Ok(None),
        Engine::Envoy(Native::Composite) if lab.version < FIRST_WITH_COMPOSITE => Ok(None),
        Engine::Envoy(native) => {
            let is_sidecar = native == Native::Composite && setup.overwrites;
            let place = if is_sidecar { Place::Sidecar } else { Place::Gateway };
            Ok(engines::native(&section.configuration, native, place)?.ok())
        }
    }
}

/// The first Envoy with `forward_proto_config`.
pub(super) const FIRST_WITH_DESTINATIONS: Version = Version::new(1, 38, 0);

/// The failures of a row whose request Envoy must refuse.
fn refused(answer: &Outcome<Response>, arrived: bool) -> Vec<String> {
    match answer {
        _ if arrived => {
            vec!["Envoy should have refused the request, but the upstream got it".into()]
        }
        Ok(answer) if !(400..500).contains(&answer.status) => {
            vec![format!("Envoy should have refused the request, but answered {}", answer.status)]
        }
        _ => Vec::new(),
    }
}

/// The increase of each verdict's counter.
fn counted(before: &Counts, after: &Counts) -> Counts {
    let more =
        |(name, count): (&String, &u64)| (name.clone(), count - before.get(name).unwrap_or(&0));
    after.iter().map(more).filter(|(_, count)| *count > 0).collect()
}

struct Found(Vec<String>);

impl Found {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: T, seen: T) {
        if expected != seen {
            self.0.push(format!("{what}: expected {expected:?}, saw {seen:?}"));
        }
    }

    fn bytes(&mut self, what: &str, expected: &[&[u8]], seen: &[&[u8]]) {
        let list = |values: &[&[u8]]| match values {
            [] => "none".into(),
            values => values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(" and "),
        };
        if expected != seen {
            self.0.push(format!(
                "{what} at the upstream: expected {}, saw {}",
                list(expected),
                list(seen)
            ));
        }
    }

    /// One header: exactly these values, or none.
    fn header(&mut self, name: &str, when: &str, expected: &[&[u8]], received: &Received) {
        let all = received.headers.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let seen: Vec<&[u8]> = all.map(|(_, value)| value.as_slice()).collect();
        self.bytes(&format!("{name} {when}"), expected, &seen);
    }

    /// Compares the headers that the row names.
    fn upstream(&mut self, expected: &Expected, received: &Received) {
        self.header("x-forwarded-proto", "of the row", &[&expected.proto], received);
        for name in &expected.gone {
            self.header(name, "of the row", &[], received);
        }
        for line in &expected.kept {
            let all: Vec<&[u8]> = expected
                .kept
                .iter()
                .filter(|other| other.name == line.name)
                .map(|other| other.value.as_slice())
                .collect();
            self.header(&line.name, "of the row", &all, received);
        }
    }
}
