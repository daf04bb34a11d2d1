//! How the library tells what it is doing. Who listens decides what is shown; nothing here prints.

/// Hears about work that takes a while. Calls may come from several threads.
pub trait Progress: Sync {
    /// Something begins.
    fn started(&self, what: &str);
    /// It got further: how many bytes of how many, where that is known.
    fn advanced(&self, done: u64, total: Option<u64>);
    /// It is over; the text says how it ended.
    fn finished(&self, what: &str);
}

/// Hears everything and says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str) {}
    fn advanced(&self, _done: u64, _total: Option<u64>) {}
    fn finished(&self, _what: &str) {}
}
