//! The section `websockets`: where WebSockets end with a close frame.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where WebSockets end with close code 1001, because the frame filter is on their routes. Other
/// routes do not pass it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Websockets {
    /// Required. The module of the frame filter (`laststream push --module builtin-frames`
    /// publishes it): `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file that the
    /// proxy can read.
    pub module: String,
    /// The same as `digest`, for this module.
    pub digest: Option<String>,
    /// The routes of the WebSockets; at least one. Of a sidecar these are inbound routes, or
    /// outbound ones if `placement.sidecar.directions` has no `inbound`. WebSockets in the other
    /// direction are reset.
    pub routes: Vec<WebsocketRoute>,
}

/// A route of WebSockets. Write `name` in Istio, `prefix` for an Envoy without a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebsocketRoute {
    /// The name of the route in Istio: `name` of an `http` entry of a VirtualService, with `.` and
    /// the `name` of the match behind it if that has one. Of an HTTPRoute it is the `name` of the
    /// rule, or else `NAMESPACE.HTTPROUTE.INDEX`, from 0 on. Inbound routes of a sidecar are all
    /// called `default`.
    pub name: Option<String>,
    /// How the path begins, such as `/ws`.
    pub prefix: Option<String>,
}

impl WebsocketRoute {
    /// The name, or the prefix.
    pub fn value(&self) -> &str {
        self.name.as_deref().or(self.prefix.as_deref()).unwrap_or_default()
    }
}
