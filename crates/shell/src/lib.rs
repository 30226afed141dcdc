//! Parses shell command lines without running them. The crate does *only* that; to run a command,
//! use `callboard-process`.
//!
//! This crate does not access the file system. To find the files that a line would affect, a caller
//! resolves the paths that [`analyze_command`] returns.
#![doc = include_str!("../README.md")]

mod analyze;
pub mod limits;
mod parser;
pub mod portable_line;
mod programs;
pub mod risks;

pub use analyze::{AnalysisError, CommandAnalysis, allowable_prefix_len, analyze_command};
pub use programs::{Program, is_interpreter, may_run_project_files, programs, wraps_commands};
