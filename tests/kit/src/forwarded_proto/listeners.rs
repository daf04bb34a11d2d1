//! The listeners of `listeners.md`, as Envoy's configuration.

use serde_json::{Map, Value, json};

use super::markdown::{self, Grid};
use crate::bootstrap::{Hcm, Listener, Route, filters};
use crate::certificates::{Authority, Identity};
use crate::{Context as _, Outcome, bail, ensure};

pub const TO_HTTP1: &str = "app.test";
pub const TO_HTTP2: &str = "app-http2.test";
pub const TLS_ONLY: &str = "tls-only.test";
/// Envoy follows a redirect of its upstream itself, and the request goes through all filters a
/// second time.
pub const REDIRECTED: &str = "redirected.test";
/// The response header that names the chosen route.
pub const ROUTE: &str = "x-route";

const COLUMNS: [&str; 9] = [
    "listener",
    "use_remote_address",
    "hops",
    "connection",
    "address",
    "saves",
    "direct peer",
    "appends port",
    "stands for",
];

/// The parts of a connection manager that belong to an engine.
pub struct Form {
    pub early: Option<Value>,
    /// In front of the router.
    pub filters: Vec<Value>,
    /// A filter chain in front of the one for all other connections: its match, and the additional
    /// fields of its connection manager.
    pub limited: Option<(Value, Map<String, Value>)>,
}

/// A named set-up of a listener.
pub struct Setup {
    pub name: String,
    pub transport: Transport,
    use_remote_address: bool,
    hops: u32,
    address: String,
    /// The early mutation of the peer's own header.
    early: Option<Value>,
    /// Whether that mutation writes http over the peer's own header, as at a sidecar.
    pub overwrites: bool,
    /// The filter in front that writes the peer information about the connection.
    peer_info: Option<Value>,
    appends_port: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Proxied,
    /// A connection may also come without a PROXY header.
    MaybeProxied,
    Tls,
    ProxiedTls,
    MaybeProxiedTls,
    Mutual,
    OptionalCertificate,
    AnyCertificate,
    Quic,
}

impl Transport {
    const WORDS: [(&str, Self); 10] = [
        ("plain", Self::Plain),
        ("PROXY protocol", Self::Proxied),
        ("PROXY protocol if any", Self::MaybeProxied),
        ("TLS", Self::Tls),
        ("PROXY protocol, TLS", Self::ProxiedTls),
        ("PROXY protocol if any, TLS", Self::MaybeProxiedTls),
        ("mTLS", Self::Mutual),
        ("TLS, certificate if any", Self::OptionalCertificate),
        ("TLS, any certificate", Self::AnyCertificate),
        ("QUIC", Self::Quic),
    ];

    pub fn is_plaintext(self) -> bool {
        matches!(self, Self::Plain | Self::Proxied | Self::MaybeProxied)
    }

    pub fn is_proxied(self) -> bool {
        matches!(
            self,
            Self::Proxied | Self::MaybeProxied | Self::ProxiedTls | Self::MaybeProxiedTls
        )
    }

    pub(crate) fn asks_certificate(self) -> bool {
        matches!(self, Self::Mutual | Self::OptionalCertificate | Self::AnyCertificate)
    }
}

/// The text of `listeners.md`.
pub(crate) const TEXT: &str = text!("listeners.md");

pub fn read(text: &str) -> Outcome<Vec<Setup>> {
    let sections = markdown::sections(text, &[]).context("listeners.md")?;
    let grid = sections
        .iter()
        .find_map(|section| section.table.as_ref())
        .context("listeners.md has no table")?;
    grid.check_columns(&COLUMNS, &[])?;
    let mut setups: Vec<Setup> = Vec::new();
    for (line, row) in &grid.rows {
        let setup = setup(grid, row).with_context(|| format!("listeners.md, line {line}"))?;
        ensure!(
            setups.iter().all(|other| other.name != setup.name),
            "the listener `{}` is there twice",
            setup.name
        );
        setups.push(setup);
    }
    Ok(setups)
}

fn setup(grid: &Grid<'_>, row: &[&str]) -> Outcome<Setup> {
    let cell = |column: &str| grid.cell(row, column).unwrap_or_default();
    let yes = |column: &str| match cell(column) {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => bail!("`{column}` is `{other}`, which is neither yes nor no"),
    };
    let connection = cell("connection");
    let transport = Transport::WORDS
        .iter()
        .find(|(word, _)| *word == connection)
        .map(|(_, transport)| *transport);
    ensure!(!cell("stands for").is_empty(), "an empty reason");
    Ok(Setup {
        name: super::cells::span(cell("listener"))?.into(),
        transport: transport.with_context(|| format!("`{connection}` is no connection"))?,
        use_remote_address: yes("use_remote_address")?,
        hops: cell("hops").parse().context("hops")?,
        address: cell("address").into(),
        early: saving(cell("saves"))?,
        overwrites: cell("saves") == "and overwrites",
        peer_info: match cell("direct peer") {
            "and addresses" => Some(filters::peer_info()),
            _ if yes("direct peer")? => Some(filters::direct_peer()),
            _ => None,
        },
        appends_port: yes("appends port")?,
    })
}

