//! Assesses command lines: finds the effects that always require permission, and the written files.
//!
//! The assessment can add a permission request, but never remove one. Scripts, aliases and
//! encodings hide the real effects of a command, so the assessment is not a security boundary. A
//! line that cannot be parsed requires permission.

use std::path::{Path, PathBuf};

use acp_lifecycle::{Effect, Effects};
use callboard_shell::risks::{self, Risks, ShellContext};

use crate::files::workspace::{Workspace, guard, open};
use crate::limits::{MAX_COMMAND_RISK_TEXT_BYTES, MAX_COMMAND_RISKS_SHOWN};
use crate::note::Note;

/// The assessment of a command line, based on its text.
#[derive(Debug)]
pub(crate) struct RiskAssessment {
    /// The effects of the command: its execution, the writes to files inside the project folders,
    /// and the reads of outside files through paths inside.
    pub(crate) effects: Effects,
    /// The reason why the command always requires permission, if it does.
    pub(crate) note: Option<Note>,
}

/// Assesses a command line that would run in a folder. The assessment accesses the file system to
/// check the targets of redirections.
pub(crate) fn assess_command(
    line: &str,
    cwd: &Path,
    home: Option<&Path>,
    workspace: &Workspace,
) -> RiskAssessment {
    let place = ShellContext { cwd: Some(cwd), home, project_folders: workspace.roots().collect() };
    let run = Effect::Run { command: line.to_owned(), cwd: cwd.to_owned() };
    assessment_from_risks(run, risks::find_risks(line, place), None, workspace)
}

/// Assesses the input for a program that may be a shell, in any folder. The program may already
/// have received a part of the line, and control keys may have any effect. So the effects of such
/// input are unknown.
pub(crate) fn assess_terminal_input(
    text: &str,
    home: Option<&Path>,
    workspace: &Workspace,
) -> RiskAssessment {
    let place = ShellContext { cwd: None, home, project_folders: workspace.roots().collect() };
    let risks = risks::find_risks(text, place);
    let is_key = |letter: char| letter.is_control() && letter != '\n';
    let lines = text.trim_end_matches(is_key);
    let is_part = !lines.is_empty() && (!lines.ends_with('\n') || lines.contains(is_key));
    assessment_from_risks(
        Effect::Unknown,
        risks,
        is_part.then(|| Note::new("risk-part-of-line")),
        workspace,
    )
}

fn assessment_from_risks(
    whole: Effect,
    risks: Risks,
    more: Option<Note>,
    workspace: &Workspace,
) -> RiskAssessment {
    let Risks { reasons, writes, reads, mentions: names, enters, removes_in: empties, .. } = risks;
    let mut reasons: Vec<_> = reasons.into_iter().map(Note::from).chain(more).collect();
    let mut effects = vec![whole];
    for path in writes {
        match write_effect_or_ask_reason(&path, workspace) {
            Ok(effect) if effects.contains(&effect) => {}
            Ok(effect) => effects.push(effect),
            Err(key) => reasons.push(Note::new(key).with_text("path", workspace.display(&path))),
        }
    }
    let guarded = |path: &&PathBuf| {
        let at =
            workspace.follow_links_of_recorded_path(path).or_else(|_| workspace.resolve_path(path));
        at.is_ok_and(|at| guard::is_guarded(workspace, &at))
    };
    let ours = |path: &&PathBuf| guard::is_in_agent_folder(workspace, path);
    let protected = names.iter().filter(guarded).chain(reads.iter().filter(ours));
    let named = |key, path: &PathBuf| Note::new(key).with_text("path", workspace.display(path));
    reasons.extend(protected.map(|path| named("risk-names-protected", path)));
    effects.extend(reads.iter().filter_map(|path| linked_read_effect(path, workspace)));
    let is_linked = |path: &&PathBuf| is_reached_by_link(path, workspace);
    reasons.extend(enters.iter().filter(is_linked).map(|path| named("risk-enters-link", path)));
    reasons.extend(empties.iter().filter(is_linked).map(|path| named("risk-empties-link", path)));
    let effects = Effects::from_iter(effects);
    let note = risk_note(&reasons);
    RiskAssessment { effects: if note.is_some() { effects.always_ask() } else { effects }, note }
}

/// Returns the effect of reading a file whose path is inside the project folders, if a link on the
/// path points to another place.
fn linked_read_effect(path: &Path, workspace: &Workspace) -> Option<Effect> {
    let at = workspace.resolve_path(path).ok()?;
    if workspace.canonicalize(&at).is_ok() {
        return None;
    }
    let elsewhere = workspace.resolve_and_follow_links(at.given()).ok()?;
    workspace.is_outside(&elsewhere).then(|| Effect::Read(elsewhere.path().to_owned()))
}

/// Whether the path of a folder inside the project folders contains a link to another folder.
fn is_reached_by_link(path: &Path, workspace: &Workspace) -> bool {
    let at = workspace.resolve_path(path);
    at.is_ok_and(|at| workspace.canonicalize(&at).map_or(true, |real| real.path() != at.path()))
}

/// Returns the effect of writing a file. If writing the file always requires permission, returns
/// the key of the reason.
fn write_effect_or_ask_reason(path: &Path, workspace: &Workspace) -> Result<Effect, &'static str> {
    let at = workspace.resolve_path(path);
    let Ok(real) = at.and_then(|at| workspace.canonicalize(&at)) else {
        return Err("risk-writes-outside");
    };
    if guard::is_guarded(workspace, &real) {
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

fn risk_note(reasons: &[Note]) -> Option<Note> {
    if reasons.is_empty() {
        return None;
    }
    let note = match reasons.len().saturating_sub(MAX_COMMAND_RISKS_SHOWN) {
        0 => Note::new("risks"),
        more => Note::new("risks-more").with_text("more", more.to_string()),
    };
    let shown = reasons.iter().take(MAX_COMMAND_RISKS_SHOWN);
    let shown = shown.map(|why| why.clone().truncated(MAX_COMMAND_RISK_TEXT_BYTES));
    Some(note.with_notes("reasons", shown, "; "))
}

#[cfg(test)]
mod tests;
