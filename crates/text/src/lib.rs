//! Text for people and models: truncation at character boundaries, escapes for invisible and
//! reordering characters, code fences, dates, and paths as text.
//!
//! This crate contains *only* pure functions over types of the standard library, and has no other
//! dependency. For terminal output, use `callboard-process`. For the length of JSON, use
//! `acp-types`.
#![doc = include_str!("../README.md")]

mod date;
mod format;
mod invisible;
mod path;
mod visible;

pub use date::{format_utc_date, rfc3339_utc};
pub use format::{
    base64_decoded_len, count_with_noun, format_duration, group_thousands, grouped_count_with_noun,
    head, tail, wrap_in_code_fence,
};
pub use invisible::{is_invisible, is_strippable_from_output, push_char_escaping_invisible};
pub use path::{normalise, path_text, quote_path_unless_utf8, unquote_path};
pub use visible::{
    escape_invisible, escape_invisible_in_json, escape_invisible_prefix, escape_invisible_truncated,
};
