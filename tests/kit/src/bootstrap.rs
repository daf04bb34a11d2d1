//! Envoy's configuration as values: small builders for the parts that the cases vary, plain JSON
//! for the rest.
//!
//! Every builder has `with(pointer, value)`, which sets any field that has no method of its own.

pub mod cluster;
pub mod filters;
pub mod hcm;
pub mod listener;
pub mod route;

use serde_json::{Map, Value, json};

pub use self::hcm::Hcm;
pub use self::listener::Listener;
pub use self::route::Route;
use crate::xds::Xds;

/// A whole bootstrap.
#[derive(Clone)]
pub struct Bootstrap(Value);

impl Default for Bootstrap {
    fn default() -> Self {
        let admin = json!({ "address": socket_address("127.0.0.1", 0) });
        let node = json!({ "id": "test-node", "cluster": "test-cluster" });
        Self(json!({
            "admin": admin, "node": node,
            "static_resources": { "clusters": [], "listeners": [] },
        }))
    }
}

impl Bootstrap {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn cluster(mut self, cluster: Value) -> Self {
        push(&mut self.0, "/static_resources/clusters", cluster);
        self
    }

    pub fn listener(mut self, listener: Listener) -> Self {
        push(&mut self.0, "/static_resources/listeners", listener.build());
        self
    }

    /// Listeners from the file that [`Xds`] writes.
    pub fn listeners_from(self, xds: &Xds) -> Self {
        self.with("/dynamic_resources/lds_config", xds.listeners_source())
    }

    /// `stats_config.stats_matcher`, for example [`only_stats_with_prefixes`].
    pub fn stats_matcher(self, matcher: Value) -> Self {
        self.with("/stats_config/stats_matcher", matcher)
    }

    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        set(&mut self.0, pointer, value);
        self
    }

    pub fn build(self) -> Value {
        self.0
    }
}

/// Keeps only the stats whose names begin with one of these prefixes.
pub fn only_stats_with_prefixes(prefixes: &[&str]) -> Value {
    let patterns: Vec<Value> = prefixes.iter().map(|prefix| json!({ "prefix": prefix })).collect();
    json!({ "inclusion_list": { "patterns": patterns } })
}

pub fn socket_address(address: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": address, "port_value": port } })
}

/// `{"name": …, "typed_config": {"@type": …, …}}`
pub fn extension(name: &str, kind: &str, mut config: Value) -> Value {
    config["@type"] = json!(format!("type.googleapis.com/{kind}"));
    json!({ "name": name, "typed_config": config })
}

/// Sets a field, making objects on the way where there are none; array positions must exist.
pub fn set(target: &mut Value, pointer: &str, value: Value) {
    let mut place = target;
    for key in pointer.split('/').skip(1).map(|key| key.replace("~1", "/")) {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = match (&*place, key.parse::<usize>()) {
            (Value::Array(_), Ok(index)) => &mut place[index],
            _ => &mut place[key],
        };
    }
    *place = value;
}

fn push(target: &mut Value, pointer: &str, value: Value) {
    if let Some(Value::Array(array)) = target.pointer_mut(pointer) {
        array.push(value);
    }
}
