//! How far a call is that works on files, told now and then.
//!
//! It knows nothing of what is done with them.

use std::time::Instant;

use acp_lifecycle::CallHandle;
use acp_types::{Location, Progress};
use callboard_text::{grouped, grouped_count};

use crate::limits::PROGRESS_INTERVAL;

/// Says when it is time to tell of something again: every [`PROGRESS_INTERVAL`].
#[derive(Debug)]
pub(crate) struct Pace(Instant);

impl Pace {
    /// Begins, with nothing to tell of what is done at once.
    pub(crate) fn begin() -> Self {
        Self::begin_at(Instant::now())
    }

    pub(crate) fn begin_at(now: Instant) -> Self {
        Self(now)
    }

    pub(crate) fn is_due(&mut self) -> bool {
        self.is_due_at(Instant::now())
    }

    pub(crate) fn is_due_at(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.0) >= PROGRESS_INTERVAL;
        if is_due {
            self.0 = now;
        }
        is_due
    }
}

/// How much is done of something that is done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Far {
    pub(crate) files: usize,
    pub(crate) of_files: usize,
    pub(crate) bytes: usize,
    /// As far as it is known.
    pub(crate) of_bytes: Option<usize>,
}

impl Far {
    /// Counts files where there are several, else bytes.
    fn progress(self) -> Progress {
        let bytes = |count| grouped(count as u64);
        let (current, total, message) = if self.of_files > 1 {
            let written = grouped_count(self.bytes as u64, "byte", "bytes");
            (self.files, Some(self.of_files), format!("files, {written}"))
        } else {
            let of = self.of_bytes.map_or_else(String::new, |all| format!("of {} ", bytes(all)));
            (self.bytes, self.of_bytes, format!("{of}bytes"))
        };
        let total = total.map(|total| total as f64);
        Progress::new(current as f64).with_total(total).with_message(message)
    }
}

/// Told how far the writing of files is, ever again.
pub(crate) type Watch<'a> = dyn FnMut(Far) + 'a;

/// Tells a client how far a call is, and where it works.
#[derive(Debug)]
pub(crate) struct Teller {
    call: Option<CallHandle>,
    pace: Pace,
    has_told: bool,
}

impl Teller {
    /// Begins for a call; without one, nobody is told.
    pub(crate) fn of(call: Option<CallHandle>) -> Self {
        Self { call, pace: Pace::begin(), has_told: false }
    }

    /// Tells it, if it is time to; `places` are those that the call works on just now, if they are
    /// others than those which it named.
    pub(crate) fn tell(&mut self, far: Far, places: impl FnOnce() -> Vec<Location>) {
        let Some(call) = self.call.as_ref().filter(|_| self.pace.is_due()) else { return };
        let places = places();
        if !places.is_empty() {
            call.locations(places);
        }
        call.progress(far.progress());
        self.has_told = true;
    }

    /// Takes back how far it was, as something else begins.
    pub(crate) fn forget(&mut self) {
        if let Some(call) = self.call.as_ref().filter(|_| self.has_told) {
            call.subtitle(None);
            call.change_meta(|meta| meta.progress = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Far;
    use acp_types::Progress;
    use pretty_assertions::assert_eq;

    #[test]
    fn several_files_are_counted_and_the_bytes_of_one() {
        let progress = |current: u32, total: Option<u32>, message: &str| {
            let total = total.map(f64::from);
            Progress::new(current.into()).with_total(total).with_message(message.to_owned())
        };
        let many = Far { files: 2, of_files: 9, bytes: 1_234, of_bytes: None };
        assert_eq!(many.progress(), progress(2, Some(9), "files, 1,234 bytes"));
        let one = Far { files: 0, of_files: 1, bytes: 5_000, of_bytes: Some(20_000) };
        assert_eq!(one.progress(), progress(5_000, Some(20_000), "of 20,000 bytes"));
        let unknown = Far { of_bytes: None, ..one };
        assert_eq!(unknown.progress(), progress(5_000, None, "bytes"));
    }
}
