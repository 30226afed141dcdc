//! Tests of messages and progress.

use acp_types::Progress;
use pretty_assertions::assert_eq;

use super::{download_failure, to_progress};
use crate::error::ErrorCode;
use crate::web::DownloadError;

#[test]
fn progress_is_in_bytes() {
    let expected = Progress::new(5_000.0).with_message("bytes".to_owned());
    assert_eq!(to_progress(5_000, None), expected);
    let expected =
        Progress::new(5_000.0).with_total(20_000.0).with_message("of 20,000 bytes".to_owned());
    assert_eq!(to_progress(5_000, Some(20_000)), expected);
}

#[test]
fn errors_name_the_host_the_reason_and_a_remedy() {
    for (error, code, message) in [
        (
            DownloadError::Stalled,
            ErrorCode::TimedOut,
            "a.example has sent nothing for 15 s. Try again later.",
        ),
        (
            DownloadError::TooSlow,
            ErrorCode::TimedOut,
            "The response of a.example was not complete after 60 s. Download it with a command.",
        ),
        (
            DownloadError::Protocol("x\u{1b}y".to_owned()),
            ErrorCode::Unreachable,
            "a.example has not answered as HTTP requires: x\\u{1b}y. Try again later.",
        ),
    ] {
        let failure = download_failure("a.example", error);
        assert_eq!((failure.code(), &*failure.to_string()), (Some(code), message));
    }
}
