//! LS901 to LS932: what an upgrade of Istio, Envoy, Envoy Gateway or Kubernetes changes for objects
//! that are there; only with `lint --upgrade`. This file is the table: each change, the release
//! that it came with, and its source.

mod affected;

use laststream_base::versions::Release;

use super::{delivery, grace, hooks};
use crate::finding::{Rule, Severity};
use crate::upgrade::{ENVOY, ENVOY_GATEWAY, ISTIO, KUBERNETES};

/// A change of a program.
pub(super) struct Change {
    pub(super) program: &'static str,
    /// The release that it came with; none if each one brings it.
    pub(super) since: Option<Release>,
    pub(super) rule: Rule,
}

pub(super) const CHANGES: &[Change] = &[
    Change {
        program: ISTIO,
        since: None,
        rule: Rule {
            code: "LS901",
            severity: Severity::Error,
            title: "Istio: the patch is not for the new version",
            why: "`proxyVersion` is a regular expression for the version of the proxy. A proxy \
                that starts with the new version does not match it, so it lacks the patch: its \
                streams are not counted, or its gate is missing.",
            fix: "Render again with the new version as `istio` of the policy, and apply that \
                before the proxies start. The expression may match both versions: \
                `^1\\.(30|31).*`. \
                (https://istio.io/latest/docs/reference/config/networking/envoy-filter/)",
            check: affected::patches_of_old_proxies,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 30)),
        rule: Rule {
            code: "LS902",
            severity: Severity::Info,
            title: "Istio 1.30: TrafficExtension takes the place of WasmPlugin",
            why: "istiod converts WasmPlugins, so they go on. New features come to \
                TrafficExtension only.",
            fix: "Move the fields below `spec.wasm` of a TrafficExtension when you change the \
                object next: for a short time both apply, so delete the WasmPlugin in the same \
                change. (https://istio.io/latest/blog/2026/traffic-extension-api/)",
            check: affected::wasm_plugins,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 30)),
        rule: Rule {
            code: "LS903",
            severity: Severity::Warning,
            title: "Istio 1.30: TLSRoute and ReferenceGrant are read as v1 only",
            why: "With CRDs of the Gateway API before 1.5 istiod does not see these objects: \
                listeners that pass TLS through get no route and are not opened.",
            fix: "Install the CRDs of the Gateway API 1.5 or newer before Istio, and write \
                `gateway.networking.k8s.io/v1`. \
                (https://istio.io/latest/news/releases/1.30.x/announcing-1.30/upgrade-notes/)",
            check: affected::old_tls_routes,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 31)),
        rule: Rule {
            code: "LS904",
            severity: Severity::Warning,
            title: "Istio 1.31: the gate's port is one that Istio gives to its metrics",
            why: "ENVOY_SECURE_METRICS_PORT and ENVOY_SECURE_MERGED_METRICS_PORT open listeners \
                on all addresses, and Istio's documentation writes 15091 and 15092. Where it is \
                followed, two listeners want one port of the proxy.",
            fix: "Take 16091, the default: leave `gate.port` out of the policy and render again, \
                the stop hook as well. \
                (https://istio.io/latest/docs/tasks/observability/metrics/secure-metrics/)",
            check: affected::gate_on_metrics_port,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 31)),
        rule: Rule {
            code: "LS905",
            severity: Severity::Warning,
            title: "Istio 1.31: scrapes of secure metrics hold the drain",
            why: "The listeners for metrics over mTLS have the stat prefixes secure_stats and \
                secure_merged_stats. A list of your own takes the place of the default, so each \
                scrape is a request that no counter knows: the gate says `partial` and holds.",
            fix: "Add secure_stats and secure_merged_stats to `gate.admin.ignore`, or leave the \
                list out. \
                (https://istio.io/latest/docs/tasks/observability/metrics/secure-metrics/)",
            check: affected::counts_scrapes,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 31)),
        rule: Rule {
            code: "LS906",
            severity: Severity::Info,
            title: "Istio 1.31: the agent keeps Envoy's statistics to itself",
            why: "PILOT_AGENT_MERGE_ENVOY_STATS is read from this version on. With `false` port \
                15020 lacks Envoy's statistics: a Prometheus that scrapes it loses laststream's \
                metrics and its alerts. `laststream status` finds another way by itself.",
            fix: "Scrape port 15090 as well, or remove the setting. \
                (https://github.com/istio/istio/pull/60365)",
            check: affected::unmerged_statistics,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 31)),
        rule: Rule {
            code: "LS907",
            severity: Severity::Warning,
            title: "Istio 1.31: nothing of it is published at this address",
            why: "Images and charts from 1.31 on are not at gcr.io/istio-release, \
                registry.istio.io and istio-release.storage.googleapis.com. The new version \
                cannot be pulled, and a pod that is replaced does not start.",
            fix: "Images are at `docker.io/istio`, charts at \
                `https://blob.istio.io/istio-release/charts` and \
                `oci://ghcr.io/istio/release/charts`. \
                (https://istio.io/latest/news/releases/1.31.x/announcing-1.31/upgrade-notes/)",
            check: delivery::former_hosts,
        },
    },
    Change {
        program: ISTIO,
        since: Some((1, 31)),
        rule: Rule {
            code: "LS908",
            severity: Severity::Warning,
            title: "Istio 1.31: a Gateway without its ConfigMap is not accepted",
            why: "A Gateway whose `parametersRef` names a missing ConfigMap is `Accepted: False`; \
                before, it ran without the overlay. Tools that wait for `Accepted` wait for ever.",
            fix: "Apply the ConfigMap before the Gateway or together with it, or give lint the \
                file that has it. \
                (https://github.com/istio/istio/blob/master/releasenotes/notes/60804.yaml)",
            check: affected::missing_overlays,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS911",
            severity: Severity::Info,
            title: "Envoy 1.40: clients on a replaced filter chain are told late",
            why: "The connections of a replaced chain follow `--drain-strategy`, which is \
                `gradual` by default: the closer the end of the drain time, the more responses \
                close their connection. Before, each one did. Istio and Envoy Gateway set \
                `immediate`.",
            fix: "Start Envoy with `--drain-strategy immediate`. \
                (https://github.com/envoyproxy/envoy/blob/v1.40.0/changelogs/1.40.0.yaml)",
            check: affected::gradual_drains,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS912",
            severity: Severity::Info,
            title: "Envoy 1.40: /drain_listeners without `graceful` tells connections, too",
            why: "It only stopped the listeners before. Now HTTP/2 clients get GOAWAY and HTTP/1 \
                clients `connection: close`. With `skip_exit` alone, which was refused, the \
                listeners stay open.",
            fix: "Write `graceful` where the drain begins, so that old and new versions do the \
                same. (https://github.com/envoyproxy/envoy/blob/v1.40.0/changelogs/1.40.0.yaml)",
            check: affected::abrupt_drains,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS913",
            severity: Severity::Info,
            title: "Envoy 1.40: the container's CPU limit decides on the number of workers",
            why: "Without `--concurrency` Envoy starts as many workers as the limit allows, no \
                longer as the node has cores. Fewer workers have fewer VMs of the module, and \
                each has more connections.",
            fix: "Set the concurrency, if the number matters. \
                ENVOY_CGROUP_CPU_DETECTION=false is the former behaviour. \
                (https://github.com/envoyproxy/envoy/blob/v1.40.0/changelogs/1.40.0.yaml)",
            check: affected::fewer_workers,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS914",
            severity: Severity::Info,
            title: "Envoy 1.40: capability_restriction_config belongs to the VM",
            why: "The field of the plugin is deprecated. Restrictions and the runtime are now \
                part of a VM's identity, so plugins that differ in them do not share one.",
            fix: "Move it into `vm_config`. \
                (https://github.com/envoyproxy/envoy/blob/v1.40.0/changelogs/1.40.0.yaml)",
            check: affected::plugin_restrictions,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS915",
            severity: Severity::Warning,
            title: "Envoy 1.40: two filters of one proxy become one plugin",
            why: "A plugin is identified by its whole configuration, no longer by name and \
                direction. Filters with equal configurations share one instance in each VM: what \
                a module keeps for each plugin counts for both.",
            fix: "Make the configurations differ, for example in `name`. \
                (https://github.com/envoyproxy/envoy/blob/v1.40.0/changelogs/1.40.0.yaml)",
            check: affected::equal_plugins,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 40)),
        rule: Rule {
            code: "LS916",
            severity: Severity::Warning,
            title: "Envoy 1.40: this expression may match other requests",
            why: "Regular expressions read bytes as Latin-1 (CVE-2026-73552), so an expression \
                with other characters than ASCII has another meaning: requests can be routed or \
                trusted otherwise. Patches of older versions since August 2026 have it, too.",
            fix: "Write the bytes of header values, as `\\xc3\\xa9`, or match without the \
                character. \
                (https://istio.io/latest/news/releases/1.30.x/announcing-1.30.4/)",
            check: affected::expressions_with_other_characters,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 38)),
        rule: Rule {
            code: "LS917",
            severity: Severity::Info,
            title: "Envoy 1.38: the count can become `exact` without a restart",
            why: "These pods do not export Envoy's own count, so the gate says `assumed`. A \
                listener can have a matcher of statistics of its own now, which takes the place \
                of the bootstrap's: an EnvoyFilter is enough.",
            fix: "Apply the EnvoyFilter of docs/metrics.md, or leave the annotation for the next \
                start. The former listener is drained once. (https://www.envoyproxy.io/docs/envoy/\
                latest/configuration/advanced/metadata_configurations)",
            check: hooks::no_request_gauge,
        },
    },
    Change {
        program: ENVOY,
        since: Some((1, 41)),
        rule: Rule {
            code: "LS918",
            severity: Severity::Warning,
            title: "Envoy 1.41: a drain resets upgrades before the gate lets go",
            why: "In the last third of its drain time Envoy resets WebSockets, other upgrades and \
                CONNECT tunnels. HBONE tunnels are among them, with the requests in them. Other \
                requests complete. This is Envoy's main branch; 1.41 is not released.",
            fix: "Make the drain time 1.5 times the gate's deadline; `laststream render \
                proxy-config` does. Health checks alone (`gate.begin.call: fail_health_checks`) \
                begin no such drain. (https://www.envoyproxy.io/docs/envoy/latest/intro/\
                arch_overview/operations/draining)",
            check: grace::deadlines::drain_below_deadline,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 9)),
        rule: Rule {
            code: "LS921",
            severity: Severity::Error,
            title: "Envoy Gateway 1.9: Lua is off by default",
            why: "The policy is not accepted, and what its Lua did to requests is not done any \
                more, x-forwarded-proto included.",
            fix: "Write `extensionApis: {enableLua: true}` into the configuration of the \
                controller before the upgrade, or use laststream's `forwarded_proto`. \
                (https://gateway.envoyproxy.io/news/releases/v1.9/)",
            check: affected::lua,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 9)),
        rule: Rule {
            code: "LS922",
            severity: Severity::Error,
            title: "Envoy Gateway 1.9: clientIPDetection needs exactly one way",
            why: "The API server refuses a ClientTrafficPolicy with none or several of \
                xForwardedFor, customHeader and directSourceIP. A stored one stays until its next \
                change, which then fails.",
            fix: "Keep one of the three, or remove clientIPDetection. \
                (https://gateway.envoyproxy.io/news/releases/v1.9/)",
            check: affected::client_ip_detections,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 9)),
        rule: Rule {
            code: "LS923",
            severity: Severity::Warning,
            title: "Envoy Gateway 1.9: TCPRoute and UDPRoute are read as v1",
            why: "Without the CRDs of the Gateway API 1.6 the controller skips these routes and \
                says nothing: their listeners close, and their streams end with the drain.",
            fix: "Install the CRDs of the Gateway API 1.6 before the controller, and write \
                `gateway.networking.k8s.io/v1`. \
                (https://gateway.envoyproxy.io/news/releases/v1.9/)",
            check: affected::old_tcp_routes,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 10)),
        rule: Rule {
            code: "LS924",
            severity: Severity::Warning,
            title: "Envoy Gateway 1.10: `numTrustedHops: 0` trusts no peer",
            why: "It was the same as 1 before. Now the address of the connection is the client's, \
                and x-forwarded-proto comes from the connection: behind a load balancer that ends \
                TLS it is `http`.",
            fix: "Write 1 to keep what there was, or name the load balancer by `trustedCIDRs`. \
                (https://gateway.envoyproxy.io/news/releases/v1.10/)",
            check: affected::zero_hops,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 10)),
        rule: Rule {
            code: "LS925",
            severity: Severity::Warning,
            title: "Envoy Gateway 1.10: Wasm images come over HTTPS only",
            why: "The controller no longer falls back to plain HTTP. From such a registry the \
                module is not loaded: requests fail, or pass uncounted with `failOpen`.",
            fix: "Give the registry TLS, or name it as insecure in the configuration of the \
                controller. (https://gateway.envoyproxy.io/news/releases/v1.10/)",
            check: affected::plain_registries,
        },
    },
    Change {
        program: ENVOY_GATEWAY,
        since: Some((1, 10)),
        rule: Rule {
            code: "LS926",
            severity: Severity::Warning,
            title: "Envoy Gateway 1.10: filters for Lua have other names",
            why: "The listener has one empty filter for each place, `envoy.filters.http.lua/0`, \
                and scripts are in routes. A patch that names a policy's filter fails or has no \
                effect. Changed scripts no longer drain the listener.",
            fix: "Aim the EnvoyPatchPolicy at the route. \
                (https://gateway.envoyproxy.io/news/releases/v1.10/)",
            check: affected::patches_of_lua,
        },
    },
    Change {
        program: KUBERNETES,
        since: Some((1, 33)),
        rule: Rule {
            code: "LS931",
            severity: Severity::Warning,
            title: "Kubernetes 1.33: Istio's sidecars become native, and the setting does nothing",
            why: "From this version on Istio 1.27 and newer inject the sidecar as an init \
                container. Its own stop hook drains it when the app has gone; the setting is not \
                looked at, and streams that it held are cut.",
            fix: "Hold with the gate, or keep `sidecar.istio.io/nativeSidecar: \"false\"`. \
                (https://github.com/istio/istio/pull/56428)",
            check: grace::with_native_sidecar,
        },
    },
    Change {
        program: KUBERNETES,
        since: Some((1, 35)),
        rule: Rule {
            code: "LS932",
            severity: Severity::Info,
            title: "Kubernetes 1.35: image volumes are on by default",
            why: "Before, the API server drops the volume unless the feature gate ImageVolume is \
                on, and the module's file is missing. Objects that were applied before the \
                upgrade still lack it.",
            fix: "Apply the workload again after the upgrade. Nodes need containerd 2.1 or newer. \
                (https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/)",
            check: affected::image_volumes,
        },
    },
];
