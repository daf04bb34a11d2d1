//! Rendered configurations believe the client's address only from trusted peers, and the scheme
//! stays safe beside it.

use std::net::{IpAddr, SocketAddr};

use laststream_render::Kind;

use super::rendered::yaml;
use crate::lab::Lab;
use kit::bootstrap::listener::proxy_protocol;
use kit::bootstrap::set;
use kit::h1::Connect;
use kit::prelude::*;

/// The header in which the upstream gets the client's address as Envoy sees it.
const CLIENT: &str = "x-seen-client";
const PROTO: &str = "x-forwarded-proto";
const XFF: &str = "x-forwarded-for";
/// Headers that only Envoy may write.
const EDGE: [&str; 6] = [
    "x-envoy-external-address",
    "x-envoy-decorator-operation",
    "x-envoy-downstream-service-cluster",
    "x-envoy-downstream-service-node",
    "x-envoy-original-host",
    "x-envoy-original-path",
];
const FORGED: &str = "192.0.2.66";
const STRANGER: &str = "127.0.0.9";

/// A request, and the headers that the upstream must get.
struct Row<'t> {
    from: &'t str,
    sent: Vec<(&'t str, &'t str)>,
    client: &'t str,
    proto: &'t str,
    /// `x-forwarded-for` at the upstream.
    list: &'t str,
}

impl<'t> Row<'t> {
    fn read(line: &'t str) -> Outcome<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [from, sent, client, proto, list] = cells[..] else { bail!("five cells: {line}") };
        let headers = sent.split(';').filter(|header| !header.is_empty());
        let headers = headers.map(|header| header.split_once(':').context("a header"));
        let sent = headers
            .map(|header| header.map(|(name, value)| (name.trim(), value.trim())))
            .collect::<Outcome<_>>()?;
        Ok(Self { from, sent, client, proto, list })
    }
}

/// The policy's `forwarded_for`, and its rows.
fn table() -> Outcome<Vec<(&'static str, Vec<Row<'static>>)>> {
    let sections = include_str!("clients.txt").split("\n\n").skip(1);
    sections
        .map(|section| {
            let mut lines = section.lines().filter(|line| !line.starts_with('#'));
            let from = lines.next().and_then(|line| line.strip_prefix("forwarded_for: "));
            Ok((from.context("forwarded_for")?, lines.map(Row::read).collect::<Outcome<_>>()?))
        })
        .collect()
}

pub(super) async fn rendered_clients_are_those_of_trusted_peers(lab: &Lab) -> Outcome {
    let table = table()?;
    ensure_eq!(table.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 24, "rows");
    for engine in ["wasm", "native"] {
        for (from, rows) in &table {
            let upstream = Upstream::start().await?;
            let envoy = started(lab, &rendered(lab, from, engine)?, &upstream).await?;
            let to = envoy.address("main").await?;
            let mut wrong = Vec::new();
            for row in rows {
                if let Err(failure) = holds(row, to, &upstream).await {
                    wrong.push(format!("{:?} from {}: {failure:#}", row.sent, row.from));
                }
            }
            ensure!(wrong.is_empty(), "{from}, {engine}:\n{}", wrong.join("\n"));
        }
    }
    Ok(())
}

/// Envoy treats an empty list as trust in every peer, so `render` must never write one.
pub(super) async fn an_empty_list_of_trusted_peers_believes_everyone(lab: &Lab) -> Outcome {
    let mut config = rendered(lab, "xff", "wasm")?;
    let list = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/\
        original_ip_detection_extensions/0/typed_config/xff_trusted_cidrs";
    let cidrs = config.pointer(list).and_then(|list| list["cidrs"].as_array()).map(Vec::len);
    ensure_eq!(cidrs, Some(2), "trusted ranges");
    set(&mut config, list, json!({}));
    let upstream = Upstream::start().await?;
    let envoy = started(lab, &config, &upstream).await?;
    let forged = "127.0.0.9 | x-forwarded-for: 203.0.113.7; x-forwarded-proto: https | \
        203.0.113.7 | http | 203.0.113.7,127.0.0.9";
    let forged = Row::read(forged)?;
    holds(&forged, envoy.address("main").await?, &upstream)
        .await
        .context("the scheme stays safe even there")
}

