//! The settings of a session.

use std::time::Duration;

use crate::limits;

/// The settings of a session. The settings limit how often updates are sent, and how much of a call
/// is sent. See [`Session::with_config`](crate::Session::with_config).
///
/// The defaults suit a client on the same machine. Each setter limits its value to a fixed maximum.
/// Every protocol message therefore stays smaller than 1 MiB. Clients refuse messages of 1 MiB or
/// more.
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
    /// Sets the minimum interval between two streamed updates of one call, terminal or message. The
    /// default is 50 ms. The value is limited to the range from 10 ms to 10 s. The interval limits
    /// the amount of data, because each update of a growing text repeats the text.
    #[must_use]
    pub fn with_update_interval(self, interval: Duration) -> Self {
        let bounds = (limits::MIN_UPDATE_INTERVAL, limits::MAX_UPDATE_INTERVAL);
        Self { update_interval: interval.clamp(bounds.0, bounds.1), ..self }
    }

    /// Sets the maximum size of the content that a call shows, in bytes. The default is 768 KiB.
    /// Larger values are reduced to 768 KiB. Further content items are omitted and counted. If the
    /// maximum is zero, no content is shown. A permission request then notes that it does not show
    /// everything, and its answer cannot be remembered.
    #[must_use]
    pub fn with_max_content_bytes(self, bytes: usize) -> Self {
        Self { content_bytes: bytes.min(limits::MAX_CONTENT_BYTES), ..self }
    }

    /// Sets the maximum serialised size of raw input and of raw output, in bytes. The default is 64
    /// KiB for each. Larger limits are reduced to 64 KiB. Input or output that exceeds the limit is
    /// truncated but keeps its JSON shape. Limits from 1 to 63 count as 64. If the limit is zero,
    /// neither input nor output is shown. A retry is detected by comparing the whole input,
    /// regardless of the limit.
    #[must_use]
    pub fn with_max_raw_bytes(self, bytes: usize) -> Self {
        Self { raw_bytes: bytes.min(limits::MAX_RAW_BYTES), ..self }
    }

    /// Sets the maximum size, in bytes, of the text that shows a call's result or error. The limit
    /// applies to the results of calls that `ToolMiddleware` runs, and to the errors of all calls.
    /// The default is 32 KiB, and the maximum is 256 KiB. Omitted bytes are counted. Bytes that
    /// exceed the maximum content size of the call are omitted too. If the value is zero, only the
    /// count of omitted bytes is shown.
    #[must_use]
    pub fn with_max_shown_result_bytes(self, bytes: usize) -> Self {
        Self { result_text_bytes: bytes.min(limits::MAX_RESULT_TEXT_BYTES), ..self }
    }
}
