//! Reads shell command lines without running them.
//!
//! Text in, words out: it asks no file system and knows nothing of permissions. To find out what a
//! line would do to files, resolve the paths that [`understand`] returns.
#![doc = include_str!("../README.md")]

mod analyze;
pub mod limits;
mod parser;
pub mod portable_line;
mod programs;
pub mod risks;

pub use analyze::{AnalysisError, CommandAnalysis, allowable_prefix_len, analyze_command};
pub use programs::{Program, is_interpreter, may_run_project_files, programs, wraps_commands};
