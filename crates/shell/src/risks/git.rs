//! Arguments of git that need permission each time.

use super::has_short_or_long_switch;

/// Returns the keys of the reasons to ask for permission for a git command.
pub(super) fn risk_keys(words: &[&str]) -> Vec<&'static str> {
    let mut rest = words;
    let mut sets = false;
    // Skips the options before the subcommand. Some of these options have their value in a separate
    // word.
    while let [option, after @ ..] = rest
        && option.starts_with('-')
    {
        let value = after.first().copied().unwrap_or_default();
        sets |= matches!(*option, "-c" | "--config-env") && setting_runs_program(value);
        sets |= option.strip_prefix("-c").is_some_and(setting_runs_program);
        sets |= option.strip_prefix("--config-env=").is_some_and(setting_runs_program);
        sets |= option.starts_with("--exec-path=");
        rest = if OPTIONS_WITH_VALUE.contains(option) {
            after.get(1..).unwrap_or_default()
        } else {
            after
        };
    }
    let (subcommand, args) = rest.split_first().map_or(("", rest), |(name, args)| (*name, args));
    let reads = args.iter().any(|word| word.starts_with("--get") || *word == "--list");
    sets |= subcommand == "config" && !reads && args.iter().any(|word| setting_runs_program(word));
    let found = [
        (sets, "risk-git-sets"),
        (subcommand == "clean" && has_short_or_long_switch(args, "f", "--force"), "risk-git-clean"),
        (subcommand == "push" && args.iter().any(|word| push_overwrites(word)), "risk-git-push"),
        (args.iter().any(|word| runs_given_command(subcommand, word)), "risk-git-runs"),
    ];
    found.into_iter().filter_map(|(is_so, why)| is_so.then_some(why)).collect()
}

/// Returns whether a word makes `git push` overwrite or remove something.
fn push_overwrites(word: &str) -> bool {
    let is_begun = |long: &&str| word.len() > 3 && long.starts_with(word);
    match word.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => {
            word.starts_with("--force")
                || ["--force", "--mirror", "--delete", "--prune"].iter().any(is_begun)
        }
        Some(letters) => letters.contains(['f', 'd']),
        None => word.starts_with(['+', ':']),
    }
}

fn runs_given_command(subcommand: &str, word: &str) -> bool {
    let matches = |(of, option): &(&str, &str)| *of == subcommand && word.starts_with(option);
    EXEC_OPTIONS.iter().any(|option| word.starts_with(option))
        || SUBCOMMAND_EXEC_OPTIONS.iter().any(matches)
}

/// Returns whether a setting of git names a program that git runs.
fn setting_runs_program(setting: &str) -> bool {
    let key = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let Some((section, _)) = key.split_once('.') else { return false };
    let last = key.rsplit('.').next().unwrap_or_default();
    let sections = [
        "alias",
        "credential",
        "difftool",
        "filter",
        "include",
        "includeif",
        "mergetool",
        "pager",
        "protocol",
        "url",
    ];
    let names = [
        "askpass",
        "command",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "hookspath",
        "pager",
        "program",
        "sshcommand",
        "receivepack",
        "templatedir",
        "textconv",
        "update",
        "uploadpack",
    ];
    sections.contains(&section) || names.contains(&last)
}

/// Options before the subcommand whose value is a separate word.
const OPTIONS_WITH_VALUE: &[&str] = &[
    "-c",
    "-C",
    "--attr-source",
    "--config-env",
    "--git-dir",
    "--namespace",
    "--super-prefix",
    "--work-tree",
];

/// Prefixes of options that make any subcommand run a program.
const EXEC_OPTIONS: &[&str] =
    &["--exec", "--extcmd", "--open-files-in-pager", "--receive-pack", "--upload-pack"];

/// Prefixes of options that make one subcommand run a program. Each entry contains the subcommand
/// and the prefix.
const SUBCOMMAND_EXEC_OPTIONS: &[(&str, &str)] = &[
    ("bisect", "run"),
    ("clone", "-u"),
    ("difftool", "-x"),
    ("filter-branch", "--"),
    ("grep", "-O"),
    ("rebase", "-x"),
    ("submodule", "foreach"),
];
