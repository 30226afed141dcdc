//! Calls into embedder code that may panic: a panic there must not end the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `call`, or `None` if it panics. The panic hook has reported the panic.
///
/// For foreign code that is called while no state is half changed, so that unwinding leaves
/// everything consistent.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
