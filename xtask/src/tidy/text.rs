//! Rules for every text file.

use super::{CheckedFile, TidyRule, Violation};

pub(super) const RULES: &[TidyRule] = &[one_newline_at_the_end, no_machine_specific_paths];

/// Folders that exist only on the machine of one developer.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/fa", "rm/")];
const HOME: &str = concat!("/ho", "me/");
/// Names of folders in [`HOME`] that stand for any user.
const ANYONE: &[&str] = &["user", "me"];
/// A folder next to the folder of the repository.
const OUTSIDE: &str = concat!("../sh", "ared");

fn one_newline_at_the_end(file: &CheckedFile<'_>) -> Vec<Violation> {
    let text = file.text;
    let is_right = text.is_empty() || (text.ends_with('\n') && !text.ends_with("\n\n"));
    if is_right {
        return Vec::new();
    }
    vec![file.error_at(file.lines.len().saturating_sub(1), "end the file with exactly one newline")]
}

fn no_machine_specific_paths(file: &CheckedFile<'_>) -> Vec<Violation> {
    let lines = file.lines.iter().enumerate();
    lines
        .filter_map(|(index, line)| {
            let place = find_machine_specific_path(line)?;
            Some(
                file.error_at(
                    index,
                    format!("`{place}` is on one machine only; name no such path"),
                ),
            )
        })
        .collect()
}

fn find_machine_specific_path(line: &str) -> Option<&'static str> {
    let is_in = |place: &&&str| text_after_each_folder_path(line, place).next().is_some();
    let folder = MACHINE_FOLDERS.iter().find(is_in).copied();
    let is_someone = |rest: &str| {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let end = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
        end > 0 && rest[end..].starts_with('/') && !ANYONE.contains(&&rest[..end])
    };
    let home = || text_after_each_folder_path(line, HOME).any(is_someone).then_some(HOME);
    let outside = || line.contains(OUTSIDE).then_some(OUTSIDE);
    folder.or_else(home).or_else(outside)
}

/// Returns the rest of the line after each occurrence of `folder` at the beginning of an absolute
/// path.
fn text_after_each_folder_path<'a>(
    line: &'a str,
    folder: &'a str,
) -> impl Iterator<Item = &'a str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./~}$".contains(c);
    line.match_indices(folder)
        .filter(move |(at, _)| !line[..*at].ends_with(is_path))
        .map(move |(at, _)| &line[at + folder.len()..])
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::check;

    #[test]
    fn files_end_with_exactly_one_newline() {
        check("a.md", "text\n", &[]);
        check("empty", "", &[]);
        check("a.md", "text", &[(1, "end the file")]);
        check("a.md", "text\n\n", &[(2, "end the file")]);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_any_text() {
        for untidy in [
            concat!("see /wo", "rk/a"),
            concat!("\"/ro", "ot/.cargo\""),
            concat!("(/fa", "rm/x)"),
            concat!("/ho", "me/alice/x"),
            concat!("/home/user/a and /ho", "me/bob/b"),
            concat!("in ../sh", "ared/notes"),
        ] {
            check("a.md", &format!("\n{untidy}\n"), &[(2, "`")]);
        }
    }

    #[test]
    fn placeholder_users_and_ends_of_longer_paths_are_allowed() {
        for tidy in [
            "/home/user/a /home/me/b",
            "/home/<name>/c",
            concat!("https://example.org/wo", "rk/x"),
            "crates/root/src",
            concat!("~/wo", "rk/x"),
            concat!("./fa", "rm/x"),
            "/tmp/a",
        ] {
            check("a.md", &format!("{tidy}\n"), &[]);
        }
    }
}
