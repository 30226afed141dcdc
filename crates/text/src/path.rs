//! Normalises paths lexically, and converts them to one line of text and back.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::is_invisible;

/// Resolves `.` and `..` lexically. At the root, `..` has no effect.
///
/// Symbolic links are not followed, so the result contains the names that the user sees, not the
/// targets of links. Never use the result to decide whether access to a file is allowed.
#[must_use]
pub fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Returns a path as one line of text that [`unquote_path`] converts back to the same path.
///
/// A file name in the path is unchanged if it is valid UTF-8 without [invisible](is_invisible)
/// characters. Any other file name is quoted as in bash: `$'a\xff.txt'`. Each file name is quoted
/// separately, so the text of an absolute path still begins with `/`. In a bash command, a quoted
/// name means the original file name. A file name that already looks quoted is quoted again.
///
/// ```
/// # #[cfg(unix)] {
/// use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};
/// use callboard_text::{unquote_path, path_text};
///
/// let path = Path::new(OsStr::from_bytes(b"/src/a\xff.txt"));
/// assert_eq!(path_text(path), r"/src/$'a\xff.txt'");
/// assert_eq!(unquote_path(r"/src/$'a\xff.txt'"), path);
/// # }
/// ```
#[must_use]
pub fn path_text(path: &Path) -> Cow<'_, str> {
    let plain = path.to_str().filter(|text| text.split('/').all(needs_no_quotes));
    plain.map_or_else(|| quote_path(path).into(), Cow::Borrowed)
}

/// Parses the text of a path: the inverse of [`path_text`].
///
/// Other escapes in bash's quotes, e.g. octal escapes, are accepted too. A file name is taken
/// literally if its quotes are invalid, or if the unquoted name would contain a `/` or a NUL.
#[must_use]
pub fn unquote_path(text: &str) -> Cow<'_, Path> {
    if !text.contains("$'") {
        return Path::new(text).into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for (at, name) in text.split('/').enumerate() {
        if at > 0 {
            bytes.push(b'/');
        }
        match unquote_name(name) {
            Some(name) => bytes.extend(name),
            None => bytes.extend_from_slice(name.as_bytes()),
        }
    }
    Cow::Owned(path_from_bytes(bytes))
}

/// Returns a path that can be represented in JSON: the path itself if it is valid UTF-8, or else
/// its [text](path_text).
#[must_use]
pub fn quote_path_unless_utf8(path: &Path) -> Cow<'_, Path> {
    match path.to_str() {
        Some(_) => Cow::Borrowed(path),
        None => Cow::Owned(path_text(path).into_owned().into()),
    }
}

fn needs_no_quotes(name: &str) -> bool {
    !name.contains(is_invisible) && unquote_name(name).is_none()
}

fn quote_path(path: &Path) -> String {
    let mut text = String::new();
    for (at, name) in path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/').enumerate() {
        if at > 0 {
            text.push('/');
        }
        match str::from_utf8(name) {
            Ok(name) if needs_no_quotes(name) => text.push_str(name),
            _ => push_quoted_name(name, &mut text),
        }
    }
    text
}

fn push_quoted_name(name: &[u8], text: &mut String) {
    text.push_str("$'");
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\\' | '\'' => text.extend(['\\', letter]),
                _ if is_invisible(letter) => {
                    escape(text, letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(letter),
            }
        }
        escape(text, chunk.invalid());
    }
    text.push('\'');
}

/// Returns the bytes of a quoted file name, or `None` if the file name is not quoted.
fn unquote_name(name: &str) -> Option<Vec<u8>> {
    let mut rest = name.strip_prefix("$'")?.strip_suffix('\'')?;
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\'' => return None,
            '\\' => rest = parse_escape(rest, &mut bytes)?,
            _ => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    (!bytes.iter().any(|byte| matches!(byte, b'/' | 0))).then_some(bytes)
}

/// Parses an escape after its backslash, and returns the remaining text.
fn parse_escape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let letter = text.chars().next()?;
    let rest = &text[letter.len_utf8()..];
    let byte = match letter {
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'a' => 0x07,
        'b' => 0x08,
        'e' | 'E' => 0x1b,
        'f' => 0x0c,
        'v' => 0x0b,
        '\\' | '\'' | '"' | '?' => letter as u8,
        'x' => {
            let (number, rest) = parse_number(rest, 16, 2)?;
            bytes.push(u8::try_from(number).ok()?);
            return Some(rest);
        }
        '0'..='7' => {
            let (number, rest) = parse_number(text, 8, 3)?;
            bytes.push(u8::try_from(number).ok()?);
            return Some(rest);
        }
        'u' | 'U' => {
            let (number, rest) = parse_number(rest, 16, if letter == 'u' { 4 } else { 8 })?;
            bytes.extend_from_slice(char::from_u32(number)?.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(rest);
        }
        _ => return None,
    };
    bytes.push(byte);
    Some(rest)
}

