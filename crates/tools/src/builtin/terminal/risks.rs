//! Assesses command lines: finds effects that always require permission, and the files that the
//! command writes.
//!
//! The assessment can add a permission request, but can never remove one. Scripts, aliases and
//! encodings can hide the real effects of a command, so the assessment is not a security boundary.
//! A command line that cannot be parsed always requires permission.

mod patterns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use acp_lifecycle::{Effect, Effects};
use callboard_process::COMMAND_ID_VARIABLE;
use callboard_shell::risks::{self, PathPattern, Risks, ShellContext};

use self::patterns::{PatternFinding, PatternSearch};
use crate::files::workspace::{Workspace, WorkspacePath, guard, open};
use crate::note::Note;
use crate::sandbox::sandbox_variable_names;

/// The assessment of a command line, which is based only on the text of the command line.
#[derive(Debug)]
pub(crate) struct RiskAssessment {
    /// The effects of the command: that it runs, the files that it writes inside the project
    /// folders, and the outside files that it reads through links inside the project folders.
    pub(crate) effects: Effects,
    /// The reason why the command always requires permission. `None` if the command does not always
    /// require permission.
    pub(crate) note: Option<Note>,
}

/// The surroundings of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandSurroundings<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) home: Option<&'a Path>,
    /// The folder for temporary files that only the commands of the session see. `None` if the
    /// command has no sandbox. A command in a sandbox may name most protected files without a
    /// permission request: the sandbox protects these files, or the result of the call lists their
    /// changes.
    pub(crate) private_tmp: Option<&'a Path>,
    /// Whether namespaces confine the command. If so, unknown effects need no permission request,
    /// because the namespaces limit them like those of a script.
    pub(crate) has_namespaces: bool,
    /// The environment that Callboard gives to the command. `None` if the client runs the command.
    pub(crate) env: Option<&'a BTreeMap<String, String>>,
}

/// Assesses a command line. The function accesses the file system to resolve the paths in it.
pub(crate) fn assess_command(
    line: &str,
    CommandSurroundings { cwd, home, private_tmp, has_namespaces, env }: CommandSurroundings<'_>,
    workspace: &Workspace,
) -> RiskAssessment {
    let mut place = ShellContext::new(workspace.roots().chain(private_tmp).collect());
    (place.cwd, place.home) = (Some(cwd), home);
    place.environment = env.map(|env| {
        let mut names: BTreeSet<_> = env.keys().map(String::as_str).collect();
        for name in sandbox_variable_names().chain([COMMAND_ID_VARIABLE]) {
            names.insert(name);
        }
        names
    });
    let run = Effect::Run { command: line.to_owned(), cwd: cwd.to_owned() };
    let mut risks = risks::find_risks(line, place);
    if has_namespaces {
        risks.reasons.retain(|reason| !reason.is_about_unknown_effects());
    }
    // Writes to the private folder are not recorded as effects, because programs outside of the
    // sandbox do not see this folder.
    let is_private = |path: &PathBuf| {
        let is_resolved = !path.components().any(|part| part == Component::ParentDir);
        private_tmp.is_some_and(|tmp| is_resolved && path.starts_with(tmp))
            && !workspace.roots().any(|root| path.starts_with(root))
    };
    risks.writes.retain(|path| !is_private(path));
    let is_guarded = match private_tmp {
        Some(_) => guard::is_guarded_in_sandbox,
        None => guard::is_guarded,
    };
    assessment_from_risks(run, risks, None, workspace, is_guarded)
}

/// Assesses input that is typed into a running program, which may be a shell in any directory. The
/// program may already have received the beginning of the line, and control keys may do anything.
/// The effects of the input are therefore unknown.
pub(crate) fn assess_terminal_input(
    text: &str,
    home: Option<&Path>,
    workspace: &Workspace,
) -> RiskAssessment {
    let mut place = ShellContext::new(workspace.roots().collect());
    place.home = home;
    let risks = risks::find_risks(text, place);
    let is_key = |letter: char| letter.is_control() && letter != '\n';
    let lines = text.trim_end_matches(is_key);
    let is_part = !lines.is_empty() && (!lines.ends_with('\n') || lines.contains(is_key));
    assessment_from_risks(
        Effect::Unknown,
        risks,
        is_part.then(|| Note::new("risk-part-of-line")),
        workspace,
        guard::is_guarded,
    )
}

