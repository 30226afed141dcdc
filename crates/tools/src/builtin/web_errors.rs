//! Errors and progress of the tools for the web.

use std::sync::Mutex;

use acp_lifecycle::CallHandle;
use acp_types::Progress;
use callboard_text::{escape_invisible_truncated, group_thousands};

use crate::error::{ErrorCode, ToolError};
use crate::limits::MAX_CLIENT_ERROR_BYTES;
use crate::lock::lock;
use crate::network::ConnectError;
use crate::progress::ProgressThrottle;
use crate::web::DownloadError;
use crate::web::limits::{MAX_DOWNLOAD_TIME, MAX_STALL_TIME};

/// Creates the tool error for a host that is not permitted, or that cannot be reached.
pub(crate) fn route_failure(host: &str, error: ConnectError) -> ToolError {
    match error {
        ConnectError::Forbidden(reason) => {
            let message = format!(
                "{reason} A private address can be fetched only if a rule of the user allows the \
                 host {host}; addresses of this computer and of cloud metadata never can. Ask the \
                 user, or use a command in terminal."
            );
            ToolError::recoverable(ErrorCode::NotPermitted, message)
        }
        ConnectError::Unreachable(reason) => {
            let message = format!("{reason} Check the host in the URL, or try again later.");
            ToolError::recoverable(ErrorCode::Unreachable, message)
        }
    }
}

/// Creates the tool error for a failed request. `host` is the host of the request.
pub(crate) fn download_failure(host: &str, error: DownloadError) -> ToolError {
    let shown = |reason: &str| escape_invisible_truncated(reason, MAX_CLIENT_ERROR_BYTES).0;
    let (code, message) = match error {
        DownloadError::Connect(error) => return route_failure(host, error),
        DownloadError::Tls(reason) => {
            let reason = shown(&reason);
            let message = format!(
                "No encrypted connection to {host}: {reason}. Check the host, or ask the user \
                 whether the system trusts its certificate."
            );
            (ErrorCode::Unreachable, message)
        }
        DownloadError::Protocol(reason) => {
            let reason = shown(&reason);
            let message =
                format!("{host} has not answered as HTTP requires: {reason}. Try again later.");
            (ErrorCode::Unreachable, message)
        }
        DownloadError::Body(reason) => {
            let reason = shown(&reason);
            let message = format!(
                "The response of {host} cannot be read: {reason}. Download it with a command."
            );
            (ErrorCode::Unreachable, message)
        }
        DownloadError::Stalled => {
            let seconds = MAX_STALL_TIME.as_secs();
            let message = format!("{host} has sent nothing for {seconds} s. Try again later.");
            (ErrorCode::TimedOut, message)
        }
        DownloadError::TooSlow => {
            let seconds = MAX_DOWNLOAD_TIME.as_secs();
            let message = format!(
                "The response of {host} was not complete after {seconds} s. Download it with a \
                 command."
            );
            (ErrorCode::TimedOut, message)
        }
    };
    ToolError::recoverable(code, message)
}

/// Reports the number of received bytes to the client.
pub(crate) struct BytesReporter {
    call: CallHandle,
    throttle: Mutex<ProgressThrottle>,
}

impl BytesReporter {
    pub(crate) fn for_call(call: CallHandle) -> Self {
        Self { call, throttle: Mutex::new(ProgressThrottle::begin()) }
    }

    pub(crate) fn report(&self, bytes: u64, total: Option<u64>) {
        if lock(&self.throttle).restart_if_due_now() {
            self.call.report_progress(to_progress(bytes, total));
        }
    }
}

fn to_progress(bytes: u64, total: Option<u64>) -> Progress {
    let of = total.map_or_else(String::new, |total| format!("of {} ", group_thousands(total)));
    let total = total.map(|total| total as f64);
    Progress::new(bytes as f64).with_total(total).with_message(format!("{of}bytes"))
}

#[cfg(test)]
mod tests;
