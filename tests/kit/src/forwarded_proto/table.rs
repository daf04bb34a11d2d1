//! The rows, as they stand in the Markdown files.

use std::net::{IpAddr, Ipv4Addr};

use super::cells::{self, Line};
use super::client;
use super::listeners::{self, Setup, Transport};
use super::markdown::{self, Grid, Section as Text};
use super::proxy_header::ProxyHeader;
use crate::{Context as _, Outcome, bail, ensure};

/// The files that hold the rows, by their names.
pub const FILES: [(&str, &str); 8] = [
    ("peers", text!("peers.md")),
    ("identities", text!("identities.md")),
    ("presets", text!("presets.md")),
    ("proxy-protocol", text!("proxy-protocol.md")),
    ("values", text!("values.md")),
    ("saved-header", text!("saved-header.md")),
    ("sources", text!("sources.md")),
    ("results", text!("results.md")),
];
const REQUIRED: [&str; 10] = [
    "id",
    "from",
    "over",
    "request",
    "x-forwarded-proto",
    "redirect",
    "route",
    "verdict",
    "attack",
    "why",
];
const OPTIONAL: [&str; 4] = [":scheme", "x-forwarded-port", "gone", "kept"];
const VERDICTS: [&str; 5] = ["overridden", "kept", "conflicting", "silent", "untrusted"];

/// The placeholder in a configuration for a list that is too long to read.
const MANY: &str = "\"@ten-thousand-ranges\"";

/// The placeholder for all ports that a listener of a test may have.
const PORTS: &str = "\"@all-ports-from-1024\"";

pub struct Table {
    pub setups: Vec<Setup>,
    pub sections: Vec<Section>,
}

/// Rows that share a listener and a configuration.
pub struct Section {
    /// A unique name, for the listener and the plugin.
    pub name: String,
    pub setup: String,
    pub configuration: String,
    /// The only warning that the module logs.
    pub warning: Option<String>,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub id: String,
    pub from: From,
    pub over: Vec<Protocol>,
    pub request: Vec<Line>,
    /// None if Envoy refuses the request.
    pub expected: Option<Expected>,
    /// A client forges something.
    pub is_attack: bool,
    /// The reason, for readers of the table and of the report of a mismatch.
    pub why: String,
}

/// The headers that the upstream gets, and the redirect, route and verdict.
pub struct Expected {
    pub proto: Vec<u8>,
    pub redirect: bool,
    pub route: String,
    pub verdict: String,
    /// Checked at the HTTP/2 upstream, if the table has the column.
    pub scheme: Option<Vec<u8>>,
    pub gone: Vec<String>,
    pub kept: Vec<Line>,
}

#[derive(Clone, Debug)]
pub struct From {
    pub address: IpAddr,
    /// The PROXY header in front of the connection, if the row names one.
    pub proxied: Option<Proxied>,
    /// The URI in a client certificate, and whether the listener's authority signed it.
    pub identity: Option<(String, bool)>,
}

/// A PROXY header in front of a connection.
#[derive(Clone, Debug)]
pub enum Proxied {
    /// For this client, in version 1 on h1 and in version 2 on h2, so that every row shows both.
    For(Ipv4Addr),
    /// This header, as the row writes it.
    As(ProxyHeader),
}

