//! Reproducible randomness: a seed, and pseudo-random numbers that are derived from it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The random seed of a run. The value also records whether a row has used the seed.
pub(super) struct Seed {
    pub(super) value: u64,
    is_taken: AtomicBool,
}

impl Seed {
    /// Creates a seed from the given value. If no value is given, derives the seed from the current
    /// time.
    pub(super) fn new(given: Option<u64>) -> Self {
        let now =
            || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        Self { value: given.unwrap_or_else(|| now().into()), is_taken: AtomicBool::new(false) }
    }

    /// Returns the seed, and marks it as used.
    pub(super) fn get_and_mark_used(&self) -> u64 {
        self.is_taken.store(true, Ordering::Relaxed);
        self.value
    }

    /// Returns a random number generator, and marks the seed as used.
    pub(super) fn create_rng(&self) -> Random {
        Random(self.get_and_mark_used())
    }

    /// Returns the seed if it has been used since the last call of this method.
    pub(super) fn value_if_newly_used(&self) -> Option<u64> {
        self.is_taken.swap(false, Ordering::Relaxed).then_some(self.value)
    }
}

/// A pseudo-random number generator: splitmix64.
pub(super) struct Random(u64);

impl Random {
    /// Creates a generator from a separate seed, e.g. for one of several threads.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `end - 1`. `end` must not be 0.
    pub(super) fn next_below(&mut self, end: u64) -> u64 {
        // For the values of `end` used here, the remainder deviates from an even distribution by
        // less than one in 2^32.
        self.next_u64() % end
    }

    /// Shuffles the items.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            // The number is at most `end`, which is a `usize`, so the cast loses no bits.
            let at = self.next_below(end as u64 + 1) as usize;
            items.swap(end, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_order_and_another_one_does_not() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            Seed::new(Some(seed)).create_rng().shuffle(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_seed_is_returned_once_and_only_if_it_was_taken() {
        let seed = Seed::new(Some(7));
        assert_eq!(seed.value_if_newly_used(), None);
        seed.create_rng();
        assert_eq!((seed.value_if_newly_used(), seed.value_if_newly_used()), (Some(7), None));
    }
}
