//! Snapshots of pages of documentation, as their generators have written them.
//!
//! The pages and their licences are in the folder `tests/pages` of this crate. After an intended
//! change, or for a new page, run the test with `INSTA_UPDATE=always` and read the snapshots.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::web::body::Body;
use crate::web::media_type::MediaType;
use crate::web::{Page, PagePart, PageUrl};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages");

/// Returns what a model receives if it reads a page to its end.
fn shown(name: &str) -> String {
    let bytes = fs::read(Path::new(FOLDER).join(format!("{name}.html"))).unwrap();
    let url = PageUrl::parse(&format!("https://docs.example/manual/{name}.html")).unwrap();
    let body = Body { bytes, is_truncated: false };
    let page = Page::from_body(url, 200, MediaType::parse("text/html"), body);
    let mut shown = page.header_lines(false);
    let text = page.shown_text(false).unwrap_or("[not text]");
    let mut next = Some(1);
    while let Some(offset) = next {
        let part = PagePart::starting_at_line(text, offset).unwrap();
        shown += &format!("\n{}{}", part.text, part.note());
        next = part.next_offset();
    }
    shown
}

/// Returns the names of the files in a folder that end with `end`. This ending is removed from the
/// names.
fn names(folder: &str, end: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    files.filter_map(|file| file.to_str()?.strip_suffix(end).map(str::to_owned)).collect()
}

#[test]
fn documentation_of_each_generator_stays_readable() {
    let pages = names(FOLDER, ".html");
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(Path::new(FOLDER).join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in &pages {
        settings.bind(|| insta::assert_snapshot!(name.as_str(), shown(name)));
    }
    assert_eq!(names(&format!("{FOLDER}/snapshots"), ".snap"), pages);
    let readme = fs::read_to_string(format!("{FOLDER}/README.md")).unwrap();
    for name in &pages {
        assert!(readme.contains(&format!("| `{name}` |")), "README.md has no row for {name}");
    }
}
