//! Compares the search of this crate with the ripgrep program, and measures its speed and memory.
//! `cargo xtask accept` runs this example.
//!
//! - `same RG SEED N TREE...` runs N random searches, and counts the searches for which the program
//!   `RG` finds other matches.
//! - `time RG N TREE` compares the search time for rare patterns with the time that `RG` needs.
//! - `cap N TREE` measures the search time for common patterns.
//! - `cancel N SEED TREE` measures how long a cancelled search continues.
//! - `big TREE` searches a tree that exceeds the search limits.
//!
//! Each command prints its results as JSON. The field `value` holds the main result.

mod cancel_latency;
mod compare_with_rg;
mod large_tree;
mod patterns;
#[path = "../../tests/edits/random.rs"]
mod random;
mod rg;
mod timing;

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use acp_tools::Workspace;
use serde_json::Value;

/// Errors are printed for the user.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let figures = match args.as_slice() {
        ["same", rg, seed, n, trees @ ..] => {
            let trees: Vec<_> = trees.iter().map(PathBuf::from).collect();
            compare_with_rg::count_equal_searches(Path::new(rg), seed.parse()?, n.parse()?, &trees)?
        }
        ["time", rg, n, tree] => {
            timing::time_rare_patterns(Path::new(rg), n.parse()?, Path::new(tree))?
        }
        ["cap", n, tree] => timing::time_common_patterns(n.parse()?, Path::new(tree))?,
        ["cancel", n, seed, tree] => {
            cancel_latency::longest_cancel_latency(n.parse()?, seed.parse()?, Path::new(tree))?
        }
        ["big", tree] => large_tree::search_and_find(Path::new(tree))?,
        _ => return Err("same | time | cap | cancel | big, and what each takes".into()),
    };
    print_json(&figures)
}

fn print_json(figures: &Value) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "figures {figures}")?)
}

fn workspace(tree: &Path) -> Result<Workspace> {
    Ok(Workspace::new(tree.canonicalize()?, Vec::new())?)
}
