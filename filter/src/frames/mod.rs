//! The frame filter: follows the frames of a WebSocket, and ends it with a close frame when a
//! counter asks for it. It has a separate module file, because Envoy enters a module that takes
//! bodies for every chunk of every stream.

pub mod follower;
mod root;
mod shared;
mod stream;

pub use root::{HttpStream, Root};

#[cfg(test)]
mod tests;
