//! The host calls that Envoy offers to a module and the callbacks that it calls, with their types.
//! A test checks each line against real Envoys.

use super::analysis::Abi;
use super::signature::signature;

/// A function: its name, its parameters and its results; `i` is an i32 and `I` an i64.
type Call = (&'static str, &'static str, &'static str);

/// A function that Envoy offers or looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its type, as `i32 i64 -> i32`.
    pub signature: String,
    /// The first version of Envoy that has it; `None` if every supported version has it.
    pub since: Option<&'static str>,
}

/// The functions that Envoy offers in a Wasm module of this name to modules with this ABI.
#[must_use]
pub fn offered(abi: Abi, module: &str) -> Vec<Function> {
    let of_abi = match abi {
        Abi::V0_1_0 => ABI_0_1_0,
        Abi::V0_2_0 => ABI_0_2_0,
        Abi::V0_2_1 => ABI_0_2_1,
    };
    match module {
        "env" => functions(ENV, None).chain(functions(of_abi, None)).collect(),
        "wasi_snapshot_preview1" | "wasi_unstable" => {
            functions(WASI, None).chain(functions(LATER_WASI, Some("1.39"))).collect()
        }
        _ => Vec::new(),
    }
}

/// The exports that Envoy looks for in a module with this ABI. It refuses them with another type.
#[must_use]
pub fn looked_for(abi: Abi) -> Vec<Function> {
    let of_abi = if abi == Abi::V0_1_0 { HEADERS_0_1_0 } else { HEADERS };
    functions(CALLBACKS, None).chain(functions(of_abi, None)).collect()
}

fn functions(
    calls: &'static [Call],
    since: Option<&'static str>,
) -> impl Iterator<Item = Function> {
    calls.iter().map(move |(name, parameters, results)| Function {
        name,
        signature: spelled(parameters, results),
        since,
    })
}

fn spelled(parameters: &str, results: &str) -> String {
    let types = |letters: &str| {
        letters
            .chars()
            .map(|letter| if letter == 'I' { "i64" } else { "i32" })
            .collect::<Vec<_>>()
            .join(" ")
    };
    signature(&types(parameters), &types(results))
}

/// Offered in `env` to every ABI.
const ENV: &[Call] = &[
    ("emscripten_notify_memory_growth", "i", ""),
    ("proxy_add_header_map_value", "iiiii", "i"),
    ("proxy_call_foreign_function", "iiiiii", "i"),
    ("proxy_define_metric", "iiii", "i"),
    ("proxy_dequeue_shared_queue", "iii", "i"),
    ("proxy_done", "", "i"),
    ("proxy_enqueue_shared_queue", "iii", "i"),
    ("proxy_get_buffer_bytes", "iiiii", "i"),
    ("proxy_get_buffer_status", "iii", "i"),
    ("proxy_get_current_time_nanoseconds", "i", "i"),
    ("proxy_get_header_map_pairs", "iii", "i"),
    ("proxy_get_header_map_size", "ii", "i"),
    ("proxy_get_header_map_value", "iiiii", "i"),
    ("proxy_get_metric", "ii", "i"),
    ("proxy_get_property", "iiii", "i"),
    ("proxy_get_shared_data", "iiiii", "i"),
    ("proxy_get_status", "iii", "i"),
    ("proxy_grpc_call", "iiiiiiiiiiii", "i"),
    ("proxy_grpc_cancel", "i", "i"),
    ("proxy_grpc_close", "i", "i"),
    ("proxy_grpc_send", "iiii", "i"),
    ("proxy_grpc_stream", "iiiiiiiii", "i"),
    ("proxy_http_call", "iiiiiiiiii", "i"),
    ("proxy_increment_metric", "iI", "i"),
    ("proxy_log", "iii", "i"),
    ("proxy_record_metric", "iI", "i"),
    ("proxy_register_shared_queue", "iii", "i"),
    ("proxy_remove_header_map_value", "iii", "i"),
    ("proxy_replace_header_map_value", "iiiii", "i"),
    ("proxy_resolve_shared_queue", "iiiii", "i"),
    ("proxy_send_local_response", "iiiiiiii", "i"),
    ("proxy_set_buffer_bytes", "iiiii", "i"),
    ("proxy_set_effective_context", "i", "i"),
    ("proxy_set_header_map_pairs", "iii", "i"),
    ("proxy_set_property", "iiii", "i"),
    ("proxy_set_shared_data", "iiiii", "i"),
    ("proxy_set_tick_period_milliseconds", "i", "i"),
    ("pthread_equal", "ii", "i"),
];

/// Also offered in `env` to ABI 0.1.0.
const ABI_0_1_0: &[Call] = &[
    ("proxy_clear_route_cache", "", "i"),
    ("proxy_continue_request", "", "i"),
    ("proxy_continue_response", "", "i"),
    ("proxy_get_configuration", "ii", "i"),
];

/// Also offered in `env` to ABI 0.2.0.
const ABI_0_2_0: &[Call] = &[("proxy_close_stream", "i", "i"), ("proxy_continue_stream", "i", "i")];

