//! Reads shell command lines without running them.
//!
//! Text in, words out: it asks no file system and knows nothing of permissions. To find out what a
//! line would do to files, resolve the paths that [`understand`] returns.
#![doc = include_str!("../README.md")]

pub mod limits;
pub mod plain;
mod programs;
mod reader;
pub mod risks;
mod understand;

pub use programs::{Program, interprets, programs, runs_another, runs_files};
pub use understand::{NotUnderstood, Understood, button, understand};
