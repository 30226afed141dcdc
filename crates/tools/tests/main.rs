//! Tests of the tools through their public interface. Some tests read the number of their cases
//! from environment variables. `cargo xtask accept` runs these tests with many more cases.

mod edit_time;
mod edits;
mod escape;
mod paths;
mod racing;
mod run_time_tools;
mod titles;
mod undo;