/// Also offered in `env` to ABI 0.2.1.
const ABI_0_2_1: &[Call] = &[
    ("proxy_close_stream", "i", "i"),
    ("proxy_continue_stream", "i", "i"),
    ("proxy_get_log_level", "i", "i"),
];

/// WASI functions of every supported Envoy, in `wasi_snapshot_preview1` and `wasi_unstable`.
const WASI: &[Call] = &[
    ("args_get", "ii", "i"),
    ("args_sizes_get", "ii", "i"),
    ("clock_time_get", "iIi", "i"),
    ("environ_get", "ii", "i"),
    ("environ_sizes_get", "ii", "i"),
    ("fd_close", "i", "i"),
    ("fd_fdstat_get", "ii", "i"),
    ("fd_fdstat_set_flags", "ii", "i"),
    ("fd_prestat_dir_name", "iii", "i"),
    ("fd_prestat_get", "ii", "i"),
    ("fd_read", "iiii", "i"),
    ("fd_seek", "iIii", "i"),
    ("fd_write", "iiii", "i"),
    ("path_open", "iiiiiIIii", "i"),
    ("poll_oneoff", "iiii", "i"),
    ("proc_exit", "i", ""),
    ("random_get", "ii", "i"),
    ("sched_yield", "", "i"),
];

/// WASI functions that came with Envoy 1.39.
const LATER_WASI: &[Call] = &[
    ("clock_res_get", "ii", "i"),
    ("fd_advise", "iIIi", "i"),
    ("fd_allocate", "iII", "i"),
    ("fd_datasync", "i", "i"),
    ("fd_fdstat_set_rights", "iII", "i"),
    ("fd_filestat_get", "ii", "i"),
    ("fd_filestat_set_size", "iI", "i"),
    ("fd_filestat_set_times", "iIIi", "i"),
    ("fd_pread", "iiiIi", "i"),
    ("fd_pwrite", "iiiIi", "i"),
    ("fd_readdir", "iiiIi", "i"),
    ("fd_renumber", "ii", "i"),
    ("fd_sync", "i", "i"),
    ("fd_tell", "ii", "i"),
    ("path_create_directory", "iii", "i"),
    ("path_filestat_get", "iiiii", "i"),
    ("path_filestat_set_times", "iiiiIIi", "i"),
    ("path_link", "iiiiii", "i"),
    ("path_readlink", "iiiiii", "i"),
    ("path_remove_directory", "iii", "i"),
    ("path_rename", "iiiiii", "i"),
    ("path_symlink", "iiii", "i"),
    ("path_unlink_file", "iii", "i"),
    ("sock_accept", "iii", "i"),
    ("sock_recv", "iiiiii", "i"),
    ("sock_send", "iiiii", "i"),
    ("sock_shutdown", "ii", "i"),
];

/// Exports that Envoy calls, with every ABI.
const CALLBACKS: &[Call] = &[
    ("_initialize", "", ""),
    ("malloc", "i", "i"),
    ("proxy_on_configure", "ii", "i"),
    ("proxy_on_context_create", "ii", ""),
    ("proxy_on_delete", "i", ""),
    ("proxy_on_done", "i", "i"),
    ("proxy_on_downstream_connection_close", "ii", ""),
    ("proxy_on_downstream_data", "iii", "i"),
    ("proxy_on_grpc_close", "iii", ""),
    ("proxy_on_grpc_receive", "iii", ""),
    ("proxy_on_grpc_receive_initial_metadata", "iii", ""),
    ("proxy_on_grpc_receive_trailing_metadata", "iii", ""),
    ("proxy_on_http_call_response", "iiiii", ""),
    ("proxy_on_log", "i", ""),
    ("proxy_on_memory_allocate", "i", "i"),
    ("proxy_on_new_connection", "i", "i"),
    ("proxy_on_queue_ready", "ii", ""),
    ("proxy_on_request_body", "iii", "i"),
    ("proxy_on_request_metadata", "ii", "i"),
    ("proxy_on_request_trailers", "ii", "i"),
    ("proxy_on_response_body", "iii", "i"),
    ("proxy_on_response_metadata", "ii", "i"),
    ("proxy_on_response_trailers", "ii", "i"),
    ("proxy_on_tick", "i", ""),
    ("proxy_on_upstream_connection_close", "ii", ""),
    ("proxy_on_upstream_data", "iii", "i"),
    ("proxy_on_vm_start", "ii", "i"),
    ("proxy_validate_configuration", "ii", "i"),
];

/// Exports that Envoy calls, with ABI 0.1.0.
const HEADERS_0_1_0: &[Call] =
    &[("proxy_on_request_headers", "ii", "i"), ("proxy_on_response_headers", "ii", "i")];

/// Exports that Envoy calls, with ABI 0.2.0 and 0.2.1.
const HEADERS: &[Call] = &[
    ("proxy_on_foreign_function", "iii", ""),
    ("proxy_on_request_headers", "iii", "i"),
    ("proxy_on_response_headers", "iii", "i"),
];
