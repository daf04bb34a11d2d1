//! The contexts that the SDK calls. They only forward to [`crate::lifecycle`], or to
//! [`crate::frames`] in the module of the frame filter, which has the feature `frames`.
//!
//! The SDK exports every callback, but the linker keeps only those that
//! `companion-cli/module/src/compile.rs` lists: a new callback must be added there, too.
//! `proxy_on_done` is not in that list, so a context ends with its `Drop`, in `proxy_on_delete`.

use std::panic::PanicHookInfo;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel};

use crate::envoy::Envoy;
#[cfg(feature = "frames")]
use crate::frames::{HttpStream, Root};
#[cfg(feature = "frames")]
use crate::host::Body;
use crate::lifecycle::Flow;
#[cfg(not(feature = "frames"))]
use crate::lifecycle::{HttpStream, Root};
use crate::roots;

/// With the allocator of the standard library, the first worker needs 2 MB more.
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    std::panic::set_hook(Box::new(log_panic));
    proxy_wasm::set_root_context(|id| Box::new(PluginRoot::new(id)));
}}

/// Writes message and place in one line. The SDK's own hook writes two, and the second has no
/// prefix in Envoy's log.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let line = panic.to_string().replace('\n', " ");
    let _ = hostcalls::log(LogLevel::Critical, &line); // Envoy always returns `Ok`
}

struct PluginRoot {
    id: u32,
    root: Root,
}

impl PluginRoot {
    fn new(id: u32) -> Self {
        roots::add(id);
        Self { id, root: Root::new(id) }
    }
}

impl Context for PluginRoot {
    #[cfg(not(feature = "frames"))]
    fn on_http_call_response(
        &mut self,
        call: u32,
        num_headers: usize,
        body_size: usize,
        _num_trailers: usize,
    ) {
        self.root.on_http_call_response(&Envoy, call, num_headers, body_size);
    }
}

impl RootContext for PluginRoot {
    fn on_configure(&mut self, size: usize) -> bool {
        self.root.on_configure(&Envoy, &Envoy.configuration(size))
    }

    fn on_tick(&mut self) {
        self.root.on_tick(&Envoy);
    }

    fn on_queue_ready(&mut self, queue: u32) {
        self.root.on_queue_ready(&Envoy, queue);
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(PluginStream(self.root.create_stream(id))))
    }
}

impl Drop for PluginRoot {
    fn drop(&mut self) {
        self.root.on_delete(&Envoy);
        roots::remove(self.id);
    }
}

struct PluginStream(HttpStream);

impl Context for PluginStream {}

impl HttpContext for PluginStream {
    fn on_http_request_headers(&mut self, _num_headers: usize, _end_of_stream: bool) -> Action {
        match self.0.on_request_headers(&Envoy) {
            Flow::Continue => Action::Continue,
            Flow::Stop => Action::Pause,
        }
    }

    #[cfg(feature = "frames")]
    fn on_http_request_body(&mut self, size: usize, is_last: bool) -> Action {
        self.0.on_body(&Envoy, Body::Request, size, is_last);
        Action::Continue
    }

    #[cfg(feature = "frames")]
    fn on_http_response_body(&mut self, size: usize, is_last: bool) -> Action {
        self.0.on_body(&Envoy, Body::Response, size, is_last);
        Action::Continue
    }
}

impl Drop for PluginStream {
    fn drop(&mut self) {
        self.0.on_delete(&Envoy);
    }
}
