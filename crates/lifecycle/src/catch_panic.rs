//! Calls into embedder code that may panic. A panic of such code must not end the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `call`, or `None` if it panics. The panic hook has already reported the
/// panic.
///
/// Use this function only where no state is partly changed, so that unwinding leaves the state
/// consistent.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