/// Parses a number of at most `digits` digits, and returns the remaining text.
fn parse_number(text: &str, radix: u32, digits: usize) -> Option<(u32, &str)> {
    let length = text.chars().take(digits).take_while(|digit| digit.is_digit(radix)).count();
    let (number, rest) = text.split_at(length);
    Some((u32::from_str_radix(number, radix).ok()?, rest))
}

#[cfg(unix)]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::{normalise, path_text, quote_path_unless_utf8, unquote_path};
    use crate::is_invisible;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn dots_are_resolved_by_the_text_alone() {
        for (given, expected) in [
            ("/a/./b//c", "/a/b/c"),
            ("/a/c/../b", "/a/b"),
            ("/../../b", "/b"),
            ("a/../../b", "b"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(normalise(Path::new(given)), Path::new(expected), "{given}");
        }
    }

    #[test]
    fn only_names_that_text_cannot_hold_are_quoted() {
        for (bytes, text) in [
            (&b"/src/a b.txt"[..], "/src/a b.txt"),
            ("/ä/it's $HOME\\n".as_bytes(), "/ä/it's $HOME\\n"),
            (b"/src/a\xff.txt", r"/src/$'a\xff.txt'"),
            (b"\xe4\xf6/b.txt", r"$'\xe4\xf6'/b.txt"),
            (b"it's\xff\\", r"$'it\'s\xff\\'"),
            (b"two\nlines\t\x1b", r"$'two\nlines\t\x1b'"),
            ("a\u{85}b".as_bytes(), r"$'a\xc2\x85b'"),
            ("a\u{202e}\u{200b}".as_bytes(), r"$'a\xe2\x80\xae\xe2\x80\x8b'"),
            (b"$'a'", r"$'$\'a\''"),
            (b"$'a", "$'a"),
            (b"$'a'b'", "$'a'b'"),
            (b"", ""),
        ] {
            assert_eq!(path_text(path(bytes)), text, "{bytes:?}");
            assert_eq!(unquote_path(text), path(bytes), "{text}");
        }
    }

    #[test]
    fn other_bash_escapes_are_parsed_and_invalid_quotes_are_literal() {
        for (text, bytes) in [
            (r"$'a\377.txt'", &b"a\xff.txt"[..]),
            (r"$'\xf\e\u00e4\a'", b"\x0f\x1b\xc3\xa4\x07"),
            (r"$'a\x2fb'", br"$'a\x2fb'"),
            (r"$'a\0'", br"$'a\0'"),
            (r"$'a\400'", br"$'a\400'"),
            (r"$'a\q'", br"$'a\q'"),
            (r"$'a\'", br"$'a\'"),
            (r"$'a\ud800'", br"$'a\ud800'"),
            ("$'", b"$'"),
        ] {
            assert_eq!(unquote_path(text), path(bytes), "{text}");
        }
    }

    #[test]
    fn a_path_for_json_is_itself_if_that_is_utf_8() {
        assert_eq!(quote_path_unless_utf8(path(b"/a\n")), path(b"/a\n"));
        assert_eq!(quote_path_unless_utf8(path(b"/a\xff")), path(br"/$'a\xff'"));
    }

    /// Generates file names of any bytes. Bytes that matter for quoting are more frequent.
    fn names() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(b'\''),
            Just(b'$'),
            Just(b'\\'),
            Just(b'/'),
            Just(b'x'),
            Just(b'7'),
            1_u8..,
        ];
        prop::collection::vec(byte, 0..24)
    }

    proptest! {
        #[test]
        fn every_path_round_trips(bytes in names()) {
            let text = path_text(path(&bytes));
            prop_assert!(!text.contains(is_invisible), "{}", text);
            // Compare the bytes: the comparison of two `Path` values ignores repeated slashes.
            let back = unquote_path(&text);
            prop_assert_eq!(back.as_os_str().as_bytes(), &bytes);
        }

        #[test]
        fn any_text_is_some_path(text in r"(\$'|'|\\|/|x|[0-9a-f]|ä)*") {
            let path = unquote_path(&text).into_owned();
            let shown = path_text(&path);
            prop_assert_eq!(&*unquote_path(&shown), path.as_path());
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the form is bash's, so bash is asked")]
    fn bash_reads_a_quoted_name_alike() {
        let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let script = format!("printf %s {}", path_text(path(&name)));
        // The comparison is skipped if bash is not installed.
        let Ok(output) = Command::new("bash").args(["-c", &script]).env("LC_ALL", "C").output()
        else {
            return;
        };
        assert_eq!(output.stdout, name);
    }
}
