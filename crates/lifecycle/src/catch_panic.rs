//! Runs code of the embedding program that may panic. A panic of such code must not end the
//! session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `call`, or `None` if `call` panics. The panic hook has already reported
/// the panic.
///
/// Use this function only if all state is consistent after a panic of `call`.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