/// The reason why `nlb` and `forwarded_for` are refused together: Envoy compares the addresses in
/// PROXY headers with the trusted peers.
pub(super) async fn a_proxy_header_would_forge_a_trusted_peer(lab: &Lab) -> Outcome {
    let mut config = rendered(lab, "xff", "wasm")?;
    let filters = json!([proxy_protocol(json!({}))]);
    set(&mut config, "/static_resources/listeners/0/listener_filters", filters);
    let upstream = Upstream::start().await?;
    let envoy = started(lab, &config, &upstream).await?;
    let to = envoy.address("main").await?;
    for header in ["v1 192.0.2.1:443 from 127.0.0.2", "v2 192.0.2.1:443 from 127.0.0.2"] {
        let request = Request::get("/").header(XFF, "203.0.113.7").header(PROTO, "https");
        let stranger: IpAddr = STRANGER.parse()?;
        let connect = Connect::to(to).from(stranger).proxied(header)?;
        connect.open().await?.request(&request).await?.expect(200)?;
        let seen = upstream.last()?;
        ensure_eq!(seen.header(CLIENT), Some("203.0.113.7".into()), "the client's address");
        ensure_eq!(seen.header(PROTO), Some("http".into()), "the scheme stays safe even there");
    }
    Ok(())
}

/// A rendered bootstrap that also sends the client's address to the upstream, in [`CLIENT`].
fn rendered(lab: &Lab, from: &str, engine: &str) -> Outcome<Value> {
    let policy = format!(
        "module: {}\nplacement: {{envoy: {{}}}}\ngate: {{enabled: false}}\nengine: {engine}\n\
         forwarded_for: {from}\n\
         forwarded_proto: {{presets: [gcp], trust: {{peers: [127.0.0.2, 10.0.0.0/16]}}}}\n",
        lab.module.display()
    );
    let mut config = yaml(Kind::Envoy, &policy)?;
    super::on_free_ports(&mut config);
    let told = json!([{
        "header": { "key": CLIENT, "value": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" },
    }]);
    let listener = &mut config["static_resources"]["listeners"][0];
    for chain in ["/filter_chains/0", "/default_filter_chain"] {
        let manager = format!("{chain}/filters/0/typed_config");
        if listener.pointer(&manager).is_some() {
            let to = format!("{manager}/route_config/request_headers_to_add");
            set(listener, &to, told.clone());
        }
    }
    Ok(config)
}

async fn started(lab: &Lab, config: &Value, upstream: &Upstream) -> Outcome<Envoy> {
    let mut config = config.clone();
    let app = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/\
        address/socket_address/port_value";
    set(&mut config, app, json!(upstream.h1().port()));
    Envoy::start(&lab.envoy, config, Options::default()).await
}

async fn holds(row: &Row<'_>, to: SocketAddr, upstream: &Upstream) -> Outcome {
    let forged = EDGE.iter().map(|name| (*name, FORGED));
    let request = row
        .sent
        .iter()
        .copied()
        .chain(forged)
        .fold(Request::get("/"), |request, (name, value)| request.header(name, value));
    let from: IpAddr = row.from.parse()?;
    Connect::to(to).from(from).open().await?.request(&request).await?.expect(200)?;
    let seen = upstream.last()?;
    ensure_eq!(seen.header(CLIENT), Some(row.client.into()), "the client's address");
    ensure_eq!(seen.header(PROTO), Some(row.proto.into()), "the scheme");
    ensure_eq!(seen.header(XFF).unwrap_or_default(), row.list, "x-forwarded-for");
    for name in EDGE {
        ensure!(seen.header(name).as_deref() != Some(FORGED), "{name} is the client's own");
    }
    Ok(())
}
