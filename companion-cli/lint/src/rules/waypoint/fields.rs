//! The fields of Envoy's bootstrap, of listeners and of filter chains: LS585. The names are from
//! Envoy 1.40 (envoy/config/{bootstrap,listener}/v3/*.proto).

use std::collections::HashSet;

use crate::bootstraps::bootstraps;
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::rules::fields::{Maps, unknown_below};

/// The maps of a bootstrap that are checked.
const MAPS: Maps = &[
    ("", "the bootstrap", BOOTSTRAP),
    ("static_resources", "`static_resources`", "listeners clusters secrets"),
    ("static_resources.listeners[]", "a listener", LISTENER),
    (
        "static_resources.listeners[].filter_chains[]|default_filter_chain",
        "a filter chain",
        "filter_chain_match filters use_proxy_proto metadata transport_socket \
            transport_socket_connect_timeout name on_demand_configuration",
    ),
    (
        "static_resources.listeners[].filter_chains[]|default_filter_chain.filters[]",
        "a filter",
        "name typed_config config_discovery",
    ),
];

const BOOTSTRAP: &str = "node node_context_params static_resources dynamic_resources \
    cluster_manager hds_config flags_path stats_sinks deferred_stat_options stats_config \
    stats_flush_interval stats_flush_on_admin stats_eviction_interval watchdog watchdogs tracing \
    layered_runtime admin overload_manager enable_dispatcher_stats header_prefix \
    stats_server_version_override use_tcp_for_dns_lookups dns_resolution_config \
    typed_dns_resolver_config bootstrap_extensions fatal_actions config_sources \
    default_config_source default_socket_interface certificate_provider_instances inline_headers \
    perf_tracing_file_path default_regex_engine xds_delegate_extension \
    xds_config_tracker_extension listener_manager application_log_config \
    grpc_async_client_manager_config memory_allocator_manager enable_worker_cpu_affinity";
const LISTENER: &str = "name address additional_addresses stat_prefix filter_chains \
    filter_chain_matcher use_original_dst default_filter_chain per_connection_buffer_limit_bytes \
    per_connection_buffer_high_watermark_timeout metadata deprecated_v1 drain_type \
    listener_filters listener_filters_timeout continue_on_listener_filters_timeout transparent \
    freebind socket_options tcp_fast_open_queue_length traffic_direction udp_listener_config \
    api_listener connection_balance_config reuse_port enable_reuse_port access_log \
    tcp_backlog_size max_connections_to_accept_per_socket_event bind_to_port internal_listener \
    enable_mptcp ignore_global_conn_limit bypass_overload_manager fcds_config tcp_keepalive \
    stats_matcher";

pub(super) fn unknown<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut trees = HashSet::new();
    let roots = bootstraps(inputs).filter_map(|part| part.root.ok().flatten());
    let roots = roots.filter(|root| trees.insert(root.tree));
    roots.for_each(|root| unknown_below(root, MAPS, findings));
}
