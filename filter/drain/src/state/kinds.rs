//! The kinds of streams, by which a gate ends them.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// The kind of a stream.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StreamKind {
    /// A request whose response has not begun.
    Waiting,
    /// A WebSocket.
    Websocket,
    /// gRPC.
    Grpc,
    /// A request that accepts `text/event-stream`. An event stream without that is `other`.
    EventStream,
    /// A response that has begun, another upgrade, or CONNECT.
    Other,
}

impl StreamKind {
    /// The kind at this response status, which is 0 until the response begins. Then a waiting
    /// request becomes [`Self::Other`].
    pub fn at_status(self, status: u64) -> Self {
        if self == Self::Waiting && status > 0 { Self::Other } else { self }
    }
}

/// A set of kinds, as bits. In a message, bits of unknown kinds may be set: a newer gate may know
/// more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Kinds(pub u8);

impl Kinds {
    /// The set of these kinds.
    pub fn of(kinds: &[StreamKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }

    /// Whether the kind is in the set.
    pub fn contains(self, kind: StreamKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The kinds of the set.
    pub fn iter(self) -> impl Iterator<Item = StreamKind> {
        StreamKind::VARIANTS.iter().copied().filter(move |kind| self.contains(*kind))
    }

    /// Whether the set has no kind.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the kinds, with commas between them.
    pub fn names(self) -> String {
        self.iter().map(Into::into).collect::<Vec<&str>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Kinds, StreamKind};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_set_contains_exactly_its_kinds() {
        for kind in StreamKind::VARIANTS {
            let set = Kinds::of(&[*kind]);
            assert_eq!(set.iter().collect::<Vec<_>>(), [*kind]);
        }
        assert_eq!(Kinds(u8::MAX).iter().collect::<Vec<_>>(), StreamKind::VARIANTS);
        assert!(Kinds::default().is_empty());
    }
}
