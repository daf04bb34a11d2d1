//! The contexts that Envoy talks about by number: one root for each configured plugin, one for each stream.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use crate::host::{Host, Level};
use crate::plugin::Plugin;
use crate::stream::Stream;

/// Plugins that share a VM, and old and new configurations of one plugin, are roots side by side.
#[derive(Debug, Default)]
pub struct Contexts {
    /// A handful at most.
    roots: Vec<(u32, Rc<Plugin>)>,
    streams: HashMap<u32, Stream, BuildHasherDefault<Spread>>,
}

impl Contexts {
    /// A context without parent is a root, of which there is nothing to know before it is configured. A stream of a root that never was
    /// is not counted.
    pub fn create(&mut self, context: u32, parent: u32) {
        if let Some((_, plugin)) = self.roots.iter().find(|(root, _)| *root == parent) {
            self.streams.insert(context, Stream::new(Rc::clone(plugin)));
        }
    }

    /// A root's configuration. False: Envoy refuses it, and the old one goes on.
    pub fn configure(&mut self, root: u32, host: &impl Host, text: &[u8]) -> bool {
        match Plugin::configure(host, text) {
            Ok(plugin) => {
                host.log(Level::Info, &plugin.config.summary());
                self.roots.retain(|(other, _)| *other != root);
                self.roots.push((root, Rc::new(plugin)));
                true
            }
            Err(refused) => {
                host.log(Level::Error, &["configuration refused: ", &refused.to_string()].concat());
                false
            }
        }
    }

    /// A stream's request headers are here.
    pub fn begin(&mut self, stream: u32, host: &impl Host) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.begin(host);
        }
    }

    /// The context is over: Envoy calls this once for each, whatever became of it.
    pub fn done(&mut self, context: u32, host: &impl Host) {
        match self.streams.remove(&context) {
            Some(mut stream) => stream.end(host),
            None => self.roots.retain(|(root, _)| *root != context),
        }
    }
}

/// Envoy numbers contexts one after the other; a multiplication spreads them, and nobody outside chooses them.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
