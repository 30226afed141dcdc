//! Progress reports of calls that work on files. A throttle limits the number of reports.

use std::time::Instant;

use acp_lifecycle::CallHandle;
use acp_types::{Location, Progress};
use callboard_text::{group_thousands, grouped_count_with_noun};

use crate::limits::PROGRESS_INTERVAL;

/// A throttle that allows one report in each [`PROGRESS_INTERVAL`].
#[derive(Debug)]
pub(crate) struct ProgressThrottle(Instant);

impl ProgressThrottle {
    /// Creates a throttle whose first interval starts now. A call that ends within this interval
    /// therefore reports no progress.
    pub(crate) fn begin() -> Self {
        Self::begin_at(Instant::now())
    }

    pub(crate) fn begin_at(now: Instant) -> Self {
        Self(now)
    }

    pub(crate) fn restart_if_due_now(&mut self) -> bool {
        self.restart_if_due(Instant::now())
    }

    pub(crate) fn restart_if_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.0) >= PROGRESS_INTERVAL;
        if is_due {
            self.0 = now;
        }
        is_due
    }
}

/// The progress of an operation on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilesDone {
    pub(crate) files: usize,
    pub(crate) total_files: usize,
    pub(crate) bytes: usize,
    /// The total number of bytes. `None` if it is unknown.
    pub(crate) total_bytes: Option<usize>,
}

impl FilesDone {
    /// Converts the progress to a number of files if the operation has several files. Otherwise
    /// converts it to a number of bytes.
    fn to_progress(self) -> Progress {
        let bytes = |count| group_thousands(count as u64);
        let (current, total, message) = if self.total_files > 1 {
            let written = grouped_count_with_noun(self.bytes as u64, "byte", "bytes");
            (self.files, Some(self.total_files), format!("files, {written}"))
        } else {
            let of = self.total_bytes.map_or_else(String::new, |all| format!("of {} ", bytes(all)));
            (self.bytes, self.total_bytes, format!("{of}bytes"))
        };
        let total = total.map(|total| total as f64);
        Progress::new(current as f64).with_total(total).with_message(message)
    }
}

/// A callback that receives the progress of writing files.
pub(crate) type OnProgress<'a> = dyn FnMut(FilesDone) + 'a;

/// Reports the progress of a call and its current locations to the client.
#[derive(Debug)]
pub(crate) struct ProgressReporter {
    call: Option<CallHandle>,
    throttle: ProgressThrottle,
    has_reported: bool,
}

impl ProgressReporter {
    /// Creates a reporter for a call. If `call` is `None`, the reporter does nothing.
    pub(crate) fn for_call(call: Option<CallHandle>) -> Self {
        Self { call, throttle: ProgressThrottle::begin(), has_reported: false }
    }

    /// Reports the progress if a report is due. `places` returns the current locations of the call.
    /// If `places` returns no locations, the locations that were already reported stay unchanged.
    pub(crate) fn report_if_due(&mut self, far: FilesDone, places: impl FnOnce() -> Vec<Location>) {
        let Some(call) = self.call.as_ref().filter(|_| self.throttle.restart_if_due_now()) else {
            return;
        };
        let places = places();
        if !places.is_empty() {
            call.set_locations(places);
        }
        call.report_progress(far.to_progress());
        self.has_reported = true;
    }

    /// Removes the reported progress, so that the next step starts without progress.
    pub(crate) fn clear_reported_progress(&mut self) {
        if let Some(call) = self.call.as_ref().filter(|_| self.has_reported) {
            call.set_subtitle(None);
            call.update_meta(|meta| meta.progress = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FilesDone;
    use acp_types::Progress;
    use pretty_assertions::assert_eq;

    #[test]
    fn several_files_are_counted_and_the_bytes_of_one() {
        let progress = |current: u32, total: Option<u32>, message: &str| {
            let total = total.map(f64::from);
            Progress::new(current.into()).with_total(total).with_message(message.to_owned())
        };
        let many = FilesDone { files: 2, total_files: 9, bytes: 1_234, total_bytes: None };
        assert_eq!(many.to_progress(), progress(2, Some(9), "files, 1,234 bytes"));
        let one = FilesDone { files: 0, total_files: 1, bytes: 5_000, total_bytes: Some(20_000) };
        assert_eq!(one.to_progress(), progress(5_000, Some(20_000), "of 20,000 bytes"));
        let unknown = FilesDone { total_bytes: None, ..one };
        assert_eq!(unknown.to_progress(), progress(5_000, None, "bytes"));
    }
}
