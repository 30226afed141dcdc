//! The rows for stored sessions: each promise with its number of measurements and its target.

use super::RowMeasure::{Failed, Figures, Programs};
use super::{AcceptanceRow, stored_sessions};

/// The rows of the command `accept` for stored sessions and their export.
pub(super) const SESSION_ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "replay",
        what: "failed tests of n random sessions for each of 3 protocols: after a load, a client \
               must hold what it held before",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws -p callboard-runtime \
             --all-features --lib -- replay_laws::",
        ),
    },
    AcceptanceRow {
        name: "durable",
        what: "failed tests of sessions whose process is killed at one of n random instants: \
               everything final must be stored",
        n: 2_000,
        target: Some(0.0),
        measure: Failed(
            "DURABLE_KILLS=n DURABLE_SEED=seed test --profile laws --workspace --all-features \
             --test it -- durable::",
        ),
    },
    AcceptanceRow {
        name: "store-faults",
        what: "failed tests with a death or an error at every n-th file system call of a store: no \
               commit may be lost",
        n: 1,
        target: Some(0.0),
        measure: Failed(
            "FAULT_STEP=n test --profile laws -p acp-store --all-features --test faults -- \
             --nocapture",
        ),
    },
    AcceptanceRow {
        name: "rewound",
        what: "failed tests of n random histories with a rewind: each file is restored or kept and \
               named, as the dry run said",
        n: 10_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws -p acp-tools \
             --all-features --test tools -- undo::a_rewind",
        ),
    },
    AcceptanceRow {
        name: "load-first",
        what: "ms from the load of a session of n calls and 600 MB to its first update",
        n: 40_000,
        target: Some(20.0),
        measure: Programs(stored_sessions::first_load_update_latency),
    },
    AcceptanceRow {
        name: "load-all",
        what: "ms to load that session completely; the newest calls are sent whole",
        n: 40_000,
        target: Some(2_000.0),
        measure: Programs(stored_sessions::whole_load_latency),
    },
    AcceptanceRow {
        name: "load-memory",
        what: "peak MiB of the agent that loads that session",
        n: 40_000,
        target: Some(64.0),
        measure: Programs(stored_sessions::memory_of_load),
    },
    AcceptanceRow {
        name: "list-page",
        what: "ms of a page of the list of n sessions, p99",
        n: 10_000,
        target: Some(5.0),
        measure: Programs(stored_sessions::list_page_latency),
    },
    AcceptanceRow {
        name: "stored-start",
        what: "additional ms of initialize with a store, median of n pairs",
        n: 21,
        target: Some(1.0),
        measure: Programs(stored_sessions::initialize_store_cost_ms),
    },
    AcceptanceRow {
        name: "stored-new",
        what: "additional ms of session/new with a store, median of n pairs",
        n: 21,
        target: Some(1.0),
        measure: Programs(stored_sessions::session_new_store_cost_ms),
    },
    AcceptanceRow {
        name: "stored-turn",
        what: "time of a turn of 1000 deltas, as a multiple of the time of a turn that is not \
               stored, median of n pairs",
        n: 21,
        target: Some(1.05),
        measure: Programs(stored_sessions::streamed_turn_ratio),
    },
    AcceptanceRow {
        name: "stored-wait",
        what: "ms of the slowest of 8 x n turns in 8 agents, of which one is killed every second; \
               no answered turn may be lost",
        n: 1_000,
        target: Some(1_000.0),
        measure: Programs(stored_sessions::slowest_turn_of_killed_processes),
    },
    AcceptanceRow {
        name: "chromium",
        what: "failed tests of an exported page in a browser",
        n: 1,
        target: Some(0.0),
        measure: Failed("test -p acp-cards --all-features --test transcripts -- --ignored"),
    },
    AcceptanceRow {
        name: "store-first",
        what: "ms from the opening of a store to the first record of a session of n records, 300 \
               turns and 600 MB",
        n: 40_000,
        target: Some(20.0),
        measure: Figures(1, "run --release -p acp-store --example store_figures -- first n"),
    },
    AcceptanceRow {
        name: "store-load",
        what: "ms to load that session completely; the newest records are loaded whole",
        n: 40_000,
        target: Some(2_000.0),
        measure: Figures(1, "run --release -p acp-store --example store_figures -- load n"),
    },
    AcceptanceRow {
        name: "store-memory",
        what: "peak MiB of the process that loads that session",
        n: 40_000,
        target: Some(64.0),
        measure: Figures(1, "run --release -p acp-store --example store_figures -- memory n"),
    },
    AcceptanceRow {
        name: "store-list",
        what: "ms to read a page of the list of n sessions, p99",
        n: 10_000,
        target: Some(5.0),
        measure: Figures(1, "run --release -p acp-store --example store_figures -- list n"),
    },
    AcceptanceRow {
        name: "store-append",
        what: "us that a turn waits to record one of 1000 pieces, median of n turns",
        n: 21,
        target: None,
        measure: Figures(1, "run --release -p acp-store --example store_figures -- append n"),
    },
    AcceptanceRow {
        name: "store-wait",
        what: "ms of the slowest of 8 x n turns that 8 processes record, of which one is killed \
               every second; no acknowledged turn may be lost",
        n: 1_000,
        target: Some(1_000.0),
        measure: Figures(1, "run --release -p acp-store --example store_figures -- wait n"),
    },
];
