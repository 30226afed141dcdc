//! The rows: each promise with its number of measurements and its target.

use super::RowMeasure::{Code, Failed, Figures, Programs};
use super::{
    AcceptanceRow, acpx, cancel, command, figures, files, lines, llama, models, mutants, output,
    sabotage, search, slow,
};

/// The rows of `accept`.
pub(super) const ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "startup",
        what: "time from spawn to the answer to initialize, as a multiple of a minimal SDK agent's",
        n: 200,
        target: Some(1.5),
        measure: Programs(figures::startup_ratio_to_echo_agent),
    },
    AcceptanceRow {
        name: "startup-floor",
        what: "the same time, as a multiple of a process that only answers",
        n: 200,
        target: None,
        measure: Programs(figures::startup_ratio_to_plain_process),
    },
    AcceptanceRow {
        name: "idle-memory",
        what: "resident MiB with one session open, the largest of n processes",
        n: 3,
        target: Some(20.0),
        measure: Programs(figures::idle_memory),
    },
    AcceptanceRow {
        name: "stuck-client",
        what: "peak MiB while a model says n MiB to a client that reads nothing",
        n: 8,
        target: Some(96.0),
        measure: Programs(figures::stuck_client_memory),
    },
    AcceptanceRow {
        name: "read-call",
        what: "milliseconds per read_file call in one turn of n calls",
        n: 100,
        target: None,
        measure: Programs(figures::read_call_latency),
    },
    AcceptanceRow {
        name: "read-drift",
        what: "time of a read_file call at the end of n in one turn, as a multiple of one's at the \
               start",
        n: 100,
        target: Some(1.25),
        measure: Programs(files::read_time_drift),
    },
    AcceptanceRow {
        name: "turn-drift",
        what: "time of a turn with a read at the end of a session of n, as a multiple of one's at \
               the start",
        n: 4_000,
        target: Some(1.25),
        measure: Programs(files::turn_time_drift),
    },
    AcceptanceRow {
        name: "edit-time",
        what: "time of a turn that changes one of 100,000 lines, as a multiple of a plain \
               rewrite's, n rounds",
        n: 50,
        target: Some(2.0),
        measure: Programs(files::edit_time_ratio),
    },
    AcceptanceRow {
        name: "edit-wire",
        what: "bytes of the tool updates of such a turn, the most of n",
        n: 5,
        target: Some(4096.0),
        measure: Programs(files::max_edit_update_bytes),
    },
    AcceptanceRow {
        name: "sanitize",
        what: "secrets that leak, of n random sessions with secrets across all borders",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test calls -- sanitize::",
        ),
    },
    AcceptanceRow {
        name: "file-names",
        what: "names that a tool does not take back, of n file names of any bytes; find, grep, \
               list, read, edit, move, delete",
        n: 10_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- file_names::",
        ),
    },
    AcceptanceRow {
        name: "answered",
        what: "requests that are not answered exactly once, of n random ones among closes and \
               disconnects",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n/25 PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- requests::every_request",
        ),
    },
    AcceptanceRow {
        name: "malformed",
        what: "longest seconds to survive one malformed line, each in a fresh process, n times",
        n: 1,
        target: Some(1.0),
        measure: Programs(lines::malformed_line_latency),
    },
    AcceptanceRow {
        name: "malformed-shuffled",
        what: "answers missing or too many of all malformed lines, n times, on one connection",
        n: 1_000,
        target: Some(0.0),
        measure: Programs(lines::malformed_line_miscounts),
    },
    AcceptanceRow {
        name: "no-newline",
        what: "peak MiB while a line of n MiB comes",
        n: 2_048,
        target: Some(64.0),
        measure: Programs(lines::endless_line_memory),
    },
    AcceptanceRow {
        name: "dense-line",
        what: "peak MiB over n dense lines of 16 MB in a row, the largest of several kinds",
        n: 4,
        target: Some(160.0),
        measure: Programs(lines::dense_line_memory),
    },
    AcceptanceRow {
        name: "slow-client",
        what: "MiB grown while a call makes n patches, for a client that reads 10 lines a second",
        n: 1_000_000,
        target: Some(16.0),
        measure: Programs(slow::slow_client_memory_growth),
    },
    AcceptanceRow {
        name: "never-reading",
        what: "peak MiB of a call without end, for a client that reads nothing, n times",
        n: 1,
        target: Some(96.0),
        measure: Programs(slow::unread_client_memory),
    },
    AcceptanceRow {
        name: "cancel",
        what: "ms from a cancel at any point to its turn's answer, p99 of n turns, no command",
        n: 1_250,
        target: Some(50.0),
        measure: Programs(cancel::random_cancel_latency),
    },
    AcceptanceRow {
        name: "cancel-command",
        what: "ms from a cancel of a running command to its turn's answer, median of n",
        n: 200,
        target: Some(10.0),
        measure: Programs(command::cancel_response_latency),
    },
    AcceptanceRow {
        name: "command-gone",
        what: "ms from a cancel of a running command until its process is gone, median of n",
        n: 200,
        target: Some(20.0),
        measure: Programs(command::cancel_exit_latency),
    },
    AcceptanceRow {
        name: "background-left",
        what: "ms from a prompt whose command leaves a process in its background to the turn's \
               answer, median of n; nothing of it is left then",
        n: 30,
        target: Some(2_200.0),
        measure: Programs(command::leftover_process_latency),
    },
    AcceptanceRow {
        name: "output-view",
        what: "peak MiB while commands write 10 MB and n bytes, each for a client with terminals \
               and one without; what it sees in the end, the counts and the file are right",
        n: 1_000_000_000,
        target: Some(96.0),
        measure: Programs(output::peak_memory_of_long_output),
    },
    AcceptanceRow {
        name: "output-read",
        what: "ms of a read_file turn of another session while a command writes n bytes, p99",
        n: 1_000_000_000,
        target: Some(25.0),
        measure: Programs(output::read_latency_during_output),
    },
    AcceptanceRow {
        name: "output-first",
        what: "ms from a prompt to the first output of its command at the client, median of n",
        n: 20,
        target: Some(150.0),
        measure: Programs(output::first_output_latency),
    },
    AcceptanceRow {
        name: "acpx",
        what: "what goes wrong in acpx, a client from npm, with and without its files and \
               terminals",
        n: 1,
        target: Some(0.0),
        measure: Programs(acpx::acpx_turns_with_mistakes),
    },
    AcceptanceRow {
        name: "model-first",
        what: "time from a prompt to the first word of a model that answers at once, as a multiple \
               of an echo's",
        n: 20,
        target: Some(4.0),
        measure: Programs(models::first_word_ratio),
    },
    AcceptanceRow {
        name: "model-read",
        what: "own ms of a turn with read_file, at the 10th or the 100th call, median of n \
               sessions",
        n: 20,
        target: Some(2.0),
        measure: Programs(models::read_turn_latency),
    },
    AcceptanceRow {
        name: "model-reads",
        what: "own ms of a reply with 50 reads, median of n",
        n: 20,
        target: Some(20.0),
        measure: Programs(models::parallel_reads_latency),
    },
    AcceptanceRow {
        name: "model-deltas",
        what: "time of a reply in 1000 pieces, as a multiple of an echo's of 1000 texts",
        n: 20,
        target: Some(2.0),
        measure: Programs(models::streamed_reply_ratio),
    },
    AcceptanceRow {
        name: "model-peak",
        what: "peak MiB of a session with n calls of read_file",
        n: 100,
        target: Some(64.0),
        measure: Programs(models::peak_memory_after_reads),
    },
    AcceptanceRow {
        name: "arguments",
        what: "processor time of a write of 2 MB in fragments of 20 bytes, as a multiple of 200 \
               kB's",
        n: 5,
        target: Some(12.0),
        measure: Programs(models::long_arguments_ratio),
    },
    AcceptanceRow {
        name: "model-cancel",
        what: "ms from a cancel, while a model speaks or is waited for, to its answer, p99 of n \
               turns",
        n: 400,
        target: Some(50.0),
        measure: Programs(models::cancel_latency_at_points),
    },
    AcceptanceRow {
        name: "llama",
        what: "turns with a real server, llama.cpp, that go wrong: of text, and of a call by \
               schema",
        n: 10,
        target: Some(0.0),
        measure: Programs(llama::failed_llama_turns),
    },
    AcceptanceRow {
        name: "rules",
        what: "laws broken by n random sets of permission rules",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile release -p acp-lifecycle \
             --test rules -- laws::",
        ),
    },
    AcceptanceRow {
        name: "canary",
        what: "bytes of files that may not be read which reach result, wire or log, in n random \
               sets of edits and every tool's failures",
        n: 25,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- canary::",
        ),
    },
    AcceptanceRow {
        name: "understood",
        what: "command lines that run without a question and read or change a canary, write \
               elsewhere, connect or start another program, of n drawn from each program's help",
        n: 1_000,
        target: Some(0.0),
        measure: Failed(
            "UNDERSTOOD_CASES=n UNDERSTOOD_SEED=seed test --profile laws --workspace \
             --all-features --test understood -- --ignored --nocapture understood_lines",
        ),
    },
    AcceptanceRow {
        name: "names",
        what: "names that programs obey and that are not asked about, or ordinary ones that are, \
               beyond 5 and 2 percent",
        n: 1,
        target: Some(0.0),
        measure: Failed("test --profile laws --workspace --all-features --test rules -- names::"),
    },
    AcceptanceRow {
        name: "lifecycle",
        what: "tests that break a promise in n random lives and n / 10 random endings of calls",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n/2 PROPTEST_RNG_SEED=seed test --profile release -p acp-lifecycle \
             --all-features --test promises -- lives:: endings::",
        ),
    },
    AcceptanceRow {
        name: "sabotage",
        what: "patches that break a promise and turn no test red",
        n: 0,
        target: Some(0.0),
        measure: Code(sabotage::count_unnoticed_patches),
    },
    AcceptanceRow {
        name: "mutants",
        what: "percent of the mutants (the n-th part of them) that no test notices",
        n: 1,
        target: Some(10.0),
        measure: Code(mutants::surviving_mutants_percent),
    },
    AcceptanceRow {
        name: "edits",
        what: "tests that find a byte changed outside of n random edits (n / 500 through files)",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed EDITED_FILES=n/500 test --profile release -p \
             acp-tools --all-features --test tools -- edits::",
        ),
    },
    AcceptanceRow {
        name: "edit-repair",
        what: "percent of n edits with mistakes that are refused with a region 90 % alike and that \
               the error alone does not put right; none is applied elsewhere than where it was \
               meant",
        n: 2_000,
        target: Some(10.0),
        measure: Figures(
            1,
            "EDIT_REPAIRS=n PROPTEST_RNG_SEED=seed test --profile release -p acp-tools \
             --all-features --test tools -- --nocapture edits::repair",
        ),
    },
    AcceptanceRow {
        name: "undone",
        what: "tests that find a trace of n random sequences of changes that were undone",
        n: 10_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws -p acp-tools \
             --all-features --test tools -- undo::",
        ),
    },
    AcceptanceRow {
        name: "racing",
        what: "tests that find something lost of n rewrites of a file that is edited meanwhile",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "RACING_REWRITES=n test --profile laws -p acp-tools --all-features --test tools -- racing::",
        ),
    },
    AcceptanceRow {
        name: "crash",
        what: "tests that find a file neither old nor new after a death or error at every n-th \
               call",
        n: 1,
        target: Some(0.0),
        measure: Failed(
            "CRASH_STEP=n test --profile laws -p acp-tools --all-features --test crash -- \
             --nocapture",
        ),
    },
    AcceptanceRow {
        name: "edit-engine",
        what: "time to change one of 100,000 lines without the agent and without waiting for the \
               disk, as a multiple of a plain rewrite's, median of n",
        n: 50,
        target: Some(2.0),
        measure: Figures(
            1,
            "EDIT_ROUNDS=n test --profile laws -p acp-tools --all-features --test tools -- \
             --ignored --nocapture edit_time::",
        ),
    },
    AcceptanceRow {
        name: "escape",
        what: "reads and writes outside, of n that race with a directory swapped for a link",
        n: 1_000_000,
        target: Some(0.0),
        measure: Figures(
            1,
            "ESCAPE_TRIES=n test --profile laws -p acp-tools --all-features --test tools -- \
             --nocapture escape::",
        ),
    },
    AcceptanceRow {
        name: "grep-same",
        what: "patterns of n that find other lines than the ripgrep program, in 4 source trees",
        n: 500,
        target: Some(0.0),
        measure: Code(search::differences_from_ripgrep),
    },
    AcceptanceRow {
        name: "grep-time",
        what: "time of rare patterns over cargo's sources, as a multiple of ripgrep's, n rounds",
        n: 11,
        target: Some(0.9),
        measure: Code(search::time_ratio_to_ripgrep),
    },
    AcceptanceRow {
        name: "grep-cap",
        what: "ms to the answer for a pattern that stops at its cap, median of n rounds",
        n: 21,
        target: Some(50.0),
        measure: Code(search::common_pattern_latency),
    },
    AcceptanceRow {
        name: "grep-cancel",
        what: "ms from a cancel at any moment to the end of its search of cargo's sources, most of \
               n",
        n: 200,
        target: Some(100.0),
        measure: Code(search::search_cancel_latency),
    },
    AcceptanceRow {
        name: "big-tree",
        what: "peak MiB of searching and finding in n files, with loops, FIFOs and a long line",
        n: 1_000_000,
        target: Some(128.0),
        measure: Code(search::big_tree_memory),
    },
    AcceptanceRow {
        name: "commands",
        what: "tests that find a command allowed by a rule for another, or one that a shell runs \
               of n random lines and no reader finds",
        n: 20_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --workspace --all-features --lib --test \
             rules -- portable_line:: parser:: commands:: bypasses::a",
        ),
    },
    AcceptanceRow {
        name: "hostile",
        what: "ms to end one of n hostile trees of processes, or those of one of n / 5 agents that \
               are killed, and of as many that are left by their clients, the worst p99; nothing \
               is left",
        n: 1_000,
        target: Some(500.0),
        measure: Figures(
            3,
            "HOSTILE_TREES=n HOSTILE_DEATHS=n/5 test --profile laws -p callboard-process \
             --all-features --test hostile -- --nocapture --test-threads=1",
        ),
    },
    AcceptanceRow {
        name: "soak",
        what: "percent more memory after n commands than after 500, 100 at a time; no descriptor \
               and no thread more",
        n: 10_000,
        target: Some(5.0),
        measure: Figures(
            1,
            "SOAK_COMMANDS=n test --profile laws -p callboard-process --all-features --test soak \
             -- --nocapture",
        ),
    },
    AcceptanceRow {
        name: "output",
        what: "time to record n bytes of a command's output, by that of a bare reading loop",
        n: 1_000_000_000,
        target: Some(1.3),
        measure: Figures(
            2,
            "OUTPUT_BYTES=n test --profile laws -p callboard-process --all-features --test output \
             -- --nocapture",
        ),
    },
];

/// The rows of `bench`: processor time of parts of a crate.
pub(super) const BENCHES: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "lifecycle",
        what: "CPU of a whole call to serialised updates, as a multiple of serialising alone",
        n: 200,
        target: Some(5.0),
        measure: Figures(1, "bench --all-features -p acp-lifecycle --bench lifecycle -- n"),
    },
    AcceptanceRow {
        name: "lifecycle_sdk",
        what: "the same call through the SDK's connection too",
        n: 50,
        target: None,
        measure: Figures(1, "bench --all-features -p acp-connection --bench lifecycle_sdk -- n"),
    },
];
