//! Shared data and queues in the memory of this process, for hosts that are not Envoy.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// As Envoy keeps them for the VMs with one VM id.
#[derive(Debug, Default)]
pub struct Memory {
    data: RefCell<BTreeMap<String, (Vec<u8>, u32)>>,
    queues: RefCell<Vec<VecDeque<Vec<u8>>>>,
}

impl Memory {
    /// The value of a key, and its generation.
    pub fn get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.data.borrow().get(key).cloned()
    }

    /// Sets it, if it still has that generation.
    pub fn set(&self, key: &str, value: &[u8], generation: Option<u32>) -> bool {
        let mut data = self.data.borrow_mut();
        let current = data.get(key).map(|(_, generation)| *generation);
        if current == generation {
            data.insert(key.into(), (value.into(), current.unwrap_or_default() + 1));
        }
        current == generation
    }

    /// The number of a new queue.
    pub fn register(&self) -> Option<u32> {
        let mut queues = self.queues.borrow_mut();
        queues.push(VecDeque::new());
        u32::try_from(queues.len()).ok()
    }

    /// Adds a message to a queue; false if there is none of this number.
    pub fn push(&self, queue: u32, message: &[u8]) -> bool {
        self.of(queue, |messages| messages.push_back(message.into())).is_some()
    }

    /// Removes the oldest message.
    pub fn pop(&self, queue: u32) -> Option<Vec<u8>> {
        self.of(queue, VecDeque::pop_front)?
    }

    fn of<T>(&self, queue: u32, change: impl FnOnce(&mut VecDeque<Vec<u8>>) -> T) -> Option<T> {
        self.queues.borrow_mut().get_mut((queue as usize).checked_sub(1)?).map(change)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.data.borrow_mut().clear();
        self.queues.borrow_mut().clear();
    }
}
