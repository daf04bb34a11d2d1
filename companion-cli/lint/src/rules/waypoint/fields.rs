//! The fields of Envoy's bootstrap, of listeners and of filter chains: LS585. The names are from
//! Envoy 1.40 (envoy/config/{bootstrap,listener}/v3/*.proto).

use crate::bootstraps::bootstraps;
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::rules::fields;

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
const STATIC_RESOURCES: &str = "listeners clusters secrets";
const LISTENER: &str = "name address additional_addresses stat_prefix filter_chains \
    filter_chain_matcher use_original_dst default_filter_chain per_connection_buffer_limit_bytes \
    per_connection_buffer_high_watermark_timeout metadata deprecated_v1 drain_type \
    listener_filters listener_filters_timeout continue_on_listener_filters_timeout transparent \
    freebind socket_options tcp_fast_open_queue_length traffic_direction udp_listener_config \
    api_listener connection_balance_config reuse_port enable_reuse_port access_log \
    tcp_backlog_size max_connections_to_accept_per_socket_event bind_to_port internal_listener \
    enable_mptcp ignore_global_conn_limit bypass_overload_manager fcds_config tcp_keepalive \
    stats_matcher";
const FILTER_CHAIN: &str = "filter_chain_match filters use_proxy_proto metadata transport_socket \
    transport_socket_connect_timeout name on_demand_configuration";
const FILTER: &str = "name typed_config config_discovery";

pub(super) fn unknown<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut trees = Vec::new();
    for root in bootstraps(inputs).filter_map(|part| part.root.ok().flatten()) {
        if trees.contains(&root.tree) {
            continue;
        }
        trees.push(root.tree);
        check(root, BOOTSTRAP, "the bootstrap", findings);
        let Some(resources) = root.field("static_resources") else { continue };
        check(resources, STATIC_RESOURCES, "`static_resources`", findings);
        for listener in resources.list("listeners") {
            check_listener(listener, findings);
        }
    }
}

fn check_listener<'g>(listener: Node<'g>, findings: &mut Findings<'g>) {
    check(listener, LISTENER, "a listener", findings);
    let chains = listener.list("filter_chains");
    for chain in chains.chain(listener.field("default_filter_chain")) {
        check(chain, FILTER_CHAIN, "a filter chain", findings);
        for filter in chain.list("filters") {
            check(filter, FILTER, "a filter", findings);
        }
    }
}

fn check<'g>(node: Node<'g>, fields: &str, what: &str, findings: &mut Findings<'g>) {
    fields::unknown(node, fields, findings, |key| Some(format!("{what} has no field `{key}`")));
}
