//! Lines that are no messages. An agent answers each with an error without an id, or not at all,
//! and lives on.

/// What is wrong with a line, and the line.
pub const MALFORMED_LINES: &[(&str, &[u8])] = &[
    ("no JSON", b"hello"),
    ("half a message", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth"),
    ("a byte order mark", b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\"}"),
    ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"method\":\"_x/\xff\"}"),
    ("half a surrogate pair", b"{\"jsonrpc\":\"2.0\",\"method\":\"_x/\\ud800\"}"),
    ("a NUL", b"\0"),
    ("a number", b"17"),
    ("an empty batch", b"[]"),
    ("a batch", b"[{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\"}]"),
    ("an empty object", b"{}"),
    ("another version", b"{\"jsonrpc\":\"1.0\",\"method\":\"_x/y\"}"),
    ("a method that is none", b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":17}"),
    ("an id that is none", b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"_x/y\"}"),
    ("neither result nor error", b"{\"jsonrpc\":\"2.0\",\"id\":\"nothing\"}"),
    ("both", b"{\"jsonrpc\":\"2.0\",\"id\":\"both\",\"result\":{},\"error\":{}}"),
    ("an answer to nothing", b"{\"jsonrpc\":\"2.0\",\"id\":\"nobody asked\",\"result\":{}}"),
];
