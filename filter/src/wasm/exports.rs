//! What Envoy calls. A callback that is not here costs nothing: Envoy does not enter the VM for it. There is none for bodies, trailers,
//! responses or the log, and none of another protocol.

use std::cell::RefCell;

use super::imports::Envoy;
use crate::contexts::{Contexts, Flow};
use crate::host::{Host, Level};
use crate::pieces::text;

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Goes on with the next filter.
const CONTINUE: u32 = 0;

/// Stays at this filter.
const STOP: u32 = 1;

/// The version of the ABI. With this one Envoy chooses the route again by itself after a request header was written.
#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or("", |place| place.file());
        let line = panic.location().map_or(0, |place| place.line());
        let payload = panic.payload();
        let why = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Envoy.log(Level::Critical, &text!["panicked at ", place, ":", line, ": ", why.unwrap_or_default()]);
    }));
}

/// Memory for the host to fill.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(length: usize) -> *mut u8 {
    Box::into_raw(Box::<[u8]>::new_uninit_slice(length)).cast()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_context_create(context: u32, parent: u32) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.create(context, parent));
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(root: u32, length: usize) -> u32 {
    let text = Envoy.configuration(length);
    CONTEXTS.with_borrow_mut(|contexts| contexts.configure(root, &Envoy, &text)).into()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(stream: u32, _headers: u32, _end_of_stream: u32) -> u32 {
    match CONTEXTS.with_borrow_mut(|contexts| contexts.begin(stream, &Envoy)) {
        Flow::Continue => CONTINUE,
        Flow::Stop => STOP,
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(root: u32) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.tick(root, &Envoy));
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_queue_ready(root: u32, queue: u32) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.message(root, queue, &Envoy));
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(root: u32, call: u32, _headers: u32, length: usize, _trailers: u32) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.called(root, call, length, &Envoy));
}

/// True: nothing is left to do for the context.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_done(context: u32) -> u32 {
    CONTEXTS.with_borrow_mut(|contexts| contexts.done(context, &Envoy));
    true.into()
}
