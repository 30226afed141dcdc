//! Measures how long a search continues after its cancellation.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use acp_tools::files::walk::EarlyStop;
use acp_tools::search::grep::{GrepQuery, search};
use serde_json::{Value, json};

use crate::random::Random;
use crate::{Result, workspace};

/// Patterns that take a long time to search for and have no match.
const SLOW_PATTERNS: [(&str, bool); 4] = [
    ("never in any of these files", false),
    ("\\w+\\s+\\w+\\s+never_there", false),
    ("[a-z]+[0-9]*ing never", false),
    ("(?s)fn .*never in any of these files", true),
];

/// Cancels `n` searches, each at a random time. Returns the longest time between a cancellation and
/// the end of its search, in milliseconds.
pub(crate) fn longest_cancel_latency(n: usize, seed: u64, tree: &Path) -> Result<Value> {
    let (space, mut random) = (workspace(tree)?, Random::new(seed));
    let (mut longest, mut cancelled) = (Duration::ZERO, 0);
    let queries = SLOW_PATTERNS.map(|(pattern, multiline)| {
        let mut query = GrepQuery::new(pattern);
        query.multiline = multiline;
        query
    });
    // Fill the page cache, so that the next search is as fast as possible.
    search(&space, &queries[0], &|| false)?;
    let start = Instant::now();
    search(&space, &queries[0], &|| false)?;
    // Each of the following searches is cancelled after a random time, which is at most the
    // duration of this uncancelled search.
    let whole = usize::try_from(start.elapsed().as_micros())?;
    for query in queries.iter().cycle().take(n) {
        let wait = Duration::from_micros(random.below(whole) as u64);
        let is_cancelled = AtomicBool::new(false);
        let (searched, ended, at) = thread::scope(|scope| {
            let canceller = scope.spawn(|| {
                thread::sleep(wait);
                is_cancelled.store(true, Ordering::Relaxed);
                Instant::now()
            });
            let searched = search(&space, query, &|| is_cancelled.load(Ordering::Relaxed));
            let ended = Instant::now();
            (searched, ended, canceller.join())
        });
        let at = at.map_err(|_panic| "the thread that cancels broke down")?;
        if searched?.stop == Some(EarlyStop::Cancelled) {
            cancelled += 1;
            longest = longest.max(ended.saturating_duration_since(at));
        }
    }
    if cancelled * 2 < n {
        return Err(format!("only {cancelled} of {n} were cancelled before their end").into());
    }
    Ok(json!({ "value": longest.as_secs_f64() * 1_000.0, "cancelled": cancelled }))
}
