//! Tests of media types.

use pretty_assertions::assert_eq;

use super::{MediaType, Representation};

#[test]
fn types_are_parsed_and_represented() {
    use Representation::{Binary, Html, Image, Text};
    for (value, essence, charset, representation) in [
        ("text/html", "text/html", None, Some(Html)),
        ("Text/HTML; Charset=\"UTF-8\"", "text/html", Some("UTF-8"), Some(Html)),
        ("text/plain;charset=latin1; x=y", "text/plain", Some("latin1"), Some(Text)),
        ("application/ld+json", "application/ld+json", None, Some(Text)),
        ("image/svg+xml", "image/svg+xml", None, Some(Text)),
        ("image/png", "image/png", None, Some(Image)),
        ("application/pdf", "application/pdf", None, Some(Binary)),
        ("application/octet-stream", "application/octet-stream", None, None),
        ("", "", None, None),
        ("text", "", None, None),
        ("a/b\u{202e}", "", None, None),
    ] {
        let parsed = MediaType::parse(value);
        let expected =
            MediaType { essence: essence.to_owned(), charset: charset.map(str::to_owned) };
        assert_eq!(parsed, expected, "{value}");
        assert_eq!(parsed.representation(), representation, "{value}");
    }
}

#[test]
fn bodies_decide_where_the_type_does_not() {
    use Representation::{Binary, Html, Text};
    let zip = b"PK\x03\x04\0\0\0\0".as_slice();
    for (value, body, representation) in [
        ("", b"\n<!DOCTYPE HTML><p>".as_slice(), Html),
        ("", b"<html lang=en>", Html),
        ("application/octet-stream", b"fn main() {}", Text),
        ("application/octet-stream", zip, Binary),
        ("text/plain", zip, Binary),
        ("text/html; charset=utf-16le", b"<\0p\0>\0", Html),
        ("text/html", b"<p>", Html),
        ("text/html", b"<!doctype html><p>\0", Html),
        ("text/html", b"<p>\0", Binary),
        ("text/plain", b"\xff\xfeh\0i\0", Text),
        ("text/plain", b"\xfe\xff\0h\0i", Text),
        ("text/html", b"\xff\xfe<\0p\0>\0", Html),
        ("", b"\xff\xfeh\0i\0", Text),
    ] {
        let found = MediaType::parse(value).representation_of_body(body);
        assert_eq!(found, representation, "{value}");
    }
}
