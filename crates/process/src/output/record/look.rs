//! Looks at what is recorded while the command still writes: all of it so far, or what is new.

use super::{Excerpt, Place, Recorded, RecordedFile, Recording, State, sniffed};
use crate::limits::{COMMAND_OUTPUT_BYTES, OPEN_LINE_BYTES};
use crate::lock::lock;

/// How far an output was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// All of it up to the last end of a line: the line behind that is told again, when there is
    /// more of it. So what is written in pieces (a progress bar, a character) is read as a whole.
    bytes: u64,
    lines: u64,
    /// How many bytes there were.
    seen: u64,
}

/// What an output has more than what was told.
#[derive(Debug, Clone)]
pub struct Fresh {
    /// How many bytes are new.
    pub bytes: u64,
    /// Their beginning and their end as text, from the start of the line.
    pub excerpt: Excerpt,
    /// What the output looks like, if it is no text.
    pub binary: Option<String>,
    /// The file with all of the output, if it is long.
    pub file: Option<RecordedFile>,
}

impl Recording {
    /// Tells what there is so far. The recording goes on.
    pub fn so_far(&self) -> Recorded {
        let (kept, (file, trouble)) = {
            let state = &mut *lock(&self.state);
            (state.kept.clone(), state.place.so_far())
        };
        Recorded::of(&kept, file, trouble)
    }

    /// Tells what there is behind a mark, and moves the mark there.
    pub fn fresh(&self, mark: &mut Mark) -> Fresh {
        let (part, binary, file, seen, lines) = {
            let State { kept, place, .. } = &mut *lock(&self.state);
            let part = kept.since(mark.bytes, mark.lines);
            (part, sniffed(kept), place.so_far().0, kept.total(), kept.lines())
        };
        // Nobody who writes waits while text is made of it.
        let excerpt = part.excerpt(COMMAND_OUTPUT_BYTES);
        let fresh = Fresh { bytes: seen - mark.seen, excerpt, binary, file };
        let open = Some(part.open_line()).filter(|bytes| *bytes <= OPEN_LINE_BYTES);
        *mark = Mark { bytes: seen - open.unwrap_or(0), lines, seen };
        fresh
    }
}

impl Place {
    /// The file so far, and what went wrong with it.
    fn so_far(&mut self) -> (Option<RecordedFile>, Option<String>) {
        let (file, trouble) = match self {
            Self::Memory(_) => (None, None),
            Self::Nowhere(trouble) => (None, trouble.as_ref()),
            Self::File { file, path, trouble } => {
                let bytes = std::io::Seek::stream_position(file).unwrap_or(0);
                (Some(RecordedFile { path: path.clone(), bytes }), trouble.as_ref())
            }
        };
        (file, trouble.map(ToString::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn what_is_new_is_told_once_and_an_open_line_as_a_whole() {
        let recording = Recording::new(1_000, || Ok(None));
        let mut mark = Mark::default();
        let mut look = |bytes: &[u8]| {
            recording.push(bytes);
            let fresh = recording.fresh(&mut mark);
            (fresh.bytes, fresh.excerpt.text)
        };
        for (written, new, text) in [
            ("one\ntwo\n", 8, "one\ntwo\n"),
            ("", 0, ""),
            ("10%\r", 4, "10%"),
            ("20%\r", 4, "20%"),
            ("done\nname? ", 11, "done\nname? "),
            ("Ann\nbye\n", 8, "name? Ann\nbye\n"),
        ] {
            assert_eq!(look(written.as_bytes()), (new, text.to_owned()), "{written:?}");
        }
        // Half a character, half a colour.
        assert_eq!(look(b"\xc3"), (1, "\u{fffd}".to_owned()));
        assert_eq!(look(b"\xa9 \x1b[3").1, "\u{e9} ");
        assert_eq!(look(b"1mred\n").1, "\u{e9} red\n");
        assert_eq!(recording.so_far().lines, 6);
        assert_eq!(recording.finish().lines, 6);
    }

    #[test]
    fn of_a_flood_what_is_left_out_is_counted_from_the_mark_on() {
        let recording = Recording::new(1_000, || Ok(None));
        let mut mark = Mark::default();
        recording.push(b"told\n");
        recording.fresh(&mut mark);
        let flood: String = (0..400_000).map(|line| format!("{line}\n")).collect();
        recording.push(flood.as_bytes());
        let fresh = recording.fresh(&mut mark);
        assert_eq!(fresh.bytes, flood.len() as u64);
        let text = &fresh.excerpt.text;
        assert!(text.starts_with("0\n1\n") && text.ends_with("\n399999\n"));
        let shown = text.lines().filter(|line| line.parse::<u32>().is_ok()).count() as u64;
        assert!(fresh.excerpt.left_out_lines.abs_diff(400_000 - shown) <= 2, "{shown}");
        // A line that has no end and is long is not told again and again.
        recording.push("x".repeat(10_000).as_bytes());
        assert_eq!(recording.fresh(&mut mark).bytes, 10_000);
        recording.push(b"y");
        assert_eq!(recording.fresh(&mut mark).excerpt.text, "y");
        // Whatever is no longer kept is left out, the beginning too.
        recording.push(flood.as_bytes());
        assert!(recording.fresh(&mut mark).excerpt.text.contains("left out"));
    }
}
