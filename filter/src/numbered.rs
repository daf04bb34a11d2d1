//! Things by the number of their context. A table of its own, because nothing else in the path of a request would need the standard
//! library's: that one is larger and slower, and withstands chosen keys, which nobody can choose here.

use alloc::vec::Vec;

/// Open addressing, at most three quarters full. Envoy numbers contexts one after the other; a multiplication spreads them.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    /// None, or a power of two.
    slots: Vec<Option<(u32, T)>>,
    filled: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Numbered<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), filled: 0 }
    }

    /// In place of what has the number already.
    pub(crate) fn insert(&mut self, number: u32, thing: T) {
        if self.filled * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let place = self.place(number);
        if let Some(slot) = self.slots.get_mut(place) {
            self.filled += usize::from(slot.is_none());
            *slot = Some((number, thing));
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.place(number);
        self.slots.get_mut(place)?.as_mut().map(|(_, thing)| thing)
    }

    /// Whatever had to give way to it moves up.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let mut hole = self.place(number);
        let (_, thing) = self.slots.get_mut(hole)?.take()?;
        self.filled -= 1;
        let mut next = self.after(hole);
        while let Some(Some((other, _))) = self.slots.get(next) {
            let from_home = self.distance(self.home(*other), next);
            if from_home >= self.distance(hole, next) {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = self.after(next);
        }
        Some(thing)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots.iter_mut().flatten().map(|(number, thing)| (*number, thing))
    }

    /// Where it is, or would be.
    fn place(&self, number: u32) -> usize {
        let mut place = self.home(number);
        while let Some(Some((other, _))) = self.slots.get(place)
            && *other != number
        {
            place = self.after(place);
        }
        place
    }

    /// The upper bits: in those each bit of the number has had its say.
    fn home(&self, number: u32) -> usize {
        let spread = u64::from(number.wrapping_mul(0x9e37_79b9));
        ((spread * self.slots.len() as u64) >> u32::BITS) as usize
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & self.slots.len().wrapping_sub(1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.slots.len().wrapping_sub(1)
    }

    fn grow(&mut self) {
        let wider = (self.slots.len() * 2).max(16);
        let mut slots = Vec::new();
        slots.resize_with(wider, || None);
        let mut old = core::mem::replace(&mut self.slots, slots);
        self.filled = 0;
        for (number, thing) in old.iter_mut().filter_map(Option::take) {
            self.insert(number, thing);
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Numbered;

    #[test]
    fn an_empty_one_has_nothing() {
        let mut empty: Numbered<u8> = Numbered::default();
        assert_eq!((empty.get_mut(0).copied(), empty.remove(1), empty.iter_mut().count()), (None, None, 0));
    }

    #[test]
    fn numbers_in_a_row_stay_near_their_places() {
        let mut streams = Numbered::default();
        for number in 0..300_000_u32 {
            streams.insert(number, ());
            if number >= 100_000 && number % 1_000 != 0 {
                streams.remove(number - 100_000);
            }
        }
        let farthest =
            streams.slots.iter().enumerate().filter_map(|(place, slot)| Some(streams.distance(streams.home(slot.as_ref()?.0), place)));
        assert!(farthest.clone().max() < Some(64), "{:?}", farthest.max());
    }

    proptest! {
        #[test]
        fn is_a_map(steps in prop::collection::vec((0..3_u8, 0..40_u32, any::<u16>()), 0..400)) {
            let (mut table, mut map) = (Numbered::default(), BTreeMap::new());
            for (step, number, thing) in steps {
                let number = number.wrapping_mul(0x0100_0001); // of numbers far apart, too
                match step {
                    0 => {
                        table.insert(number, thing);
                        map.insert(number, thing);
                    }
                    1 => prop_assert_eq!(table.remove(number), map.remove(&number)),
                    _ => prop_assert_eq!(table.get_mut(number).copied(), map.get(&number).copied()),
                }
                let mut all: Vec<_> = table.iter_mut().map(|(number, thing)| (number, *thing)).collect();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(map.iter().map(|(number, thing)| (*number, *thing))));
                prop_assert_eq!(table.filled, map.len());
            }
        }
    }
}
