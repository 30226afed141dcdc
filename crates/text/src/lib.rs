//! Text that is shown to people and models: cuts that split no character, invisible and reordering
//! characters made visible, fences, paths as text.
//!
//! This crate is *only* pure functions over `str` and `Path`, and depends on the standard library
//! alone. It does no I/O. For the output of a terminal use `callboard-process`, for the length of JSON
//! `acp-types`.
#![doc = include_str!("../README.md")]

mod cut;
mod invisible;
mod path;
mod visible;

pub use cut::{counted, duration, fenced, grouped, grouped_count, head, tail};
pub use invisible::{is_hidden, is_invisible, push_visible};
pub use path::{normalise, parse_path, path_text, utf8_path};
pub use visible::{visible, visible_cut, visible_head};
