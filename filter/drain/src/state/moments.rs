//! Moments and durations of Envoy's monotonic clock, and the numbers of streams and queues. All
//! arithmetic saturates.

use core::ops::{Add, Mul, Sub};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($type:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $type);
    };
}

number! {
    /// A moment of the monotonic clock, in milliseconds. Its zero has no meaning.
    Moment(u64)
}
number! {
    /// A duration in milliseconds.
    Millis(u64)
}
number! {
    /// The number of an HTTP context: a request to the gate.
    StreamNumber(u32)
}
number! {
    /// The number of a queue, which also identifies its gate or counter.
    Queue(u32)
}

impl Moment {
    /// The time since an earlier moment; none if that moment is yet to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Millis> {
        self.0.checked_sub(earlier.0).map(Millis)
    }
}

impl Add<Millis> for Moment {
    type Output = Self;

    fn add(self, time: Millis) -> Self {
        Self(self.0.saturating_add(time.0))
    }
}

impl Sub<Millis> for Moment {
    type Output = Self;

    fn sub(self, time: Millis) -> Self {
        Self(self.0.saturating_sub(time.0))
    }
}

impl Sub for Moment {
    type Output = Millis;

    fn sub(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Millis {
    type Output = Self;

    fn add(self, time: Self) -> Self {
        Self(self.0.saturating_add(time.0))
    }
}

impl Sub for Millis {
    type Output = Self;

    fn sub(self, time: Self) -> Self {
        Self(self.0.saturating_sub(time.0))
    }
}

impl Mul<u64> for Millis {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}