fn assessment_from_risks(
    whole: Effect,
    risks: Risks,
    more: Option<Note>,
    workspace: &Workspace,
    is_guarded: fn(&Workspace, &WorkspacePath) -> bool,
) -> RiskAssessment {
    let Risks { reasons, writes, reads, mentions: names, enters, removes_in: empties, .. } = risks;
    let (read_patterns, mention_patterns) = (risks.read_patterns, risks.mention_patterns);
    let mut reasons: Vec<_> = reasons.into_iter().map(Note::from).chain(more).collect();
    let mut effects = vec![whole];
    for path in writes {
        match write_effect_or_ask_reason(&path, workspace, is_guarded) {
            Ok(effect) if effects.contains(&effect) => {}
            Ok(effect) => effects.push(effect),
            Err(key) => reasons.push(Note::new(key).with_text("path", workspace.display(&path))),
        }
    }
    let guarded = |path: &Path| {
        let at = workspace
            .follow_links_of_host_path(path)
            .or_else(|_| workspace.resolve_host_path(path));
        at.is_ok_and(|at| is_guarded(workspace, &at))
    };
    let ours = |path: &&PathBuf| guard::is_in_agent_folder(workspace, path);
    let protected = names.iter().filter(|path| guarded(path)).chain(reads.iter().filter(ours));
    let named = |key, path: &PathBuf| Note::new(key).with_text("path", workspace.display(path));
    reasons.extend(protected.map(|path| named("risk-names-protected", path)));
    let mut search = PatternSearch::new(workspace.roots().collect(), &guarded);
    for pattern in &mention_patterns {
        reasons.extend(search.find_guarded(pattern).map(|finding| match finding {
            PatternFinding::Guarded(path) => named("risk-names-protected", &path),
            PatternFinding::TooManyEntries => Note::new("risk-too-many-files"),
        }));
    }
    let mut patterns = read_patterns.iter().chain(&mention_patterns).peekable();
    let folders = patterns.peek().map(|_| guard::agent_folders(workspace).collect::<Vec<_>>());
    let folders = folders.unwrap_or_default();
    let may_be_ours =
        |pattern: &&PathPattern| folders.iter().any(|folder| pattern.may_be_within(folder));
    let patterns = patterns.filter(may_be_ours).map(PathPattern::to_wildcard_path);
    reasons.extend(patterns.map(|path| named("risk-names-protected", &path)));
    effects.extend(reads.iter().filter_map(|path| read_effect_if_linked_outside(path, workspace)));
    let is_linked = |path: &&PathBuf| is_reached_by_link(path, workspace);
    reasons.extend(enters.iter().filter(is_linked).map(|path| named("risk-enters-link", path)));
    reasons.extend(empties.iter().filter(is_linked).map(|path| named("risk-empties-link", path)));
    let effects = Effects::from_iter(effects);
    let note = Note::from_ask_reasons(&reasons);
    RiskAssessment { effects: if note.is_some() { effects.always_ask() } else { effects }, note }
}

/// Returns a read effect if a path inside the project folders leads through a link to a file
/// outside. Returns `None` for other paths.
fn read_effect_if_linked_outside(path: &Path, workspace: &Workspace) -> Option<Effect> {
    let at = workspace.resolve_host_path(path).ok()?;
    if workspace.canonicalize(&at).is_ok() {
        return None;
    }
    let elsewhere = workspace.resolve_and_follow_links(at.given()).ok()?;
    workspace.is_outside(&elsewhere).then(|| Effect::Read(elsewhere.path().to_owned()))
}

/// Returns whether a path inside the project folders leads through a link to another directory.
fn is_reached_by_link(path: &Path, workspace: &Workspace) -> bool {
    let at = workspace.resolve_host_path(path);
    at.is_ok_and(|at| workspace.canonicalize(&at).map_or(true, |real| real.path() != at.path()))
}

/// Returns the effect of writing a file. If writing this file always requires permission, returns
/// the key of the reason instead.
fn write_effect_or_ask_reason(
    path: &Path,
    workspace: &Workspace,
    is_guarded: fn(&Workspace, &WorkspacePath) -> bool,
) -> Result<Effect, &'static str> {
    let at = workspace.resolve_host_path(path);
    let Ok(real) = at.and_then(|at| workspace.canonicalize(&at)) else {
        return Err("risk-writes-outside");
    };
    if is_guarded(workspace, &real) {
        return Err("risk-writes-protected");
    }
    if open::read_link(&real).is_some() {
        return Err("risk-writes-dangling");
    }
    if guard::has_other_hard_links(workspace, &real) {
        return Err("risk-writes-shared");
    }
    Ok(Effect::Write(real.path().to_owned()))
}

#[cfg(test)]
mod tests;
