//! Measures the CPU time of whole calls, from the handle to the serialised `SessionUpdate`. The
//! result is this time divided by the CPU time for only serialising the same messages.
//!
//! Prints one line of figures. The two CPU times are measured in alternate rounds, so that other
//! load on the machine affects both times equally. The figures are the medians of all rounds.

#![expect(clippy::print_stdout, reason = "the figure is the output")]
#![expect(clippy::disallowed_methods, reason = "a session behind a handle needs a clock")]

mod call;

use std::hint::black_box;
use std::time::SystemTime;

use call::{CALLS_PER_ROUND, CallBench, collect_round_updates, cpu_ns, median, serialised};
use serde_json::json;

fn main() {
    let rounds = call::round_count();
    let mut stage = CallBench::new(SystemTime::now);
    let messages = collect_round_updates(&mut stage);
    let (mut whole, mut alone, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = cpu_ns();
        stage.run_round(|update| drop(black_box(serialised(&update))));
        let middle = cpu_ns();
        messages.iter().for_each(|update| drop(black_box(serialised(update))));
        let end = cpu_ns();
        whole.push((middle - start) / CALLS_PER_ROUND as f64);
        alone.push((end - middle) / CALLS_PER_ROUND as f64);
        ratios.push((middle - start) / (end - middle));
    }
    let bytes: usize = messages.iter().map(|message| serialised(message).len()).sum();
    let figures = json!({
        "value": median(ratios),
        "ns_per_call": median(whole).round(),
        "ns_serialising_alone": median(alone).round(),
        "messages_per_call": messages.len() as f64 / CALLS_PER_ROUND as f64,
        "bytes_per_call": bytes / CALLS_PER_ROUND,
    });
    println!("figures {figures}");
}
