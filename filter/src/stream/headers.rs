//! The request's headers, read when they are first needed.

use crate::headers::Headers;
use crate::host::Host;

pub(super) struct LazyHeaders<'h, H> {
    host: &'h H,
    map: Option<Vec<u8>>,
}

impl<'h, H: Host> LazyHeaders<'h, H> {
    pub(super) fn new(host: &'h H) -> Self {
        Self { host, map: None }
    }

    pub(super) fn get(&mut self) -> Headers<'_> {
        Headers::new(self.map.get_or_insert_with(|| self.host.request_headers()))
    }
}
