//! Hashes of the contents that a session has read or written.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::limits::{MAX_KNOWN_HASHES, MIN_BYTES_HASHED_ASIDE};
use crate::lock::lock;

/// The SHA-256 hash of the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Computes the hash of some bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the hash of some bytes while this thread does other work. Many bytes are hashed on
    /// a thread of their own.
    pub(crate) fn of_bytes_during<T>(bytes: &[u8], work: impl FnOnce() -> T) -> (Self, T) {
        thread::scope(|scope| {
            let hash = || Self::of_bytes(bytes);
            let hashing = (bytes.len() >= MIN_BYTES_HASHED_ASIDE)
                .then(|| thread::Builder::new().spawn_scoped(scope, hash).ok())
                .flatten();
            let done = work();
            // Without a thread, or if the thread panicked, the bytes are hashed here.
            (hashing.and_then(|hashing| hashing.join().ok()).unwrap_or_else(hash), done)
        })
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContentHash({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// The content hashes of the files that a session read or wrote most recently.
#[derive(Debug, Default)]
pub(crate) struct KnownHashes(Mutex<HashesByPath>);

#[derive(Debug, Default)]
struct HashesByPath {
    hashes: HashMap<PathBuf, (u64, ContentHash)>,
    count: u64,
}

impl KnownHashes {
    pub(crate) fn record(&self, path: &Path, stamp: ContentHash) {
        let mut known = lock(&self.0);
        known.count += 1;
        let count = known.count;
        known.hashes.insert(path.to_owned(), (count, stamp));
        if known.hashes.len() > MAX_KNOWN_HASHES {
            let oldest = known.hashes.iter().min_by_key(|(_, (count, _))| *count);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                known.hashes.remove(&oldest);
            }
        }
    }

    /// Returns whether the file had the content hash `now` when the session last read or wrote it.
    pub(crate) fn is_last_seen_content(&self, path: &Path, now: ContentHash) -> bool {
        let known = lock(&self.0);
        known.hashes.get(path).is_some_and(|(_, stamp)| *stamp == now)
    }

    /// Returns whether the session has read or written the file.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let known = lock(&self.0);
        known.hashes.contains_key(path)
    }

    /// Returns whether the file had a content hash other than `now` when the session last read or
    /// wrote it. Returns `false` for a file that the session has not read or written.
    pub(crate) fn is_stale(&self, path: &Path, now: ContentHash) -> bool {
        let known = lock(&self.0);
        known.hashes.get(path).is_some_and(|(_, stamp)| *stamp != now)
    }
}

/// A reader that hashes all bytes that are read through it.
#[derive(Debug)]
pub(crate) struct HashingReader<R> {
    reader: R,
    hasher: Option<Sha256>,
}

impl<R> HashingReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, hasher: Some(Sha256::new()) }
    }

    /// Creates a reader that computes no hash, for files whose hash would take too much time.
    pub(crate) fn without_hash(reader: R) -> Self {
        Self { reader, hasher: None }
    }

    pub(crate) fn hash(&self) -> Option<ContentHash> {
        Some(ContentHash(self.hasher.clone()?.finalize().into()))
    }
}

impl<R: io::Read> io::Read for HashingReader<R> {
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
    use super::{ContentHash, HashingReader, KnownHashes};
    use crate::limits::{MAX_KNOWN_HASHES, MIN_BYTES_HASHED_ASIDE};
    use std::io::Read as _;
    use std::path::Path;

    #[test]
    fn a_stamp_is_stale_when_the_content_is_another() {
        let (stamps, path) = (KnownHashes::default(), Path::new("/f"));
        assert!(!stamps.is_stale(path, ContentHash::of_bytes(b"new")));
        assert!(!stamps.is_last_seen_content(path, ContentHash::of_bytes(b"new")));
        stamps.record(path, ContentHash::of_bytes(b"old"));
        assert!(stamps.is_stale(path, ContentHash::of_bytes(b"new")));
        assert!(!stamps.is_stale(path, ContentHash::of_bytes(b"old")));
        assert!(
            stamps.is_last_seen_content(path, ContentHash::of_bytes(b"old"))
                && !stamps.is_last_seen_content(path, ContentHash::of_bytes(b"new"))
        );
    }

    #[test]
    fn the_oldest_stamp_is_forgotten_first() {
        let stamps = KnownHashes::default();
        for file in 0..=MAX_KNOWN_HASHES {
            stamps.record(Path::new(&format!("/{file}")), ContentHash::of_bytes(b"old"));
        }
        assert!(!stamps.is_stale(Path::new("/0"), ContentHash::of_bytes(b"new")));
        assert!(stamps.is_stale(Path::new("/1"), ContentHash::of_bytes(b"new")));
    }

    #[test]
    fn bytes_are_hashed_while_they_are_read() {
        let mut reader = HashingReader::new(&b"some bytes"[..]);
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(reader.hash(), Some(ContentHash::of_bytes(b"some bytes")));
        assert_eq!(HashingReader::without_hash(&b""[..]).hash(), None);
    }

    #[test]
    fn bytes_that_are_hashed_aside_have_the_same_hash() {
        for len in [0, 1, MIN_BYTES_HASHED_ASIDE - 1, MIN_BYTES_HASHED_ASIDE, 3_000_000] {
            let bytes: Vec<_> = (0..len).map(|at| (at % 251) as u8).collect();
            let (hash, done) = ContentHash::of_bytes_during(&bytes, || 7);
            assert_eq!((hash, done), (ContentHash::of_bytes(&bytes), 7), "{len}");
        }
    }
}
