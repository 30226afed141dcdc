//! A map that removes its oldest entry when it is full.

use std::collections::{HashMap, VecDeque};

use callboard_text::head;

use crate::limits::MAX_KEY_BYTES;

/// A map of at most `capacity` values by id. If the map is full, the oldest value is removed.
#[derive(Debug)]
pub(super) struct BoundedMap<T> {
    capacity: usize,
    values: HashMap<String, T>,
    order: VecDeque<String>,
    has_removed: bool,
}

impl<T> BoundedMap<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, values: HashMap::new(), order: VecDeque::new(), has_removed: false }
    }

    /// Inserts a value, and returns the previous value of the same id.
    pub(super) fn insert(&mut self, id: &str, value: T) -> Option<T> {
        let id = truncate_key(id);
        let before = self.values.insert(id.to_owned(), value);
        if before.is_none() {
            self.order.push_back(id.to_owned());
            if self.order.len() > self.capacity
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
                self.has_removed = true;
            }
        }
        before
    }

    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.values.get(truncate_key(id))
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.values.get_mut(truncate_key(id))
    }

    /// Returns whether a value was removed because the map was full. If so, an id without a value
    /// may be a known one.
    pub(super) fn has_removed(&self) -> bool {
        self.has_removed
    }

    /// Returns all entries, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.order.iter().filter_map(|id| Some((id.as_str(), self.values.get(id)?)))
    }
}

/// Returns the beginning of an id, which is used as the key.
pub(super) fn truncate_key(id: &str) -> &str {
    head(id, MAX_KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::BoundedMap;

    #[test]
    fn the_oldest_entry_is_removed() {
        let mut known = BoundedMap::new(2);
        for (id, value) in [("a", 1), ("b", 2), ("a", 3)] {
            known.insert(id, value);
        }
        assert!(!known.has_removed());
        known.insert("c", 4);
        assert!(known.has_removed());
        assert_eq!(known.iter().collect::<Vec<_>>(), [("b", &2), ("c", &4)]);
        assert_eq!((known.get("a"), known.get("c")), (None, Some(&4)));
    }
}
