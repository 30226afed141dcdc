//! Calls into code of an embedder that may panic: a panic there must not take a session with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns what `call` returns, or nothing if it panics; the panic hook has reported that.
///
/// For foreign code that is called with nothing half done: what it panics over is as it was.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
