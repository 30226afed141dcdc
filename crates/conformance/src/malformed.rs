//! Malformed lines. An agent must keep running after each line. The agent may answer a line with an
//! error that has no id, or may not answer at all.

/// Malformed lines, each with a description of its fault.
pub const MALFORMED_LINES: &[(&str, &[u8])] = &[
    ("not JSON", b"hello"),
    ("half a message", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth"),
    ("a byte order mark", b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\"}"),
    ("not UTF-8", b"{\"jsonrpc\":\"2.0\",\"method\":\"_x/\xff\"}"),
    ("half a surrogate pair", b"{\"jsonrpc\":\"2.0\",\"method\":\"_x/\\ud800\"}"),
    ("a NUL", b"\0"),
    ("a number", b"17"),
    ("an empty batch", b"[]"),
    ("a batch", b"[{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\"}]"),
    ("an empty object", b"{}"),
    ("another version", b"{\"jsonrpc\":\"1.0\",\"method\":\"_x/y\"}"),
    ("a method that is not a string", b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":17}"),
    ("an id that is an object", b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"_x/y\"}"),
    ("neither result nor error", b"{\"jsonrpc\":\"2.0\",\"id\":\"nothing\"}"),
    ("both result and error", b"{\"jsonrpc\":\"2.0\",\"id\":\"both\",\"result\":{},\"error\":{}}"),
    ("an unsolicited response", b"{\"jsonrpc\":\"2.0\",\"id\":\"nobody asked\",\"result\":{}}"),
];
