//! The numbers of the root contexts that exist. A VM has one thread.

use core::cell::RefCell;

thread_local! {
    static ROOTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Adds a root context.
pub(crate) fn add(context: u32) {
    ROOTS.with_borrow_mut(|roots| roots.push(context));
}

/// Removes a root context.
pub(crate) fn remove(context: u32) {
    ROOTS.with_borrow_mut(|roots| roots.retain(|root| *root != context));
}

/// Whether a context is a root context.
pub(crate) fn is_root(context: u32) -> bool {
    ROOTS.with_borrow(|roots| roots.contains(&context))
}
