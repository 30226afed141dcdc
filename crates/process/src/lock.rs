//! Locks whose holders may have panicked: what they hold is whole between any two statements.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of its holder.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
