//! Runs code of the embedding program that may panic. A panic of such code must not end the
//! session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `call`, or `None` if `call` panics. The panic hook has already reported
/// the panic.
///
/// Use this function only where a panic cannot leave state in a half-changed form.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
