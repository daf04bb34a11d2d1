//! LS705 to LS719: the effects of a change in Envoy; only with `lint --change`.

use crate::change::Effect;
use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;

/// The fix that LS705 to LS713 share.
const FIX: &str = "Raise `drainDuration` so that requests can finish. Make the change when few \
    long streams run, or in steps, a few workloads at a time.";

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS705",
        severity: Severity::Warning,
        title: "the change replaces listeners: an EnvoyFilter patches them",
        why: "Envoy replaces a listener whose configuration differs. After its drain time it \
            closes every stream on the old one at once: WebSockets, event streams, and requests \
            that still wait for their response.",
        fix: FIX,
        check: |inputs, findings| report(Effect::ListenerPatch, inputs, findings),
    },
    Rule {
        code: "LS706",
        severity: Severity::Warning,
        title: "the change replaces filter chains: an EnvoyFilter patches them, filters or routes",
        why: "The filters of a chain are part of it, HTTP filters and inline Wasm included. So are \
            the routes of inbound listeners. Envoy replaces a chain that differs, and after its \
            drain time it closes every stream on the old one at once. Configuration that comes by \
            discovery (EXTENSION_CONFIG, and the routes of gateways and of outbound listeners) can \
            change without that.",
        fix: FIX,
        check: |inputs, findings| report(Effect::ChainPatch, inputs, findings),
    },
    Rule {
        code: "LS707",
        severity: Severity::Warning,
        title: "the change replaces filter chains: authorization stands in them",
        why: "istiod writes AuthorizationPolicy and RequestAuthentication into HTTP filters of the \
            chains. Envoy replaces each chain that differs, and after its drain time it closes \
            every stream on the old one at once.",
        fix: FIX,
        check: |inputs, findings| report(Effect::Authorization, inputs, findings),
    },
    Rule {
        code: "LS708",
        severity: Severity::Warning,
        title: "the change replaces inbound filter chains: mutual TLS stands in them",
        why: "istiod writes PeerAuthentication into the inbound chains: whether they take TLS, and \
            what they match. Envoy replaces each chain that differs, and after its drain time it \
            closes every stream on the old one at once.",
        fix: FIX,
        check: |inputs, findings| report(Effect::Tls, inputs, findings),
    },
    Rule {
        code: "LS709",
        severity: Severity::Warning,
        title: "the change replaces filter chains: telemetry stands in them",
        why: "istiod writes access logs, metrics and traces into the connection manager of every \
            chain. Envoy replaces each chain that differs, and after its drain time it closes \
            every stream on the old one at once.",
        fix: FIX,
        check: |inputs, findings| report(Effect::Telemetry, inputs, findings),
    },
    Rule {
        code: "LS710",
        severity: Severity::Warning,
        title: "the change replaces filter chains: a Wasm filter comes, goes or moves, or Lua \
            differs",
        why: "The list of HTTP filters is part of a chain. A new `url` or `pluginConfig` comes by \
            discovery and replaces nothing; another selector, phase, priority or match does, and \
            so does a WasmPlugin or TrafficExtension that is new or removed. The Lua of a \
            TrafficExtension is part of the chain.",
        fix: FIX,
        check: |inputs, findings| report(Effect::WasmPlace, inputs, findings),
    },
    Rule {
        code: "LS711",
        severity: Severity::Warning,
        title: "the change replaces listeners: ports, servers or hosts differ",
        why: "Gateways, Sidecars, Services and ServiceEntries decide which listeners and chains \
            there are. Envoy removes or replaces those that differ, and after its drain time it \
            closes every stream on the old ones at once.",
        fix: FIX,
        check: |inputs, findings| report(Effect::Listeners, inputs, findings),
    },
    Rule {
        code: "LS712",
        severity: Severity::Warning,
        title: "the change replaces filter chains: routes for TCP and TLS stand in them",
        why: "Routes for TCP and TLS are filter chains of their listener. Routes for HTTP come by \
            discovery and replace nothing, except on waypoints (LS716).",
        fix: FIX,
        check: |inputs, findings| report(Effect::TcpRoutes, inputs, findings),
    },
    Rule {
        code: "LS713",
        severity: Severity::Warning,
        title: "the change may replace every listener of the mesh: its settings differ",
        why: "Access logs, tracing, protocol detection and others of the mesh's settings stand in \
            every listener of every proxy. After the drain time Envoy closes every stream on the \
            old listeners at once, in the whole mesh.",
        fix: FIX,
        check: |inputs, findings| report(Effect::Mesh, inputs, findings),
    },
    Rule {
        code: "LS714",
        severity: Severity::Info,
        title: "this part of the change replaces no listener",
        why: "Clusters, the routes of gateways and of outbound listeners, and configurations of \
            filters by discovery (EXTENSION_CONFIG, url and pluginConfig of a WasmPlugin or \
            TrafficExtension) count for new requests. Streams that run stay.",
        fix: "No action is needed.",
        check: |inputs, findings| report(Effect::NothingDrains, inputs, findings),
    },
    Rule {
        code: "LS715",
        severity: Severity::Info,
        title: "this part of the change counts from the next start of each pod on",
        why: "ProxyConfig and defaultConfig are read when a proxy starts.",
        fix: "Restart the workloads. With a gate, the restart loses no request.",
        check: |inputs, findings| report(Effect::NextStart, inputs, findings),
    },
    Rule {
        code: "LS716",
        severity: Severity::Warning,
        title: "the change replaces filter chains of waypoints: routes stand in them",
        why: "Gateways and sidecars get routes for HTTP by discovery. istiod writes those of a \
            waypoint into its chains: VirtualServices of the mesh, HTTPRoutes and GRPCRoutes of \
            Services, and `consistentHash` of DestinationRules. Envoy replaces each chain that \
            differs, and after its drain time it closes every stream on the old one at once.",
        fix: "Ignore this rule where there is no waypoint (`--ignore LS716`). Raise \
            `drainDuration` so that requests can finish. Make the change when few long streams \
            run.",
        check: |inputs, findings| report(Effect::WaypointRoutes, inputs, findings),
    },
    Rule {
        code: "LS717",
        severity: Severity::Warning,
        title: "the change replaces filter chains of Envoy Gateway: this part stands in them",
        why: "Envoy Gateway writes these fields into the connection manager or the filters of a \
            listener, disabled where no route needs them. Envoy replaces each chain that differs, \
            and after its drain time it closes every stream on the old one at once, of all routes \
            of the listener. From 1.10 on, Lua and API keys are in the routes.",
        fix: "Raise `shutdown.drainTimeout` of the EnvoyProxy so that requests can finish. Make \
            the change when few long streams run.",
        check: |inputs, findings| report(Effect::GatewayFilters, inputs, findings),
    },
    Rule {
        code: "LS718",
        severity: Severity::Warning,
        title: "the change may replace filter chains of Envoy Gateway: a filter comes or goes",
        why: "For CORS, CSRF, OIDC, authorization, rate limits and others the listener has one \
            empty filter, and the settings are in routes. Envoy Gateway adds that filter for the \
            first route that needs it and removes it after the last one. Both replace the chain: \
            after the drain time its streams are closed at once. Between them nothing drains.",
        fix: "Nothing, if another route of the listener has the same feature before and after \
            the change. Otherwise make the change when few long streams run, and keep one such \
            route afterwards.",
        check: |inputs, findings| report(Effect::FirstFilter, inputs, findings),
    },
    Rule {
        code: "LS719",
        severity: Severity::Info,
        title: "this part of the change replaces the pods of Envoy Gateway",
        why: "It is in the Deployment or in Envoy's bootstrap and arguments, so every proxy of \
            its Gateways is replaced.",
        fix: "With a gate, the replacement loses no request. Without one, make it when few long \
            streams run.",
        check: |inputs, findings| report(Effect::PodsReplaced, inputs, findings),
    },
];

fn report<'g>(effect: Effect, inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for part in inputs.changes().iter().filter(|part| part.effect == effect) {
        findings.at(part.node(inputs), part.message.clone());
    }
}
