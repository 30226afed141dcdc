//! The rows: each promise with its number of measurements and its target.

use super::RowMeasure::{Code, Failed, Figures, Programs};
use super::{
    AcceptanceRow, acpx, cancel, command, figures, files, lines, llama, models, mutants, output,
    sabotage, search, slow,
};

/// The rows of the command `accept`.
pub(super) const ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "startup",
        what: "time from the start of the process to the response to initialize, as a multiple of \
               the time of a minimal agent on the SDK",
        n: 200,
        target: Some(1.5),
        measure: Programs(figures::startup_ratio_to_echo_agent),
    },
    AcceptanceRow {
        name: "startup-floor",
        what: "the same time, as a multiple of the time of the floor agent",
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
        name: "first-session",
        what: "ms from the first session/new of a process to its response, median of n processes",
        n: 50,
        target: Some(2.0),
        measure: Programs(models::first_session_request_latency),
    },
    AcceptanceRow {
        name: "stuck-client",
        what: "peak MiB while a model streams n MiB to a client that reads nothing",
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
        what: "time of a read_file call at the end of a turn of n calls, as a multiple of the time \
               at its start",
        n: 100,
        target: Some(1.25),
        measure: Programs(files::late_to_early_read_ratio),
    },
    AcceptanceRow {
        name: "turn-drift",
        what: "time of a turn with a read at the end of a session of n turns, as a multiple of the \
               time at its start",
        n: 4_000,
        target: Some(1.25),
        measure: Programs(files::late_to_early_turn_ratio),
    },
    AcceptanceRow {
        name: "edit-time",
        what: "time of a turn that changes one of 100,000 lines, as a multiple of the time of a \
               plain rewrite, n rounds",
        n: 50,
        target: Some(2.0),
        measure: Programs(files::edit_time_ratio),
    },
    AcceptanceRow {
        name: "edit-wire",
        what: "most bytes of the tool updates of such a turn, n turns",
        n: 5,
        target: Some(4096.0),
        measure: Programs(files::max_update_bytes_per_edit),
    },
    AcceptanceRow {
        name: "sanitize",
        what: "failed tests in n random sessions whose secrets are encoded or split between \
               chunks: no secret may be shown",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test calls -- sanitize::",
        ),
    },
    AcceptanceRow {
        name: "file-names",
        what: "failed tests of n file names with any bytes: each tool (find, grep, list, read, \
               edit, move, delete) must accept the names that are shown",
        n: 10_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- file_names::",
        ),
    },
    AcceptanceRow {
        name: "answered",
        what: "failed tests of n random requests, with closed sessions and lost connections: each \
               request must be answered exactly once",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n/25 PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- requests::every_request",
        ),
    },
    AcceptanceRow {
        name: "malformed",
        what: "longest time in seconds from the start of a process that receives a malformed line \
               to its response to initialize, n processes for each line",
        n: 1,
        target: Some(1.0),
        measure: Programs(lines::max_startup_with_malformed_line),
    },
    AcceptanceRow {
        name: "malformed-shuffled",
        what: "missing or surplus answers if every malformed line is sent n times on one \
               connection, in random order",
        n: 1_000,
        target: Some(0.0),
        measure: Programs(lines::malformed_line_miscounts),
    },
    AcceptanceRow {
        name: "no-newline",
        what: "peak MiB while a client sends n MiB without a newline",
        n: 2_048,
        target: Some(64.0),
        measure: Programs(lines::endless_line_memory),
    },
    AcceptanceRow {
        name: "dense-line",
        what: "peak MiB while a client sends n dense lines of 16 MB, the largest of several kinds",
        n: 4,
        target: Some(160.0),
        measure: Programs(lines::dense_line_memory),
    },
    AcceptanceRow {
        name: "slow-client",
        what: "growth in MiB while a call makes n patches and the client reads 10 lines per second",
        n: 1_000_000,
        target: Some(16.0),
        measure: Programs(slow::slow_client_memory_growth),
    },
    AcceptanceRow {
        name: "never-reading",
        what: "peak MiB of a call that never ends, with a client that reads nothing, n times",
        n: 1,
        target: Some(96.0),
        measure: Programs(slow::non_reading_client_memory),
    },
    AcceptanceRow {
        name: "cancel",
        what: "ms from a cancel at any point to the answer of its turn, p99 of n turns without \
               commands",
        n: 1_250,
        target: Some(50.0),
        measure: Programs(cancel::random_cancel_latency),
    },
    AcceptanceRow {
        name: "cancel-command",
        what: "ms from the cancel of a running command to the answer of its turn, median of n",
        n: 200,
        target: Some(10.0),
        measure: Programs(command::cancel_response_latency),
    },
    AcceptanceRow {
        name: "command-gone",
        what: "ms from the cancel of a running command to the end of its process, median of n",
        n: 200,
        target: Some(20.0),
        measure: Programs(command::cancel_exit_latency),
    },
    AcceptanceRow {
        name: "background-left",
        what: "ms from a prompt whose command starts a process in the background to the answer of \
               the turn, median of n; no process may be left then",
        n: 30,
        target: Some(2_200.0),
        measure: Programs(command::turn_time_with_leftover_process),
    },
    AcceptanceRow {
        name: "output-view",
        what: "peak MiB while commands write 10 MB and n bytes, for a client with terminals and \
               for a client without; the final view, the counts and the file must be right",
        n: 1_000_000_000,
        target: Some(96.0),
        measure: Programs(output::peak_memory_of_long_output),
    },
    AcceptanceRow {
        name: "output-read",
        what: "ms of a turn with read_file while a command of another session writes n bytes, p99",
        n: 1_000_000_000,
        target: Some(25.0),
        measure: Programs(output::read_latency_during_output),
    },
    AcceptanceRow {
        name: "output-terminal",
        what: "ms of a turn whose command writes 10 MB to a terminal that the client shows, median of n",
        n: 20,
        target: Some(150.0),
        measure: Programs(output::terminal_output_time),
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
        what: "turns with a mistake in acpx, a client from npm, with and without its files and \
               terminals",
        n: 1,
        target: Some(0.0),
        measure: Programs(acpx::check_acpx_turns),
    },
    AcceptanceRow {
        name: "model-first",
        what: "ms by which the time from a prompt to the first word of a model that answers at once \
               exceeds that of the floor agent, medians of n turns",
        n: 20,
        target: Some(0.3),
        measure: Programs(models::additional_first_word_latency),
    },
    AcceptanceRow {
        name: "model-read",
        what: "ms by which the time from a reply of the model with a read_file call to the next request \
               exceeds that of the floor agent, at the 10th or the 100th call, medians of n sessions",
        n: 20,
        target: Some(0.5),
        measure: Programs(models::additional_read_latency),
    },
    AcceptanceRow {
        name: "model-reads",
        what: "time from a reply of the model with 50 reads to the next request, as a multiple of that of \
               the floor agent, medians of n turns",
        n: 20,
        target: Some(4.3),
        measure: Programs(models::parallel_reads_ratio_to_floor),
    },
    AcceptanceRow {
        name: "model-sessions",
        what: "time by which 8 sessions at once, with 10 reads each, take longer than the delays of their \
               model, as a multiple of that of the floor agent, medians of n rounds",
        n: 10,
        target: Some(1.7),
        measure: Programs(models::parallel_sessions_ratio_to_floor),
    },
    AcceptanceRow {
        name: "edit-small",
        what: "ms by which the time from a reply of the model that changes one line of 72 kB to the next \
               request exceeds that of the floor agent, medians of n edits",
        n: 50,
        target: Some(1.7),
        measure: Programs(models::additional_small_edit_latency),
    },
    AcceptanceRow {
        name: "edit-large",
        what: "the same time for a file of 7.2 MB, as a multiple of that of the floor agent, medians of n \
               edits",
        n: 50,
        target: Some(1.5),
        measure: Programs(models::large_edit_ratio_to_floor),
    },
    AcceptanceRow {
        name: "streamed-path",
        what: "ms from the text before a streamed write_file call, as the client receives it, to the \
               first update with the path of the call, median of n turns",
        n: 20,
        target: Some(8.0),
        measure: Programs(models::streamed_path_latency),
    },
    AcceptanceRow {
        name: "first-request",
        what: "bytes of the first request of a session to a model, with all built-in tools, the largest \
               of n sessions",
        n: 1,
        target: Some(12_000.0),
        measure: Programs(models::first_request_bytes),
    },
    AcceptanceRow {
        name: "edit-tools",
        what: "failed tests of n random calls of each built-in tool that fit the schemas which models \
               receive: each call must be accepted as it is",
        n: 300,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws -p acp-tools \
             --all-features --lib -- registry::tests::model_schemas",
        ),
    },
    AcceptanceRow {
        name: "model-deltas",
        what: "time of a reply in 1000 pieces, as a multiple of the time of an echo agent for 1000 \
               texts",
        n: 20,
        target: Some(2.0),
        measure: Programs(models::streamed_reply_ratio_to_echo),
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
        what: "processor time of a write of 2 MB in fragments of 20 bytes, as a multiple of the \
               time for 200 kB",
        n: 5,
        target: Some(12.0),
        measure: Programs(models::long_arguments_ratio),
    },
    AcceptanceRow {
        name: "model-cancel",
        what: "ms from a cancel to its answer, while the agent waits for a model or receives its \
               reply, p99 of n turns",
        n: 400,
        target: Some(50.0),
        measure: Programs(models::cancel_latency_at_points),
    },
    AcceptanceRow {
        name: "llama",
        what: "failed turns with a real server, llama.cpp: turns with text, and turns with a call \
               by JSON Schema",
        n: 10,
        target: Some(0.0),
        measure: Programs(llama::failed_llama_turns),
    },
    AcceptanceRow {
        name: "rules",
        what: "failed tests of n random sets of permission rules",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile release -p acp-lifecycle \
             --test rules -- laws::",
        ),
    },
    AcceptanceRow {
        name: "canary",
        what: "failed tests of n random sets of edits and of every failure of a tool: no byte of a \
               file that may not be read may reach the result, the wire or the log",
        n: 25,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws --workspace \
             --all-features --test it -- canary::",
        ),
    },
    AcceptanceRow {
        name: "understood",
        what: "command lines, of n for each program, that run without a question although they \
               read or change a canary, write elsewhere, connect or start another program",
        n: 1_000,
        target: Some(0.0),
        measure: Failed(
            "UNDERSTOOD_CASES=n UNDERSTOOD_SEED=seed test --profile laws --workspace \
             --all-features --test understood -- --ignored --nocapture understood_lines",
        ),
    },
    AcceptanceRow {
        name: "names",
        what: "failed tests of file names: at most 5 percent of the names that programs obey may \
               run without a question, and at most 2 percent of ordinary names may ask",
        n: 1,
        target: Some(0.0),
        measure: Failed("test --profile laws --workspace --all-features --test rules -- names::"),
    },
    AcceptanceRow {
        name: "lifecycle",
        what: "failed tests of the promises in n random lifecycles of sessions and n / 10 random \
               ways to end calls",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n/2 PROPTEST_RNG_SEED=seed test --profile release -p acp-lifecycle \
             --all-features --test promises -- lives:: endings::",
        ),
    },
    AcceptanceRow {
        name: "sabotage",
        what: "patches that break a promise although no test fails",
        n: 0,
        target: Some(0.0),
        measure: Code(sabotage::count_unnoticed_patches),
    },
    AcceptanceRow {
        name: "mutants",
        what: "percent of the mutants that no test detects; every n-th mutant is tested",
        n: 1,
        target: Some(10.0),
        measure: Code(mutants::surviving_mutants_percent),
    },
    AcceptanceRow {
        name: "edits",
        what: "failed tests of n random edits, and n / 500 through files: no other byte may change",
        n: 1_000_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed EDITED_FILES=n/500 test --profile release -p \
             acp-tools --all-features --test tools -- edits::",
        ),
    },
    AcceptanceRow {
        name: "edit-repair",
        what: "percent that the error alone does not correct, of the refused edits whose error \
               shows a region 90 % alike, among n edits with mistakes; no edit may be applied at a \
               wrong place",
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
        what: "failed tests of n random sequences of changes: an undo may leave no trace of them",
        n: 10_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --profile laws -p acp-tools \
             --all-features --test tools -- undo::every",
        ),
    },
    AcceptanceRow {
        name: "racing",
        what: "failed tests of n rewrites of a file that is edited at the same time: no text may \
               be lost",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "RACING_REWRITES=n test --profile laws -p acp-tools --all-features --test tools -- racing::",
        ),
    },
    AcceptanceRow {
        name: "crash",
        what: "failed tests with a death or an error at every n-th system call: each file must \
               have its old or its new content",
        n: 1,
        target: Some(0.0),
        measure: Failed(
            "CRASH_STEP=n test --profile laws -p acp-tools --all-features --test crash -- \
             --nocapture",
        ),
    },
    AcceptanceRow {
        name: "edit-engine",
        what: "time to change one of 100,000 lines, without the agent and without waiting for the \
               disk, as a multiple of the time of a plain rewrite, median of n",
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
        what: "reads and writes outside of the project, of n that race with a directory that is \
               swapped for a link",
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
        what: "patterns, of n, whose results in 4 source trees differ from those of the ripgrep \
               program",
        n: 500,
        target: Some(0.0),
        measure: Code(search::differences_from_ripgrep),
    },
    AcceptanceRow {
        name: "grep-time",
        what: "time of rare patterns over cargo's sources, as a multiple of the time of ripgrep, n \
               rounds",
        n: 11,
        target: Some(0.9),
        measure: Code(search::time_ratio_to_ripgrep),
    },
    AcceptanceRow {
        name: "grep-cap",
        what: "ms to the answer for a pattern that reaches the limit of results, median of n \
               rounds",
        n: 21,
        target: Some(50.0),
        measure: Code(search::common_pattern_latency),
    },
    AcceptanceRow {
        name: "grep-cancel",
        what: "most ms from a cancel at any moment to the end of a search of cargo's sources, n \
               searches",
        n: 200,
        target: Some(100.0),
        measure: Code(search::search_cancel_latency),
    },
    AcceptanceRow {
        name: "big-tree",
        what: "peak MiB of a search for text and for names in n files, with loops, FIFOs and a \
               long line",
        n: 1_000_000,
        target: Some(128.0),
        measure: Code(search::big_tree_memory),
    },
    AcceptanceRow {
        name: "commands",
        what: "failed tests of n random command lines: a rule may allow only its own commands, and \
               a parser must find each command that a shell runs",
        n: 20_000,
        target: Some(0.0),
        measure: Failed(
            "PROPTEST_CASES=n PROPTEST_RNG_SEED=seed test --workspace --all-features --lib --test \
             rules -- portable_line:: parser:: commands:: bypasses::a",
        ),
    },
    AcceptanceRow {
        name: "hostile",
        what: "ms to end all processes of one of n hostile trees, of one of n / 5 agents that are \
               killed, or of one of n / 5 agents whose client disconnects, the worst p99; no \
               process may be left",
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
        what: "percent of additional memory after n commands, 100 at a time, compared with the \
               memory after 500; no additional descriptor or thread is allowed",
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
        what: "time to record n bytes of a command's output, as a multiple of the time of a plain \
               read loop",
        n: 1_000_000_000,
        target: Some(1.3),
        measure: Figures(
            2,
            "OUTPUT_BYTES=n test --profile laws -p callboard-process --all-features --test output \
             -- --nocapture",
        ),
    },
];

/// The rows of the command `bench`, which measure the processor time of parts of a crate.
pub(super) const BENCHES: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "lifecycle",
        what: "CPU time of a whole call, as a multiple of serialising its messages",
        n: 200,
        target: Some(5.0),
        measure: Figures(1, "bench --all-features -p acp-lifecycle --bench lifecycle -- n"),
    },
    AcceptanceRow {
        name: "lifecycle_sdk",
        what: "CPU time of the same call through the connection of the SDK, as a multiple of \
               serialising its messages",
        n: 50,
        target: None,
        measure: Figures(1, "bench --all-features -p acp-connection --bench lifecycle_sdk -- n"),
    },
];
