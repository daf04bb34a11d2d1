//! The values and the age of Istio's annotations: LS652, LS653. By Istio 1.31
//! (pkg/kube/inject/validate.go, and istio.io/api/annotation/annotations.yaml).

use std::net::IpAddr;

use super::annotations;
use crate::{Findings, Inputs, Node};

const PORTS: &str = "ports with commas between them";
const RANGES: &str = "ranges such as `10.0.0.0/8`, with commas between them and no spaces";
/// The words that Go's `strconv.ParseBool` takes.
const BOOLS: &str = "1 t T TRUE true True 0 f F FALSE false False";
const SUFFIXES: &str = "Ki Mi Gi Ti Pi Ei n u m k M G T P E";
/// What stands in place of a deprecated annotation. Those of statistics are deprecated, too, in
/// favour of `proxyStatsMatcher`; no version without them is announced.
const DEPRECATED: [(&str, &str); 4] = [
    (INJECT, "the label of this name"),
    ("sidecar.istio.io/discoveryAddress", "`discoveryAddress` in `proxy.istio.io/config`"),
    ("sidecar.istio.io/extraStatTags", "`extraStatTags` in `proxy.istio.io/config`"),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", "`istio.io/reroute-virtual-interfaces`"),
];
const INJECT: &str = "sidecar.istio.io/inject";

pub(super) fn refused<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (name, value) in annotations(inputs) {
        let text = value.text().unwrap_or_default();
        if let Some(wanted) = wanted_instead(name, text) {
            findings.at(value, format!("`{text}` is here, and `{name}` takes {wanted}"));
        }
    }
}

/// What an annotation takes, if this is not it.
fn wanted_instead(name: &str, text: &str) -> Option<&'static str> {
    let is_list = |is_one: fn(&str) -> bool| text.is_empty() || text.split(',').all(is_one);
    let (is_right, wanted) = match name.rsplit_once(".istio.io/")?.1 {
        "interceptionMode" => {
            (["REDIRECT", "TPROXY", "NONE"].contains(&text), "`REDIRECT`, `TPROXY` or `NONE`")
        }
        "includeInboundPorts" => (text == "*" || is_list(is_port), "`*`, or a list of ports"),
        "excludeInboundPorts" | "excludeOutboundPorts" => (is_list(is_port), PORTS),
        "includeOutboundIPRanges" => (text == "*" || is_list(is_range), RANGES),
        "excludeOutboundIPRanges" => (is_list(is_range), RANGES),
        "port" => (is_port(text), "a port"),
        "initialDelaySeconds" | "periodSeconds" | "failureThreshold" => {
            (text.parse::<u32>().is_ok(), "a whole number")
        }
        "merge-metrics" => (BOOLS.split(' ').any(|word| word == text), "`true` or `false`"),
        "proxyCPU" | "proxyCPULimit" | "proxyMemory" | "proxyMemoryLimit" => {
            (is_quantity(text), "a quantity such as `100m` or `128Mi`")
        }
        _ => return None,
    };
    (!is_right).then_some(wanted)
}

fn is_port(text: &str) -> bool {
    text.trim().parse::<u16>().is_ok()
}

fn is_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_quantity(text: &str) -> bool {
    let number = SUFFIXES.split(' ').find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text);
    number.ends_with(|last: char| last.is_ascii_digit() || last == '.')
        && number.parse::<f64>().is_ok()
}

pub(super) fn deprecated<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (name, value) in annotations(inputs) {
        let Some((_, instead)) = DEPRECATED.iter().find(|(old, _)| *old == name) else { continue };
        let metadata = value.parent().and_then(Node::parent);
        let labels = metadata.and_then(|metadata| metadata.get("labels"));
        let has_label = labels.is_some_and(|labels| labels.get(INJECT).is_some());
        if !(name == INJECT && has_label) {
            findings.at(value.key().unwrap_or(value), format!("write {instead}"));
        }
    }
}
