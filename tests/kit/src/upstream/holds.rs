//! Requests that wait until the test releases them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::locked;

#[derive(Default)]
pub struct Holds {
    keys: Mutex<HashMap<String, Arc<watch::Sender<()>>>>,
}

impl Holds {
    /// Counts a request as held until the guard is dropped.
    pub fn hold(&self, key: &str) -> Held {
        Held(self.key(key).subscribe())
    }

    pub fn held(&self, key: &str) -> usize {
        self.key(key).receiver_count()
    }

    pub fn release(&self, key: &str) {
        self.key(key).send(()).ok(); // no request waits any more
    }

    fn key(&self, key: &str) -> Arc<watch::Sender<()>> {
        let mut keys = locked(&self.keys);
        Arc::clone(keys.entry(key.to_owned()).or_insert_with(|| Arc::new(watch::channel(()).0)))
    }
}

pub struct Held(watch::Receiver<()>);

impl Held {
    pub async fn released(&mut self) {
        self.0.changed().await.ok(); // an ended test has released everything
    }
}
