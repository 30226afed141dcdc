//! Checks the links in documents. The file and the heading of each link must exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{CheckedFile, Violation};

/// Prefix of links from the book to files of the repository that are not in the book.
const REPOSITORY: &str = "https://github.com/callboard-dev/callboard/";

/// The document that lists the pages of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Finds links of Markdown documents to files or headings that do not exist. Also finds pages that
/// the list of the book's pages does not contain. `paths` are the paths of all files.
pub(super) fn check_links_and_summary(
    documents: &[(&str, String)],
    paths: &[&str],
) -> Vec<Violation> {
    let headings: BTreeMap<_, _> =
        documents.iter().map(|(path, text)| (*path, heading_anchors(text))).collect();
    let mut found = Vec::new();
    let mut listed = BTreeSet::new();
    for (path, text) in documents {
        let file = CheckedFile::new(path, text);
        for (index, target) in find_link_targets(text) {
            let (place, heading) = target.split_once('#').unwrap_or((target, ""));
            let Some(place) = resolve_link(path, place) else { continue };
            let is_folder = |other: &&str| Path::new(other).starts_with(&place);
            if !paths.iter().any(is_folder) {
                found.push(file.error_at(index, format!("`{target}` leads to no file")));
            }
            let known = headings.get(&*place);
            if !heading.is_empty() && known.is_some_and(|known| !known.contains(heading)) {
                found.push(file.error_at(index, format!("`{target}` leads to no heading")));
            }
            if *path == SUMMARY {
                listed.insert(place);
            }
        }
    }
    let pages = documents.iter().filter(|(path, _)| path.starts_with("docs/"));
    let unlisted = pages.filter(|(path, _)| *path != SUMMARY && !listed.contains(*path));
    found.extend(unlisted.map(|(path, text)| {
        CheckedFile::new(path, text).error_at(0, format!("add it to {SUMMARY}"))
    }));
    found
}

/// Returns the target of a link in a document, as a path relative to the repository's root. Returns
/// `None` if the target is outside of the repository.
fn resolve_link(document: &str, place: &str) -> Option<String> {
    let path = match place.strip_prefix(REPOSITORY) {
        Some(rest) => {
            PathBuf::from(rest.strip_prefix("blob/main/").or(rest.strip_prefix("tree/main/"))?)
        }
        None if place.contains(':') => return None,
        None if place.is_empty() => return Some(document.to_owned()),
        None => Path::new(document).parent()?.join(place),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.pop() => {}
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain.to_str().map(str::to_owned)
}

/// Returns the targets of all links in a text, each after the index of its line.
fn find_link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in lines_outside_code_fences(text) {
        // If a line is split at its backticks, every second part is a code span.
        for part in line.split('`').step_by(2) {
            let targets = part.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| (index, target)));
        }
    }
    found
}

/// Returns the anchors of a document's headings, in the form that GitHub and mdBook use.
fn heading_anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').strip_prefix(' ')?;
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String = text.chars().filter(kept).collect();
        Some(anchor.trim().to_lowercase().replace(' ', "-"))
    };
    lines_outside_code_fences(text)
        .filter(|(_, line)| line.starts_with('#'))
        .filter_map(|(_, it)| heading(it))
        .collect()
}

/// Returns the lines outside of fenced code blocks, each after its index.
fn lines_outside_code_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 4] = ["README.md", "docs/SUMMARY.md", "docs/a.md", "crates/b/src/lib.rs"];

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let page = ("docs/a.md", "# The `a` page: what, why\n".to_owned());
        let summary = (SUMMARY, "- [a](a.md)\n".to_owned());
        let mut documents = vec![page, summary];
        documents.retain(|(other, _)| *other != path);
        documents.push((path, text.to_owned()));
        let found = check_links_and_summary(&documents, &PATHS);
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn links_lead_to_files_and_headings_that_are_there() {
        let good = "[a](docs/a.md#the-a-page-what-why) [b](crates/b) [c](#head) [d](https://x.y)\n\
                    # Head\n`[no](link)`\n```sh\n[no](link)\n# no heading\n```\n";
        check("README.md", good, &[]);
        check("README.md", "\n[a](docs/c.md)\n", &["README.md:2: `docs/c.md` leads to no file"]);
        let target = "docs/a.md#no-heading";
        let violation = format!("README.md:1: `{target}` leads to no heading");
        check("README.md", &format!("[a]({target})\n"), &[&violation]);
        check("README.md", "[a](#x)\n```\n# x\n```\n", &["README.md:1: `#x` leads to no heading"]);
    }

    #[test]
    fn pages_of_the_book_name_files_outside_of_it_by_the_repository() {
        for (target, is_there) in [
            ("../README.md", true),
            ("../../README.md", false),
            ("https://github.com/callboard-dev/callboard/blob/main/crates/b/src/lib.rs", true),
            ("https://github.com/callboard-dev/callboard/tree/main/crates/c", false),
            ("https://github.com/callboard-dev/callboard/issues", true),
        ] {
            let violation = format!("docs/a.md:1: `{target}` leads to no file");
            let expected: &[&str] = if is_there { &[] } else { &[&violation] };
            check("docs/a.md", &format!("[x]({target})\n"), expected);
        }
    }

    #[test]
    fn a_page_that_the_book_does_not_list_is_found() {
        check("docs/b.md", "# B\n", &["docs/b.md:1: add it to docs/SUMMARY.md"]);
    }
}
