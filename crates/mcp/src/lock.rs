//! Access to shared values.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value. A panic of another holder leaves it usable, because each change is complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
