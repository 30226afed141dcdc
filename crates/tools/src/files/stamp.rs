//! What a file held when the session last saw it, as a hash. It knows nothing of times.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sha2::{Digest as _, Sha256};

use crate::limits::STAMPS;
use crate::lock::lock;

/// The content of a file as a hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp([u8; 32]);

impl Stamp {
    /// Makes the stamp of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stamp({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// The stamps of the files that a session read or wrote, the last ones of them.
#[derive(Debug, Default)]
pub(crate) struct Stamps(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    stamps: HashMap<PathBuf, (u64, Stamp)>,
    count: u64,
}

impl Stamps {
    pub(crate) fn note(&self, path: &Path, stamp: Stamp) {
        let mut known = lock(&self.0);
        known.count += 1;
        let count = known.count;
        known.stamps.insert(path.to_owned(), (count, stamp));
        if known.stamps.len() > STAMPS {
            let oldest = known.stamps.iter().min_by_key(|(_, (count, _))| *count);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                known.stamps.remove(&oldest);
            }
        }
    }

    /// Whether the session saw the file with just this content.
    pub(crate) fn holds(&self, path: &Path, now: Stamp) -> bool {
        let known = lock(&self.0);
        known.stamps.get(path).is_some_and(|(_, stamp)| *stamp == now)
    }

    /// Whether the session saw the file, whatever it held.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        let known = lock(&self.0);
        known.stamps.contains_key(path)
    }

    /// Whether the session saw the file, and then with other content.
    pub(crate) fn is_stale(&self, path: &Path, now: Stamp) -> bool {
        let known = lock(&self.0);
        known.stamps.get(path).is_some_and(|(_, stamp)| *stamp != now)
    }
}

/// Makes the stamp of what is read through it.
#[derive(Debug)]
pub(crate) struct Stamping<R> {
    reader: R,
    hasher: Option<Sha256>,
}

impl<R> Stamping<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, hasher: Some(Sha256::new()) }
    }

    /// Makes none, for what is too large to be worth it.
    pub(crate) fn without(reader: R) -> Self {
        Self { reader, hasher: None }
    }

    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Some(Stamp(self.hasher.clone()?.finalize().into()))
    }
}

impl<R: io::Read> io::Read for Stamping<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes[..read]);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, Stamping, Stamps};
    use crate::limits::STAMPS;
    use std::io::Read as _;
    use std::path::Path;

    #[test]
    fn a_stamp_is_stale_when_the_content_is_another() {
        let (stamps, path) = (Stamps::default(), Path::new("/f"));
        assert!(!stamps.is_stale(path, Stamp::of(b"new")));
        assert!(!stamps.holds(path, Stamp::of(b"new")));
        stamps.note(path, Stamp::of(b"old"));
        assert!(stamps.is_stale(path, Stamp::of(b"new")));
        assert!(!stamps.is_stale(path, Stamp::of(b"old")));
        assert!(stamps.holds(path, Stamp::of(b"old")) && !stamps.holds(path, Stamp::of(b"new")));
    }

    #[test]
    fn the_oldest_stamp_is_forgotten_first() {
        let stamps = Stamps::default();
        for file in 0..=STAMPS {
            stamps.note(Path::new(&format!("/{file}")), Stamp::of(b"old"));
        }
        assert!(!stamps.is_stale(Path::new("/0"), Stamp::of(b"new")));
        assert!(stamps.is_stale(Path::new("/1"), Stamp::of(b"new")));
    }

    #[test]
    fn what_is_read_is_stamped() {
        let mut reader = Stamping::new(&b"some bytes"[..]);
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(reader.stamp(), Some(Stamp::of(b"some bytes")));
        assert_eq!(Stamping::without(&b""[..]).stamp(), None);
    }
}
