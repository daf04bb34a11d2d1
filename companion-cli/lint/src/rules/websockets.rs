//! LS63x: the frame filter, which ends WebSockets with a close frame.

use laststream_filter::config::wire::Role;

use crate::envoy_filter::patch_of;
use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;
use crate::listeners::uses;
use crate::modules::{Module, modules, ours};
use crate::node::Node;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS630",
        severity: Severity::Error,
        title: "WebSockets get a separate filter chain",
        why: "A list in `upgrade_configs[].filters` replaces the whole chain for upgrades. In \
            Istio that drops authentication and authorization for WebSockets, and nothing says so.",
        fix: "Put the filter into the chain of all requests with `disabled: true`, and enable it \
            on routes by `typed_per_filter_config`, as `laststream render` does for `websockets`.",
        check: own_chain,
    },
    Rule {
        code: "LS631",
        severity: Severity::Error,
        title: "the frame filter is on for every route",
        why: "Without `disabled: true` in the chain, Envoy enters the frame filter for every chunk \
            of every request and response.",
        fix: "Write `disabled: true` beside the filter's name, and enable it on the routes of \
            WebSockets by `typed_per_filter_config`.",
        check: always_on,
    },
    Rule {
        code: "LS632",
        severity: Severity::Warning,
        title: "the frame filter is off for every route",
        why: "No route enables it by `typed_per_filter_config`, so no WebSocket gets a close \
            frame: the gate resets them (1006).",
        fix: "Name the routes in `websockets.routes` of the policy, or add a patch for HTTP_ROUTE \
            with the filter's name and `{\"@type\": \
            type.googleapis.com/envoy.config.route.v3.FilterConfig, is_optional: true, config: \
            {\"@type\": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm}}`. \
            istiod refuses `config: {}`.",
        check: never_on,
    },
    Rule {
        code: "LS633",
        severity: Severity::Error,
        title: "the frame filter has the module of another role",
        why: "The role `websocket` is that of a second file: the first one has no callbacks for \
            bodies, and each refuses the configuration of the other. Envoy then refuses the \
            listener, or serves without the filter.",
        fix: "Push the other file with `laststream push --module builtin-frames` under another \
            name.",
        check: wrong_module,
    },
];

fn frame_filters(inputs: &Inputs) -> impl Iterator<Item = Module<'_>> {
    let is_one =
        |module: &Module<'_>| module.wire().is_some_and(|wire| wire.role == Role::Websocket);
    ours(inputs).filter(is_one)
}

/// Checks only filters of a mesh: the files do not show what the chain of a plain Envoy should
/// contain.
fn own_chain<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        for filter in uses(inputs, module) {
            let is_for_upgrades =
                filter.upwards().any(|node| node.key_text() == Some("upgrade_configs"));
            if is_for_upgrades && patch_of(filter).is_some() {
                findings
                    .at(filter, format!("`{}` stands in a chain for upgrades only", module.name()));
            }
        }
    }
}

fn always_on<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        for filter in uses(inputs, module) {
            if !filter.field("disabled").is_some_and(Node::is_true) {
                findings.at(filter, format!("`{}` has no `disabled: true`", module.name()));
            }
        }
    }
}

fn never_on<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        let is_on = inputs
            .keyed_field("typed_per_filter_config", "typedPerFilterConfig")
            .any(|filters| filters.entries().any(|(name, _)| name == module.name()));
        if !is_on {
            findings.at(module.filter(), format!("no route names `{}`", module.name()));
        }
    }
}

fn wrong_module<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        let is_other = |other: &Module<'_>| {
            other.wire().is_some_and(|wire| wire.role != Role::Websocket)
                && other.shares_code(module)
        };
        if let Some(other) = ours(inputs).find(is_other) {
            findings.at(
                module.vm().unwrap_or(module.plugin),
                format!("`{}` has the same module", other.name()),
            );
        }
    }
}
