//! The `x-forwarded-proto` that the app sees behind a gateway: with nothing, with the usual Lua
//! filter, with laststream.
//!
//! The load balancer is a connection from a separate address, with the headers that an AWS
//! Application Load Balancer writes; the untrusted client is one from another address. Both
//! addresses are of the loopback interface.

use std::net::Ipv4Addr;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::app::App;
use super::bootstrap;
use super::clock::Clock;
use super::proxy::{Proxy, Starter};
use crate::http::Http;
use laststream_gate::GateError;
use laststream_http::Route;

const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const UNTRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const WAIT: Duration = Duration::from_secs(10);
/// The usual filter: <https://github.com/istio/istio/issues/7964>.
const LUA: &str = "\
function envoy_on_request(request_handle)
  request_handle:headers():replace(\"x-forwarded-proto\", \"https\")
end
";
/// The listeners, in the order of the columns.
const LISTENERS: [&str; 3] = ["nothing", "lua", "main"];

#[derive(Debug, Clone, Serialize)]
pub struct Scheme {
    pub rows: Vec<Row>,
}

/// The values that the app saw for one kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub request: &'static str,
    pub truth: &'static str,
    pub nothing: String,
    /// The value behind a gateway with the usual Lua filter.
    pub lua: String,
    pub laststream: String,
}

struct Kind {
    request: &'static str,
    truth: &'static str,
    from: Ipv4Addr,
    headers: &'static [(&'static str, &'static str)],
    /// The expected values: with nothing, with Lua, with laststream.
    expected: [&'static str; 3],
}

const KINDS: [Kind; 3] = [
    Kind {
        request: "http through the load balancer",
        truth: "http",
        from: BALANCER,
        headers: &[
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-port", "80"),
        ],
        expected: ["http", "https", "http"],
    },
    Kind {
        request: "https through the load balancer",
        truth: "https",
        from: BALANCER,
        headers: &[
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-port", "443"),
        ],
        expected: ["http", "https", "https"],
    },
    Kind {
        request: "http of an untrusted client that claims https",
        truth: "http",
        from: UNTRUSTED,
        headers: &[("x-forwarded-proto", "https"), ("x-forwarded-port", "443")],
        expected: ["http", "https", "http"],
    },
];

impl Scheme {
    pub fn surprises(&self) -> Vec<String> {
        let mut surprises = Vec::new();
        for (row, kind) in self.rows.iter().zip(&KINDS) {
            for ((name, seen), expected) in row.columns().into_iter().zip(kind.expected) {
                if seen != expected {
                    surprises.push(format!(
                        "{}, with {name}: expected the app to see `{expected}`, but it saw \
                            `{seen}`",
                        row.request
                    ));
                }
            }
        }
        surprises
    }
}

impl Row {
    pub fn columns(&self) -> [(&'static str, &str); 3] {
        [("nothing", &self.nothing), ("Lua", &self.lua), ("laststream", &self.laststream)]
    }
}

/// A gateway with a listener for each column.
pub(super) struct SchemeStage {
    proxy: Proxy,
    _app: App,
    ports: [u16; 3],
}

impl SchemeStage {
    /// Starts the app and the gateway; [`SchemeStage::ready`] waits until the gateway serves.
    pub(super) fn start(starter: &Starter) -> Result<Self, String> {
        let app = App::start()?;
        let admin = starter.admin("scheme");
        let mut config = bootstrap::rendered(&policy(app.port()), starter.module(), &admin)?;
        let lua = json!({
            "name": "envoy.filters.http.lua",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                "default_source_code": { "inline_string": LUA },
            },
        });
        for (name, filters) in [("nothing", vec![]), ("lua", vec![lua])] {
            let listener = bootstrap::listener(name, "app", json!({}), &filters);
            bootstrap::add(&mut config, "/static_resources/listeners", listener);
        }
        Ok(Self { proxy: starter.start("scheme", &config)?, _app: app, ports: [0; 3] })
    }

    pub(super) fn ready(mut self, stop: &Clock) -> Result<Self, String> {
        self.proxy.ready(stop)?;
        for (port, name) in self.ports.iter_mut().zip(LISTENERS) {
            *port = self.proxy.port(name)?;
        }
        Ok(self)
    }

    pub(super) fn play(&self) -> Result<Scheme, String> {
        let row = |kind: &Kind| {
            let scheme = |port: u16| {
                seen(kind.from, port, kind.headers).map_err(|error| failed(kind.from, &error))
            };
            let [nothing, lua, laststream] = self.ports;
            let (nothing, lua, laststream) = (scheme(nothing)?, scheme(lua)?, scheme(laststream)?);
            Ok(Row { request: kind.request, truth: kind.truth, nothing, lua, laststream })
        };
        Ok(Scheme { rows: KINDS.iter().map(row).collect::<Result<_, String>>()? })
    }
}

fn failed(from: Ipv4Addr, error: &GateError) -> String {
    let hint = match error {
        GateError::Unreachable(_) => {
            format!("; macOS must be told of the address: sudo ifconfig lo0 alias {from}")
        }
        _ => String::new(),
    };
    format!("a request from a loopback address of its own failed: {error}{hint}")
}

fn policy(app: u16) -> Value {
    json!({
        "placement": { "envoy": { "app": format!("127.0.0.1:{app}") } },
        "forwarded_proto": { "presets": ["aws_alb"], "trust": { "peers": [BALANCER.to_string()] } },
        "gate": { "enabled": false },
    })
}

/// The value of `x-forwarded-proto` that the app reports.
fn seen(from: Ipv4Addr, port: u16, headers: &[(&'static str, &str)]) -> Result<String, GateError> {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let http = Http::new(Route::From(from.into()), false);
    let response =
        http.request(Method::GET, &format!("http://127.0.0.1:{port}/headers"), &headers, WAIT)?;
    let json: Value = serde_json::from_str(&response.body)
        .map_err(|error| GateError::Other(error.to_string()))?;
    Ok(json["headers"]["x-forwarded-proto"].as_str().unwrap_or("none").to_owned())
}
