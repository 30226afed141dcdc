//! Text that is shown to people and models: cuts that split no character, invisible and reordering
//! characters made visible, fences, paths as text.
//!
//! This crate is *only* pure functions over `str` and `Path`, and depends on the standard library
//! alone. It does no I/O. For the output of a terminal use `callboard-process`, for the length of JSON
//! `acp-types`.
#![doc = include_str!("../README.md")]

mod format;
mod invisible;
mod path;
mod visible;

pub use format::{
    code_fence, count_with_noun, format_duration, group_thousands, grouped_count_with_noun, head,
    tail,
};
pub use invisible::{is_invisible, is_strippable, push_escaped};
pub use path::{normalise, parse_path, path_text, utf8_path};
pub use visible::{visible, visible_head, visible_truncated};
