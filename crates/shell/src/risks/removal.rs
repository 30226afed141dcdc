//! What is removed with all that lies beneath it.

use std::path::{Path, PathBuf};

use callboard_text::normalise;

use super::{Place, name, runs_for_each};
use crate::reader::Word;

/// How much of what a word names goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    All,
    /// What is looked for beneath it.
    Some,
}

/// Returns what `find` removes something beneath, and how much of that.
pub(super) fn of_find(args: &[Word]) -> (Vec<Word>, Extent) {
    let runs_rm = |pair: &[Word]| runs_for_each(&pair[0].text) && name(&pair[1]) == "rm";
    let removes = args.windows(2).any(runs_rm);
    if !removes && !args.iter().any(|word| word.text == "-delete") {
        return (Vec::new(), Extent::Some);
    }
    let is_for_all = |text: &str| text.contains(".git") || is_all(&text.replace('/', ""));
    let looks = |pair: &[Word]| LOOKS.contains(&&*pair[0].text) && !is_for_all(&pair[1].text);
    let turns = |word: &Word| TURNS.contains(&&*word.text);
    let leaves = args.windows(2).any(looks) && !args.iter().any(turns);
    let extent = if leaves { Extent::Some } else { Extent::All };
    // Before the folders, options of how links are followed.
    let option = |word: &&Word| word.text == "-D" || is_of_links(&word.text);
    let options = args.iter().take_while(option).count();
    let is_folder = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let mut folders: Vec<_> = args[options..].iter().take_while(is_folder).cloned().collect();
    if folders.is_empty() {
        folders.push(Word { text: ".".to_owned(), ..Word::default() });
    }
    (folders, extent)
}

/// Whether more goes than the project can do without, if a target is removed from a folder.
pub(super) fn is_vital(
    target: &Word,
    cwd: Option<&Path>,
    extent: Extent,
    place: &Place<'_>,
) -> bool {
    let text = if target.expands { folder_of_all(&target.text) } else { &target.text };
    let path = match (text.strip_prefix('~'), text.strip_prefix("$HOME")) {
        (Some(rest), _) | (_, Some(rest)) if target.expands => match place.home {
            Some(home) if rest.is_empty() || rest.starts_with('/') => {
                PathBuf::from(format!("{}{rest}", home.display()))
            }
            _ => return true,
        },
        _ if target.text.starts_with('/') => Path::new("/").join(text),
        _ => match cwd {
            Some(cwd) => cwd.join(text),
            None => return true,
        },
    };
    let path = normalise(&path);
    // What is not known may be nothing, and `a/$b` all of `a`.
    let unknown = |name: &str| target.expands && name.contains(['$', '`', '{']);
    let known: PathBuf = path.iter().take_while(|name| !unknown(&name.to_string_lossy())).collect();
    let starts_unknown =
        target.expands && text.starts_with(['$', '`', '{']) && !text.starts_with("$HOME");
    let climbs = target.expands && text.contains('{') && text.contains("..");
    let is_outside = !place.roots.iter().any(|root| known.starts_with(root));
    let above = |vital: &Path| vital.starts_with(&known);
    let is_above = place.roots.iter().any(|root| above(root))
        || place.home.is_some_and(above)
        || known.iter().any(|name| name == ".git");
    starts_unknown || climbs || is_outside || extent == Extent::All && is_above
}

/// Takes off the names at the end that stand for all there is: that is as much as the folder.
fn folder_of_all(text: &str) -> &str {
    let mut folder = text.trim_end_matches('/');
    loop {
        let (above, last) = folder.rsplit_once('/').unwrap_or(("", folder));
        if !is_all(last) {
            return folder;
        }
        folder = above.trim_end_matches('/');
    }
}

/// Whether a pattern stands for nearly every name: `*`, `.*`, `.[!.]*`, `{*,.*}`, `*.*`.
fn is_all(pattern: &str) -> bool {
    let bare = pattern.split('[').enumerate().map(|(at, part)| match part.split_once(']') {
        Some((_, after)) if at > 0 => after,
        _ => part,
    });
    pattern.contains('*') && bare.into_iter().all(|part| part.trim_matches(MEANS_ANY).is_empty())
}

const MEANS_ANY: [char; 7] = ['*', '?', '.', '!', '{', '}', ','];

fn is_of_links(word: &str) -> bool {
    matches!(word, "-L" | "-H" | "-P") || word.starts_with("-O")
}

/// Tests of `find` that leave something.
const LOOKS: &[&str] = &[
    "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-newer", "-mtime", "-mmin",
    "-size", "-empty",
];

/// What makes of few files all others, or those of another test.
const TURNS: &[&str] = &["!", "-not", "-o", "-or", ","];