impl From {
    /// The header in front of a connection to a listener that takes PROXY headers.
    pub fn proxy_header(&self, protocol: Protocol) -> ProxyHeader {
        let version_1 = protocol == Protocol::H1;
        match &self.proxied {
            None => ProxyHeader::usual(version_1),
            Some(Proxied::For(client)) => ProxyHeader::of_client(*client, version_1),
            Some(Proxied::As(header)) => header.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    H1,
    H2,
    H3,
}

impl Table {
    /// Every row of every file.
    pub fn read() -> Outcome<Self> {
        Self::of(listeners::TEXT, &FILES)
    }

    /// Reads the text of the listeners, and the files of rows with their names.
    pub fn of(setups: &str, files: &[(&str, &str)]) -> Outcome<Self> {
        let setups = listeners::read(setups)?;
        let mut sections = Vec::new();
        for (file, text) in files {
            for (index, text) in markdown::sections(text, &["Listener", "Warning"])
                .with_context(|| format!("{file}.md"))?
                .into_iter()
                .enumerate()
            {
                let place = format!("{file}.md, “{}”", text.title);
                sections
                    .push(section(format!("{file}-{}", index + 1), &text, &setups).context(place)?);
            }
        }
        let table = Self { setups, sections };
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Outcome {
        let mut ids: Vec<&str> = self
            .sections
            .iter()
            .flat_map(|section| &section.rows)
            .map(|row| row.id.as_str())
            .collect();
        ids.sort_unstable();
        for pair in ids.windows(2) {
            ensure!(pair[0] != pair[1], "the id {} is there twice", pair[0]);
        }
        for setup in &self.setups {
            ensure!(
                self.sections.iter().any(|section| section.setup == setup.name),
                "no section uses the listener `{}`",
                setup.name
            );
        }
        Ok(())
    }

    pub fn setup(&self, name: &str) -> Outcome<&Setup> {
        self.setups
            .iter()
            .find(|setup| setup.name == name)
            .with_context(|| format!("there is no listener `{name}`"))
    }

    /// The ids of rows in which an untrusted peer becomes https over plaintext. There must be none.
    pub fn untrusted_that_become_https(&self) -> Vec<&str> {
        let is_plain = |section: &&Section| {
            self.setup(&section.setup).is_ok_and(|setup| setup.transport.is_plaintext())
        };
        let claims_https = |expected: &Expected| {
            let says =
                |text: &[u8]| text.to_ascii_lowercase().windows(5).any(|part| part == b"https");
            expected.verdict == "untrusted"
                && (says(&expected.proto) || !expected.redirect || expected.route == "https")
        };
        let rows = self.sections.iter().filter(is_plain).flat_map(|section| &section.rows);
        rows.filter(|row| row.expected.as_ref().is_some_and(claims_https))
            .map(|row| row.id.as_str())
            .collect()
    }
}

fn section(name: String, text: &Text<'_>, setups: &[Setup]) -> Outcome<Section> {
    let wanted = text.setting("Listener")?;
    let setup = setups
        .iter()
        .find(|setup| setup.name == wanted)
        .with_context(|| format!("there is no listener `{wanted}`"))?;
    let configuration =
        text.code.as_deref().context("no configuration")?.replace(MANY, &ten_thousand_ranges());
    let configuration = configuration.replace(PORTS, &all_ports());
    let grid = text.table.as_ref().context("no table")?;
    grid.check_columns(&REQUIRED, &OPTIONAL)?;
    ensure!(!grid.rows.is_empty(), "a table without rows");
    let read = |(line, cells): &(usize, Vec<&str>)| {
        row(grid, cells, setup).with_context(|| format!("line {line}"))
    };
    let rows = grid.rows.iter().map(read).collect::<Outcome<_>>()?;
    Ok(Section {
        name,
        setup: wanted.into(),
        configuration,
        warning: text.optional("Warning")?.map(String::from),
        rows,
    })
}

fn row(grid: &Grid<'_>, cells: &[&str], setup: &Setup) -> Outcome<Row> {
    let cell = |column: &str| grid.cell(cells, column).unwrap_or_default();
    ensure!(!cell("id").is_empty() && !cell("why").is_empty(), "an empty id or reason");
    let row = Row {
        id: cell("id").into(),
        from: from(cell("from"))?,
        over: protocols(cell("over"))?,
        request: cells::lines(cell("request"))?,
        expected: expected(grid, cells)?,
        is_attack: match cell("attack") {
            "attack" => true,
            "" | "limit" => false,
            other => bail!("`{other}` is neither `attack` nor `limit` nor empty"),
        },
        why: cell("why").into(),
    };
    row.check(setup)?;
    Ok(row)
}

impl Section {
    /// Whether the scheme comes from PROXY headers.
    pub fn reads_destination(&self) -> bool {
        self.configuration.contains("\"nlb\"")
    }

    pub fn warns_of(&self, what: &str) -> bool {
        self.warning.as_ref().is_some_and(|warning| warning.contains(what))
    }
}

impl Row {
    /// Checks that the row can be sent as it is written, because its result would mean nothing
    /// otherwise.
    fn check(&self, setup: &Setup) -> Outcome {
        let only = |protocol| self.over.iter().all(|over| *over == protocol);
        ensure!(
            !matches!(self.from.proxied, Some(Proxied::For(_))) || setup.transport.is_proxied(),
            "`{}` takes no PROXY header",
            setup.name
        );
        ensure!(
            self.from.identity.is_none() || setup.transport.asks_certificate(),
            "`{}` asks for no certificate",
            setup.name
        );
        ensure!(
            self.over.contains(&Protocol::H3) == (setup.transport == Transport::Quic),
            "h3 belongs to QUIC, and QUIC to h3"
        );
        ensure!(
            self.from.address.is_ipv4() || !self.over.contains(&Protocol::H3),
            "over IPv6 the test talks no HTTP/3"
        );
        if !only(Protocol::H1) {
            // Otherwise the client's own refusal would look like Envoy's.
            client::request("http", "test", "/", &self.request)
                .context("only HTTP/1 can carry this request")?;
        }
        Ok(())
    }
}

fn expected(grid: &Grid<'_>, row: &[&str]) -> Outcome<Option<Expected>> {
    let cell = |column: &str| grid.cell(row, column).unwrap_or_default();
    if cell("x-forwarded-proto") == "refused" {
        let others = ["redirect", "route", "verdict"].into_iter().chain(OPTIONAL);
        ensure!(
            others.into_iter().all(|column| cell(column).is_empty()),
            "a refused request has no result"
        );
        return Ok(None);
    }
    let verdict = cell("verdict");
    ensure!(VERDICTS.contains(&verdict), "`{verdict}` is no verdict");
    ensure!(["http", "https"].contains(&cell("route")), "`{}` is no route", cell("route"));
    let words = |cell: &str| {
        cells::spans(cell).map(|spans| spans.into_iter().map(String::from).collect::<Vec<_>>())
    };
    let mut expected = Expected {
        proto: cells::bytes(cells::span(cell("x-forwarded-proto"))?)?,
        redirect: match cell("redirect") {
            "yes" => true,
            "no" => false,
            other => bail!("`{other}` is neither `yes` nor `no`"),
        },
        route: cell("route").into(),
        verdict: verdict.into(),
        scheme: grid
            .cell(row, ":scheme")
            .map(|cell| cells::bytes(cells::span(cell)?))
            .transpose()?,
        gone: words(cell("gone"))?,
        kept: cells::lines(cell("kept"))?,
    };
    match grid.cell(row, "x-forwarded-port") {
        None => {}
        Some("none") => expected.gone.push("x-forwarded-port".into()),
        Some(port) => expected.kept.push(Line {
            name: "x-forwarded-port".into(),
            value: cells::bytes(cells::span(port)?)?,
        }),
    }
    Ok(Some(expected))
}

/// `127.0.0.2`, `127.0.0.2 proxied for 192.0.2.1`, ``127.0.0.2 proxied as `v1 192.0.2.1:443` ``,
/// `127.0.0.2 as spiffe://…`, `127.0.0.2 as spiffe://… by a stranger`
fn from(cell: &str) -> Outcome<From> {
    let (address, rest) = cell.split_once(' ').unwrap_or((cell, ""));
    let mut from = From {
        address: address.parse().with_context(|| format!("{cell:?}"))?,
        proxied: None,
        identity: None,
    };
    if let Some(claimed) = rest.strip_prefix("proxied for ") {
        let client = claimed.parse().with_context(|| format!("{cell:?}"))?;
        from.proxied = Some(Proxied::For(client));
    } else if let Some(header) = rest.strip_prefix("proxied as ") {
        from.proxied = Some(Proxied::As(ProxyHeader::read(cells::span(header)?)?));
    } else if let Some(identity) = rest.strip_prefix("as ") {
        let (uri, stranger) =
            identity.strip_suffix(" by a stranger").map_or((identity, false), |uri| (uri, true));
        from.identity = Some((cells::span(uri)?.into(), !stranger));
    } else {
        ensure!(rest.is_empty(), "{cell:?} is no client");
    }
    Ok(from)
}

fn protocols(cell: &str) -> Outcome<Vec<Protocol>> {
    let protocol = |word| match word {
        "h1" => Ok(Protocol::H1),
        "h2" => Ok(Protocol::H2),
        "h3" => Ok(Protocol::H3),
        other => bail!("`{other}` is no protocol"),
    };
    cell.split(' ').map(protocol).collect()
}

fn all_ports() -> String {
    (1024..=u16::MAX).map(|port| port.to_string()).collect::<Vec<_>>().join(",")
}

/// Single addresses, every other one, so that none can be merged with its neighbour.
fn ten_thousand_ranges() -> String {
    let ranges: Vec<String> = (0..10_000)
        .map(|number| format!("\"{}\"", Ipv4Addr::from_bits(0x0a00_0000 + 2 * number)))
        .collect();
    ranges.join(",")
}
