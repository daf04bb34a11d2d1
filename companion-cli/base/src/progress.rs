//! Progress reports of the library. The implementation decides what is shown; nothing here prints.

/// Receives progress of long work. Calls may come from several threads.
pub trait Progress: Sync {
    /// Work begins; the text names it.
    fn started(&self, what: &str);
    /// Progress in bytes, and the total if it is known.
    fn advanced(&self, _done: u64, _total: Option<u64>) {}
    /// The work is over; the text says how it ended.
    fn finished(&self, what: &str);
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str) {}
    fn finished(&self, _what: &str) {}
}

#[derive(Debug, Clone, Copy)]
pub struct Texts<F>(pub F);

impl<F: Fn(&str) + Sync> Progress for Texts<F> {
    fn started(&self, what: &str) {
        self.0(what);
    }

    fn finished(&self, what: &str) {
        self.0(what);
    }
}
