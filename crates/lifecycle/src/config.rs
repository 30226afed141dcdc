//! The settings of a session.

use std::time::Duration;

use crate::limits;

/// The settings of a session: how often updates are sent, and how much of a call is sent. See
/// [`Session::with_config`](crate::Session::with_config).
///
/// The defaults suit a client on the same machine. Each setter limits its value to a fixed maximum.
/// No line of the protocol therefore reaches 1 MiB, which clients refuse.
///
/// ```
/// use acp_lifecycle::{Session, SessionConfig};
/// use std::time::Duration;
///
/// let config = SessionConfig::default()
///     .with_update_interval(Duration::from_millis(250))
///     .with_max_content_bytes(64 * 1024);
/// let session = Session::new("/project").with_config(config);
/// # drop(session);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionConfig {
    pub(crate) update_interval: Duration,
    pub(crate) content_bytes: usize,
    pub(crate) raw_bytes: usize,
    pub(crate) result_text_bytes: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            update_interval: limits::DEFAULT_UPDATE_INTERVAL,
            content_bytes: limits::MAX_CONTENT_BYTES,
            raw_bytes: limits::MAX_RAW_BYTES,
            result_text_bytes: limits::DEFAULT_RESULT_TEXT_BYTES,
        }
    }
}

impl SessionConfig {
    /// Sets the minimum interval between two streamed updates of one call, terminal or message: 50
    /// ms by default, at least 10 ms, at most 10 s. Without a minimum, each update of a growing text
    /// would repeat the text.
    #[must_use]
    pub fn with_update_interval(self, interval: Duration) -> Self {
        let bounds = (limits::MIN_UPDATE_INTERVAL, limits::MAX_UPDATE_INTERVAL);
        Self { update_interval: interval.clamp(bounds.0, bounds.1), ..self }
    }

    /// Sets the maximum size of the content that a call shows, in bytes: 768 KiB by default and at
    /// most. Further items are omitted and counted. If the maximum is zero, no content is shown. A
    /// permission request then notes that it does not show everything, and its answer cannot be
    /// remembered.
    #[must_use]
    pub fn with_max_content_bytes(self, bytes: usize) -> Self {
        Self { content_bytes: bytes.min(limits::MAX_CONTENT_BYTES), ..self }
    }

    /// Sets the maximum serialised size of raw input and of raw output, in bytes: 64 KiB each by
    /// default and at most. A larger value is truncated in its own shape, to at least 64 bytes.
    /// With zero, neither is shown. A retry is recognised by the whole input in any case.
    #[must_use]
    pub fn with_max_raw_bytes(self, bytes: usize) -> Self {
        Self { raw_bytes: bytes.min(limits::MAX_RAW_BYTES), ..self }
    }

    /// Sets the maximum size of a result of the middleware, or of an error of any call, that is shown
    /// as text, in bytes: 32 KiB by default, at most 256 KiB. The bytes beyond it, and those that
    /// exceed the content of the call, are counted. With zero, only the count is shown.
    #[must_use]
    pub fn with_max_result_text_bytes(self, bytes: usize) -> Self {
        Self { result_text_bytes: bytes.min(limits::MAX_RESULT_TEXT_BYTES), ..self }
    }
}
