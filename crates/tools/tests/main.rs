//! The tools through their public interface. Where a test takes the number of its cases from the
//! environment, `cargo xtask accept` runs many more of them.

mod edit_time;
mod edits;
mod escape;
mod paths;
mod racing;
mod run_time_tools;
mod titles;
mod undo;
