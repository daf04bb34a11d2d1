//! The PROXY protocol header in front of a connection, as a row writes it: `none`, `v1 HOST:PORT`,
//! `v1 unknown`, `v2 HOST:PORT`, `v2 unix`, `v2 unspecified`, or `raw` and bytes. `itself` stands
//! for the address of the listener. Words behind the address change the header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::cells;
use crate::{Context as _, Outcome, bail, ensure};

const SOURCE_PORT: u16 = 50_000;
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
/// The destination in a header if the row names none. Its port would mean TLS if it were believed.
const DESTINATION: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 200), 443);
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The PROXY header in front of a connection.
#[derive(Clone, Debug)]
pub struct ProxyHeader {
    kind: Kind,
    source: IpAddr,
    /// Version 2 has the command LOCAL: the connection is the sender's own.
    is_local: bool,
    /// Version 2 says that the client came over UDP.
    is_udp: bool,
    /// Version 2 has more fields behind the addresses.
    has_fields: bool,
    /// Each byte is sent alone.
    is_split: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Absent,
    Raw(Vec<u8>),
    V1(Destination),
    V1Unknown,
    V2(Destination),
    V2Unix,
    V2Unspecified,
}

#[derive(Clone, Copy, Debug)]
enum Destination {
    Itself,
    Address(SocketAddr),
}

impl ProxyHeader {
    /// A header for this client, in version 1 or 2.
    pub(crate) fn of_client(client: Ipv4Addr, version_1: bool) -> Self {
        let to = Destination::Address(DESTINATION.into());
        let kind = if version_1 { Kind::V1(to) } else { Kind::V2(to) };
        Self { source: client.into(), ..Self::new(kind) }
    }

    /// A header for a usual client, in version 1 or 2.
    pub(crate) fn usual(version_1: bool) -> Self {
        Self::of_client(SOURCE, version_1)
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            source: SOURCE.into(),
            is_local: false,
            is_udp: false,
            has_fields: false,
            is_split: false,
        }
    }

    pub(crate) fn read(text: &str) -> Outcome<Self> {
        if let Some(bytes) = text.strip_prefix("raw ") {
            return Ok(Self::new(Kind::Raw(cells::bytes(bytes)?)));
        }
        let mut words = text.split(' ');
        let kind = match (words.next(), words.next()) {
            (Some("none"), None) => Kind::Absent,
            (Some("v1"), Some("unknown")) => Kind::V1Unknown,
            (Some("v1"), Some(address)) => Kind::V1(destination(address)?),
            (Some("v2"), Some("unix")) => Kind::V2Unix,
            (Some("v2"), Some("unspecified")) => Kind::V2Unspecified,
            (Some("v2"), Some(address)) => Kind::V2(destination(address)?),
            _ => bail!("{text:?} is no PROXY header"),
        };
        let mut header = Self::new(kind);
        while let Some(word) = words.next() {
            let is_v2 = matches!(header.kind, Kind::V2(_) | Kind::V2Unix | Kind::V2Unspecified);
            match word {
                "from" => {
                    let source = words.next().with_context(|| format!("no address in {text:?}"))?;
                    header.source = source.parse().with_context(|| text.to_owned())?;
                }
                "split" => header.is_split = true,
                "local" if is_v2 => header.is_local = true,
                "udp" if is_v2 => header.is_udp = true,
                "fields" if is_v2 => header.has_fields = true,
                other => bail!("`{other}` says nothing of a PROXY header, in {text:?}"),
            }
        }
        Ok(header)
    }

    /// The bytes to send, in pieces with a pause between them.
    pub(crate) fn pieces(&self, itself: SocketAddr) -> Outcome<Vec<Vec<u8>>> {
        let bytes = match &self.kind {
            Kind::Absent => return Ok(Vec::new()),
            Kind::Raw(bytes) => bytes.clone(),
            Kind::V1Unknown => b"PROXY UNKNOWN\r\n".to_vec(),
            Kind::V1(to) => self.version_1(to.at(itself)).into_bytes(),
            Kind::V2(to) => self.version_2(to.at(itself))?,
            Kind::V2Unix => self.framed(0x31, &[b'a'; 216]),
            Kind::V2Unspecified => self.framed(0, &[]),
        };
        if self.is_split {
            return Ok(bytes.into_iter().map(|byte| vec![byte]).collect());
        }
        Ok(vec![bytes])
    }

    /// The source address. The usual one is replaced by an IPv6 address if the destination is one.
    fn source_for(&self, to: SocketAddr) -> IpAddr {
        match (self.source, to) {
            (IpAddr::V4(source), SocketAddr::V6(_)) if source == SOURCE => {
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9).into()
            }
            (source, _) => source,
        }
    }

    fn version_1(&self, to: SocketAddr) -> String {
        let family = if to.is_ipv4() { "TCP4" } else { "TCP6" };
        let source = self.source_for(to);
        format!("PROXY {family} {source} {} {SOURCE_PORT} {}\r\n", to.ip(), to.port())
    }

    fn version_2(&self, to: SocketAddr) -> Outcome<Vec<u8>> {
        let (family, mut body) = match (self.source_for(to), to.ip()) {
            (IpAddr::V4(source), IpAddr::V4(to)) => (0x10, [source.octets(), to.octets()].concat()),
            (IpAddr::V6(source), IpAddr::V6(to)) => (0x20, [source.octets(), to.octets()].concat()),
            _ => bail!("a PROXY header has addresses of one family"),
        };
        body.extend_from_slice(&SOURCE_PORT.to_be_bytes());
        body.extend_from_slice(&to.port().to_be_bytes());
        Ok(self.framed(family | if self.is_udp { 2 } else { 1 }, &body))
    }

    fn framed(&self, family: u8, body: &[u8]) -> Vec<u8> {
        /// The endpoint's name as AWS writes it, padding, and a field with `https` for its value.
        const FIELDS: &[u8] = b"\xea\0\x05\x01vpce\x04\0\x03\0\0\0\x01\0\x05https";
        let fields = if self.has_fields { FIELDS } else { &[] };
        let length = u16::try_from(body.len() + fields.len()).unwrap_or(u16::MAX);
        let command = if self.is_local { 0x20 } else { 0x21 };
        [SIGNATURE, &[command, family], &length.to_be_bytes(), body, fields].concat()
    }
}

impl Destination {
    fn at(self, itself: SocketAddr) -> SocketAddr {
        match self {
            Self::Itself => itself,
            Self::Address(address) => address,
        }
    }
}

fn destination(text: &str) -> Outcome<Destination> {
    if text == "itself" {
        return Ok(Destination::Itself);
    }
    let address: SocketAddr = text.parse().with_context(|| format!("{text:?}"))?;
    ensure!(address.to_string() == text, "write {text:?} as {address}");
    Ok(Destination::Address(address))
}