/// The certificate of the listeners, and the authority whose client certificates they accept.
pub struct Certificates {
    pub authority: Authority,
    pub server: Identity,
}

impl Setup {
    /// Whether the set-up has the inputs of the module, the saved header and the peer information.
    /// Envoy's own matchers bring theirs.
    pub fn is_complete(&self) -> bool {
        self.early.is_some() && self.peer_info.is_some()
    }

    /// The parts of the set-up around the module.
    pub fn around(&self, module: Value) -> Form {
        let filters = self.peer_info.iter().cloned().chain([module]).collect();
        Form { early: self.early.clone(), filters, limited: None }
    }

    /// A listener of that name.
    pub fn listener(&self, name: &str, form: Form, certificates: &Certificates) -> Listener {
        let Certificates { authority, server } = certificates;
        let limited = form.limited.clone();
        let hcm = self.connection_manager(name, form);
        let mutual = |hcm| Listener::new(name, hcm).mutual_tls(server, authority);
        let context = "/filter_chains/0/transport_socket/typed_config";
        let optional = |listener: Listener| {
            listener.with(&format!("{context}/require_client_certificate"), json!(false))
        };
        let listener = match self.transport {
            Transport::Plain => Listener::new(name, hcm),
            Transport::Proxied => Listener::new(name, hcm).proxy_protocol(),
            Transport::MaybeProxied => Listener::new(name, hcm).maybe_proxy_protocol(),
            Transport::MaybeProxiedTls => {
                Listener::new(name, hcm).maybe_proxy_protocol().tls(server)
            }
            Transport::Tls => Listener::new(name, hcm).tls(server),
            Transport::ProxiedTls => Listener::new(name, hcm).proxy_protocol().tls(server),
            Transport::Mutual => mutual(hcm),
            Transport::OptionalCertificate => optional(mutual(hcm)),
            Transport::AnyCertificate => {
                let verification = format!(
                    "{context}/common_tls_context/validation_context/trust_chain_verification"
                );
                optional(mutual(hcm)).with(&verification, json!("ACCEPT_UNTRUSTED"))
            }
            Transport::Quic => Listener::quic(name, hcm, server),
        };
        let socket = "/address/socket_address";
        let mut listener = listener.with(&format!("{socket}/address"), json!(self.address));
        if let Some((matches, manager)) = limited {
            listener = listener.limited_chain(matches, manager);
        }
        if self.address == "::" {
            listener.with(&format!("{socket}/ipv4_compat"), json!(true))
        } else {
            listener
        }
    }

    fn connection_manager(&self, name: &str, form: Form) -> Hcm {
        let mut hcm = Hcm::new(name).use_remote_address(self.use_remote_address, self.hops);
        hcm = hcm.with("/route_config/virtual_hosts", virtual_hosts());
        if self.appends_port {
            hcm = hcm.with("/append_x_forwarded_port", json!(true));
        }
        hcm = form.early.into_iter().fold(hcm, Hcm::early_mutations);
        form.filters.into_iter().fold(hcm, Hcm::filter)
    }
}

/// Saves the peer's `x-forwarded-proto` before Envoy overwrites it, as rendered. The empty value is
/// kept: a forged saved header would stay without it.
fn saving(cell: &str) -> Outcome<Option<Value>> {
    let header =
        json!({ "key": "x-laststream-forwarded-proto", "value": "%REQ(x-forwarded-proto)%" });
    let save = json!({ "append": {
        "header": header,
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        "keep_empty_value": true,
    } });
    Ok(match cell {
        "no" => None,
        "yes" => Some(json!([save])),
        "and removes" => Some(json!([save, { "remove": "x-forwarded-proto" }])),
        "and overwrites" => {
            let http = json!({
                "header": { "key": "x-forwarded-proto", "value": "http" },
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            });
            Some(json!([save, { "append": http }]))
        }
        other => bail!("`saves` is `{other}`"),
    })
}

fn virtual_hosts() -> Value {
    let host = |domain: &str, cluster: &str, require_tls: &str| {
        let route = |name: &str| {
            let told = json!([{ "header": { "key": ROUTE, "value": name } }]);
            Route::prefix("/").cluster(cluster).name(name).with("/response_headers_to_add", told)
        };
        let routes =
            [route("https").header("x-forwarded-proto", "https").build(), route("http").build()];
        json!({ "name": domain, "domains": [domain], "require_tls": require_tls, "routes": routes })
    };
    let mut redirected = host(REDIRECTED, "http1", "NONE");
    if let Some(routes) = redirected["routes"].as_array_mut() {
        routes.insert(0, followed().build());
    }
    json!([
        host(TO_HTTP1, "http1", "NONE"),
        host(TO_HTTP2, "http2", "NONE"),
        host(TLS_ONLY, "http1", "ALL"),
        redirected
    ])
}

/// The route of the first pass, which removes the saved header as rendered routes do.
fn followed() -> Route {
    Route::prefix("/redirect/")
        .cluster("http1")
        .follow_redirects()
        .with("/route/internal_redirect_policy/allow_cross_scheme_redirect", json!(true))
        .with("/request_headers_to_remove", json!(["x-laststream-forwarded-proto"]))
}
