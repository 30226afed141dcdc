//! What a command line would do that is asked about whatever is allowed, and which files it says
//! it writes.
//!
//! It knows nothing of rules and runs nothing. Its answer only ever raises a question: a script, an
//! alias or an encoding hides from it what a command does, and no wall stands on it. What it cannot
//! read is asked about.

use std::path::{Path, PathBuf};

use acp_lifecycle::{Effect, Effects};
use callboard_shell::risks::{self, Place, Risks};

use crate::files::workspace::{Workspace, guard, open};
use crate::limits::{COMMAND_RISK_TEXT_BYTES, COMMAND_RISKS};
use crate::note::Note;

/// What a command line would do, as far as its text tells.
#[derive(Debug)]
pub(crate) struct Judged {
    /// That it runs, the files inside the roots that it redirects to, and those elsewhere that it
    /// shows by a name inside.
    pub(crate) effects: Effects,
    /// Why it is asked about each time, if it is.
    pub(crate) note: Option<Note>,
}

/// Judges a command line that would run in a folder. It asks the file system about the files that
/// output is redirected to.
pub(crate) fn judge(line: &str, cwd: &Path, home: Option<&Path>, workspace: &Workspace) -> Judged {
    let place = Place { cwd: Some(cwd), home, roots: workspace.roots().collect() };
    let run = Effect::Run { command: line.to_owned(), cwd: cwd.to_owned() };
    judged(run, risks::find(line, place), None, workspace)
}

/// Judges what is typed at a program that may be a shell, in any folder by now. What a part of a
/// line becomes is not known, nor what keys do that write nothing.
pub(crate) fn judge_typed(text: &str, home: Option<&Path>, workspace: &Workspace) -> Judged {
    let place = Place { cwd: None, home, roots: workspace.roots().collect() };
    let risks = risks::find(text, place);
    let is_key = |letter: char| letter.is_control() && letter != '\n';
    let lines = text.trim_end_matches(is_key);
    let is_part = !lines.is_empty() && (!lines.ends_with('\n') || lines.contains(is_key));
    judged(Effect::Unknown, risks, is_part.then(|| Note::new("risk-part-of-line")), workspace)
}

fn judged(whole: Effect, risks: Risks, more: Option<Note>, workspace: &Workspace) -> Judged {
    let Risks { reasons, writes, reads, names, enters, empties, .. } = risks;
    let mut reasons: Vec<_> = reasons.into_iter().map(Note::from).chain(more).collect();
    let mut effects = vec![whole];
    for path in writes {
        match written(&path, workspace) {
            Ok(effect) if effects.contains(&effect) => {}
            Ok(effect) => effects.push(effect),
            Err(key) => reasons.push(Note::new(key).with("path", workspace.display(&path))),
        }
    }
    let guarded = |path: &&PathBuf| {
        let at = workspace.recall(path).or_else(|_| workspace.resolve_path(path));
        at.is_ok_and(|at| guard::is_guarded(workspace, &at))
    };
    let ours = |path: &&PathBuf| guard::is_own_state(workspace, path);
    let protected = names.iter().filter(guarded).chain(reads.iter().filter(ours));
    let named = |key, path: &PathBuf| Note::new(key).with("path", workspace.display(path));
    reasons.extend(protected.map(|path| named("risk-names-protected", path)));
    effects.extend(reads.iter().filter_map(|path| read_elsewhere(path, workspace)));
    let is_linked = |path: &&PathBuf| is_linked(path, workspace);
    reasons.extend(enters.iter().filter(is_linked).map(|path| named("risk-enters-link", path)));
    reasons.extend(empties.iter().filter(is_linked).map(|path| named("risk-empties-link", path)));
    let effects = Effects::from_iter(effects);
    let note = note(&reasons);
    Judged { effects: if note.is_some() { effects.guarded() } else { effects }, note }
}

/// Returns what showing a file is that lies inside by its name and elsewhere by a link.
fn read_elsewhere(path: &Path, workspace: &Workspace) -> Option<Effect> {
    let at = workspace.resolve_path(path).ok()?;
    if workspace.settle(&at).is_ok() {
        return None;
    }
    let elsewhere = workspace.look(at.given()).ok()?;
    workspace.is_outside(&elsewhere).then(|| Effect::Read(elsewhere.path().to_owned()))
}

/// Whether a folder inside the roots is another one by a link on the way to it.
fn is_linked(path: &Path, workspace: &Workspace) -> bool {
    let at = workspace.resolve_path(path);
    at.is_ok_and(|at| workspace.settle(&at).map_or(true, |real| real.path() != at.path()))
}

/// Returns what writing a file is, or the key of why it is asked about each time.
fn written(path: &Path, workspace: &Workspace) -> Result<Effect, &'static str> {
    let at = workspace.resolve_path(path);
    let Ok(real) = at.and_then(|at| workspace.settle(&at)) else {
        return Err("risk-writes-outside");
    };
    if guard::is_guarded(workspace, &real) {
        return Err("risk-writes-protected");
    }
    if open::read_link(&real).is_some() {
        return Err("risk-writes-dangling");
    }
    if guard::is_shared(workspace, &real) {
        return Err("risk-writes-shared");
    }
    Ok(Effect::Write(real.path().to_owned()))
}

fn note(reasons: &[Note]) -> Option<Note> {
    if reasons.is_empty() {
        return None;
    }
    let note = match reasons.len().saturating_sub(COMMAND_RISKS) {
        0 => Note::new("risks"),
        more => Note::new("risks-more").with("more", more.to_string()),
    };
    let shown = reasons.iter().take(COMMAND_RISKS);
    let shown = shown.map(|why| why.clone().bounded(COMMAND_RISK_TEXT_BYTES));
    Some(note.with_notes("reasons", shown, "; "))
}

#[cfg(test)]
mod tests;
