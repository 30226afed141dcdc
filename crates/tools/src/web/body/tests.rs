//! Tests of bounded bodies, with and without compression.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use pretty_assertions::assert_eq;

use super::{Body, BodyCollector};

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn collect(encoding: &str, pieces: &[&[u8]], max: usize) -> Result<Body, String> {
    let mut collector = BodyCollector::try_new(encoding, max).map_err(|error| error.0)?;
    for piece in pieces {
        if !collector.push(piece).map_err(|error| error.0)? {
            assert!(collector.len() <= max);
            return collector.finish(false).map_err(|error| error.0);
        }
    }
    collector.finish(true).map_err(|error| error.0)
}

fn body(bytes: &[u8], is_truncated: bool) -> Body {
    Body { bytes: bytes.to_vec(), is_truncated }
}

#[test]
fn bodies_are_bounded() {
    assert_eq!(collect("", &[b"abc", b"de"], 5), Ok(body(b"abcde", false)));
    assert_eq!(collect("identity", &[b"abc", b"def"], 5), Ok(body(b"abcde", true)));
    assert_eq!(collect("", &[], 5), Ok(body(b"", false)));
    let compressed = gzip(b"abcde");
    let max = compressed.len();
    assert_eq!(collect("gzip", &[&compressed], max), Ok(body(b"abcde", false)));
    let bytes: Vec<_> = compressed.iter().map(std::slice::from_ref).collect();
    assert_eq!(collect("X-Gzip", &bytes, max), Ok(body(b"abcde", false)));
    assert_eq!(collect("gzip", &[&gzip(b"ab"), &gzip(b"cd")], 99), Ok(body(b"abcd", false)));
}

#[test]
fn a_bomb_is_cut_at_the_maximum() {
    let bomb = gzip(&vec![b'x'; 50_000_000]);
    assert!(bomb.len() < 50_000, "{}", bomb.len());
    let collected = collect("gzip", &[&bomb], 100_000).unwrap();
    assert_eq!((collected.bytes.len(), collected.is_truncated), (100_000, true));
    assert!(collected.bytes.capacity() < 1_000_000);
}

#[test]
fn compressed_data_without_content_is_bounded_too() {
    let mut collector = BodyCollector::try_new("gzip", 1000).unwrap();
    assert!(collector.push(&gzip(b"")[..10]).unwrap());
    // Send empty deflate blocks again and again. No block is marked as the last block.
    let mut pushed = 0;
    while collector.push(&[0, 0, 0, 0xff, 0xff]).unwrap() {
        pushed += 1;
        assert!(pushed < 1000);
    }
    assert_eq!(collector.finish(false).unwrap().bytes, b"");
}

#[test]
fn a_compressed_body_may_be_empty_or_end_with_padding() {
    assert_eq!(collect("gzip", &[], 9), Ok(body(b"", false)));
    assert_eq!(collect("gzip", &[b""], 9), Ok(body(b"", false)));
    let compressed = gzip(b"abcde");
    for padding in [b"\0\0\0".as_slice(), b"padding", b"\x1f", &[0; 40]] {
        let padded = [&compressed, padding].concat();
        assert_eq!(collect("gzip", &[&padded], 99), Ok(body(b"abcde", false)));
        let bytes: Vec<_> = padded.iter().map(std::slice::from_ref).collect();
        assert_eq!(collect("gzip", &bytes, 99), Ok(body(b"abcde", false)));
    }
    // The text of a second member would be missing.
    let cut = [compressed.as_slice(), &compressed[..compressed.len() - 4]].concat();
    let error = collect("gzip", &[&cut], 99).unwrap_err();
    assert!(error.starts_with("it cannot be decompressed ("), "{error}");
}

#[test]
fn broken_and_unknown_encodings_are_errors() {
    let compressed = gzip(b"abcde");
    let unknown = "it is compressed in a way that was not requested";
    assert_eq!(collect("br", &[b"abc"], 9), Err(unknown.to_owned()));
    for broken in [b"abc".repeat(9).as_slice(), &compressed[..compressed.len() - 4]] {
        let error = collect("gzip", &[broken], 99).unwrap_err();
        assert!(error.starts_with("it cannot be decompressed ("), "{error}");
    }
}
