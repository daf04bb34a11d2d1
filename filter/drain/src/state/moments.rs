//! Moments and durations of Envoy's monotonic clock, and the numbers of streams and queues. All
//! arithmetic saturates.

use core::ops::{Add, Mul, Sub};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($type:ty);)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $type);
    )+};
}

numbers! {
    /// A moment of the monotonic clock, in milliseconds. Its zero has no meaning.
    Moment(u64);
    /// A duration in milliseconds.
    Millis(u64);
    /// The number of an HTTP context: a request to the gate.
    StreamNumber(u32);
    /// The number of a queue, which also identifies its gate or counter.
    Queue(u32);
}

macro_rules! operators {
    ($(
        $left:ident.$method:ident($right:ident) -> $output:ident: $operator:ident, $work:ident;
    )+) => {$(
        impl $operator<$right> for $left {
            type Output = $output;

            fn $method(self, other: $right) -> $output {
                $output(self.0.$work(other.0))
            }
        }
    )+};
}

operators! {
    Moment.add(Millis) -> Moment: Add, saturating_add;
    Moment.sub(Millis) -> Moment: Sub, saturating_sub;
    Moment.sub(Moment) -> Millis: Sub, saturating_sub;
    Millis.add(Millis) -> Millis: Add, saturating_add;
    Millis.sub(Millis) -> Millis: Sub, saturating_sub;
}

impl Mul<u64> for Millis {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Moment {
    /// The time since an earlier moment; none if that moment is yet to come.
    pub fn since(self, earlier: Self) -> Option<Millis> {
        self.0.checked_sub(earlier.0).map(Millis)
    }
}
