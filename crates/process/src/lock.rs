//! Mutexes without poisoning: the guarded data is consistent after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a previous holder panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
