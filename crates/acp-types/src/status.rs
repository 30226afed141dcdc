//! The status of a tool call.

use serde::{Deserialize, Serialize};

/// The status of a tool call in its lifecycle.
///
/// The statuses are those of draft v2; v1 lacks `Paused` and `Cancelled` (see
/// [`reduce_to_v1`](crate::wire::v1::reduce_to_v1)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// The arguments of the call are streaming, or the call waits for permission.
    #[default]
    Pending,
    /// The call is running.
    InProgress,
    /// The call has started, and waits for an event before it continues.
    Paused,
    /// The call ended successfully.
    Completed,
    /// The call ended without success.
    Failed,
    /// The call was cancelled before its end.
    Cancelled,
}

impl Status {
    /// All statuses, in the order of a call's lifecycle.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::InProgress,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns whether the status is final, i.e. never changes again.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether a call may change from this status to `next`.
    ///
    /// Only a call that is in progress can complete. A change from a status that is not final to
    /// the same status is allowed.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (from, _) if from.is_final() => false,
            (from, to) if from == to => true,
            (Self::Pending | Self::Paused, Self::Completed) | (Self::Pending, Self::Paused) => {
                false
            }
            (_, Self::Pending) => false,
            _ => true,
        }
    }

    /// Returns whether a call in this status has not run yet.
    #[must_use]
    pub fn is_pending(self) -> bool {
        self == Self::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::Status::{self, Cancelled, Completed, Failed, InProgress, Paused, Pending};

    #[test]
    fn only_listed_status_changes_are_allowed() {
        let legal = [
            (Pending, Pending),
            (Pending, InProgress),
            (Pending, Failed),
            (Pending, Cancelled),
            (InProgress, InProgress),
            (InProgress, Paused),
            (InProgress, Completed),
            (InProgress, Failed),
            (InProgress, Cancelled),
            (Paused, Paused),
            (Paused, InProgress),
            (Paused, Failed),
            (Paused, Cancelled),
        ];
        for from in Status::ALL {
            for to in Status::ALL {
                assert_eq!(from.may_become(to), legal.contains(&(from, to)), "{from:?} -> {to:?}");
            }
        }
    }
}
