//! Finds the main part of a page, removes elements that are not content, and makes links absolute.

use std::cell::RefCell;
use std::rc::Rc;

use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use markup5ever_rcdom::{Node, NodeData};
use url::{Position, Url};

use crate::web::limits::{MAX_HTML_LINK_BYTES, MAX_PAGE_TITLE_BYTES, MAX_URL_BYTES};
use callboard_text::{escape_invisible_truncated, is_strippable_from_output};

use super::attributes::{KeptAttribute, attribute};

type Handle = Rc<Node>;

/// Elements without content for readers.
const LEFT_OUT: &[&str] = &[
    "base", "button", "canvas", "dialog", "embed", "form", "iframe", "input", "link", "meta",
    "nav", "object", "script", "select", "style", "svg", "template", "textarea", "title",
];

/// Roles of elements without content for readers.
const LEFT_OUT_ROLES: &[&str] =
    &["alertdialog", "dialog", "menu", "menubar", "navigation", "search", "toolbar"];

/// Classes of three kinds of elements that are not content: links next to a heading that lead to
/// this heading, line numbers next to code, and links whose target repeats the code.
const LEFT_OUT_CLASSES: &[&str] =
    &["headerlink", "lineno", "linenodiv", "linenos", "line-numbers-wrapper", "test-arrow"];

/// Classes of navigation in pages that do not use `<nav>`.
const NAVIGATION_CLASSES: &[&str] = &[
    "breadcrumb",
    "breadcrumbs",
    "navbar",
    "navfooter",
    "navheader",
    "navigation",
    "navpath",
    "tablist",
];

/// Values of `id` that name the main part in pages without `<main>`.
const MAIN_IDS: &[&str] = &["main", "main-content", "maincontent", "page-content", "content"];

/// Texts of links next to a heading that lead to this heading.
const PERMALINKS: &[&str] = &["¶", "§", "#", "◆", "∞", "⚓", "🔗", "[link]", "[permalink]"];

/// Minimum share of the page's text that the main part must contain, as a divisor: 4 means a
/// quarter.
const MIN_MAIN_PART: usize = 4;

/// Minimum length in bytes of a form's text. A form with a longer text counts as content, because
/// it may contain the whole page.
const MIN_WRAPPER_BYTES: usize = 500;

/// A page whose main part can be converted.
pub(super) struct TitleAndMainPart {
    pub(super) title: Option<String>,
    pub(super) main: Handle,
}

/// Removes elements that are not content, makes links absolute, and finds the main part. The
/// function uses no recursion, because a page may be nested deeply.
pub(super) fn extract_content(document: &Handle, url: &Url) -> TitleAndMainPart {
    let title =
        find_first_node(document, |node| is_named(node, "title")).map(|node| text_of(&node));
    let title = title.map(|title| title_as_one_line(&title)).filter(|title| !title.is_empty());
    let base = find_first_node(document, |node| {
        is_named(node, "base") && attribute(node, KeptAttribute::Href).is_some()
    });
    let base = base.and_then(|node| url.join(&attribute(&node, KeptAttribute::Href)?).ok());
    let base = base.filter(|base| matches!(base.scheme(), "http" | "https"));
    let base = base.as_ref().unwrap_or(url);
    let mut link_bytes = 0;
    let mut open = vec![document.clone()];
    while let Some(node) = open.pop() {
        node.children.borrow_mut().retain(|child| !is_left_out(child));
        remove_line_number_cells(&node);
        prevent_sup_sub_merging(&node);
        make_links_absolute(&node, base, url, &mut link_bytes);
        open.extend(node.children.borrow().iter().cloned());
    }
    TitleAndMainPart { title, main: main_part(document) }
}

/// Returns the main part of a page: the only `<main>`, the only `<article>`, or an element whose
/// `id` is in [`MAIN_IDS`]. This element must contain enough of the text. Otherwise returns the
/// whole page without its footer.
fn main_part(document: &Handle) -> Handle {
    let whole = text_of(document).len();
    let is_main = |node: &Handle| {
        is_named(node, "main") || attribute(node, KeptAttribute::Role).as_deref() == Some("main")
    };
    let mains = find_outermost_nodes(document, is_main);
    let articles = find_outermost_nodes(document, |node: &Handle| is_named(node, "article"));
    let only = [mains, articles].into_iter().find_map(|found| match &found[..] {
        [only] if text_of(only).len() >= whole / MIN_MAIN_PART => Some(only.clone()),
        _ => None,
    });
    // An `id` is less reliable than an element name, so it must contain more of the text.
    let named = || {
        let has_id =
            |node: &Handle, id: &str| attribute(node, KeptAttribute::Id).as_deref() == Some(id);
        let mut named =
            MAIN_IDS.iter().filter_map(|id| find_first_node(document, |node| has_id(node, id)));
        named.find(|node| text_of(node).len() >= whole / 2)
    };
    if let Some(main) = only {
        return main;
    }
    let page = named().unwrap_or_else(|| {
        // If the whole page is used, its footer is not content.
        for node in find_outermost_nodes(document, |node| is_named(node, "body")) {
            node.children.borrow_mut().retain(|child| !is_named(child, "footer"));
        }
        document.clone()
    });
    leave_out_leading_links(&page);
    page
}

fn is_left_out(node: &Handle) -> bool {
    let NodeData::Element { name, attrs, .. } = &node.data else { return false };
    // Keep a form with a long text, because it may contain the whole page.
    let is_wrapper = || is_named(node, "form") && text_of(node).len() > MIN_WRAPPER_BYTES;
    if is_link_without_content(node) || LEFT_OUT.contains(&&*name.local) && !is_wrapper() {
        return true;
    }
    let is_hiding = |attribute: &Attribute| match (KeptAttribute::of(attribute), &attribute.value) {
        (Some(KeptAttribute::Hidden), value) => !value.eq_ignore_ascii_case("until-found"),
        (Some(KeptAttribute::AriaHidden), value) => value.eq_ignore_ascii_case("true"),
        (Some(KeptAttribute::Role), value) => {
            LEFT_OUT_ROLES.contains(&&*value.to_ascii_lowercase())
        }
        (Some(KeptAttribute::Style), value) => {
            let style: String = value.chars().filter(|letter| !letter.is_whitespace()).collect();
            let style = style.to_ascii_lowercase();
            style.contains("display:none") || style.contains("visibility:hidden")
        }
        (Some(KeptAttribute::Class), value) => value.split_ascii_whitespace().any(|class| {
            LEFT_OUT_CLASSES.contains(&class)
                || NAVIGATION_CLASSES.contains(&class) && !has_heading_paragraph_or_code(node)
        }),
        _ => false,
    };
    attrs.borrow().iter().any(is_hiding)
}

/// Returns whether an element contains a heading, a paragraph or code.
fn has_heading_paragraph_or_code(node: &Handle) -> bool {
    find_first_node(node, |node| {
        ["h1", "h2", "h3", "p", "pre"].iter().any(|tag| is_named(node, tag))
    })
    .is_some()
}

/// If the page has exactly one main heading, removes lists of links before this heading. The lists
/// are kept if they contain most of the text.
fn leave_out_leading_links(page: &Handle) {
    let is_list = |node: &Handle| is_named(node, "ul") || is_named(node, "ol");
    let found = find_outermost_nodes(page, |node| is_list(node) || is_named(node, "h1"));
    let mut parts = found.split(|node| is_named(node, "h1"));
    let (Some(lists), Some(_), None) = (parts.next(), parts.next(), parts.next()) else { return };
    let letters = |node: &Handle| text_of(node).chars().filter(|it| it.is_alphanumeric()).count();
    if lists.iter().map(letters).sum::<usize>() > letters(page) / 2 {
        return;
    }
    let is_link =
        |node: &Handle| is_named(node, "a") && attribute(node, KeptAttribute::Href).is_some();
    for list in lists {
        if find_outermost_nodes(list, is_link).iter().map(letters).sum::<usize>() == letters(list) {
            list.children.borrow_mut().clear();
        }
    }
}

/// Returns whether an element is a link that is not content: an empty link, a link next to a
/// heading that leads to this heading, or a button without letters and digits. A link whose text is
/// an operator is content.
fn is_link_without_content(node: &Handle) -> bool {
    let Some(target) = attribute(node, KeptAttribute::Href).filter(|_| is_named(node, "a")) else {
        return false;
    };
    let text = text_of(node);
    let text = text
        .trim_matches(|letter: char| letter.is_whitespace() || is_strippable_from_output(letter));
    if text.is_empty() {
        return find_first_node(node, |node| is_named(node, "img")).is_none();
    }
    let is_button = target == "#" || target.starts_with("javascript:");
    target.starts_with('#') && PERMALINKS.contains(&text)
        || is_button && !text.contains(char::is_alphanumeric)
}

/// Removes a cell of a row if it contains only the line numbers of the code in another cell.
fn remove_line_number_cells(row: &Handle) {
    if !is_named(row, "tr") {
        return;
    }
    let has_code = |cell: &Handle| find_first_node(cell, |node| is_named(node, "pre")).is_some();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_numbers =
        |cell: &Handle| has_code(cell) && text_of(cell).split_whitespace().all(is_number);
    let mut cells = row.children.borrow_mut();
    if cells.iter().any(|cell| has_code(cell) && !is_numbers(cell)) {
        cells.retain(|cell| !is_numbers(cell));
    }
}

/// Adds an empty text to a superscript or subscript. Without this second text, the library `htmd`
/// would merge adjacent elements of the same kind.
fn prevent_sup_sub_merging(script: &Handle) {
    if is_named(script, "sup") || is_named(script, "sub") {
        let contents = RefCell::new(StrTendril::new());
        script.children.borrow_mut().push(Node::new(NodeData::Text { contents }));
    }
}

/// Makes the link of an element absolute, and adds its length to `bytes`. Links to the same page,
/// and links that exceed the total limit, are removed. The text of a removed link stays.
fn make_links_absolute(node: &Handle, base: &Url, page: &Url, bytes: &mut usize) {
    let NodeData::Element { name, attrs, .. } = &node.data else { return };
    let link = match &*name.local {
        "a" => KeptAttribute::Href,
        "img" => KeptAttribute::Source,
        _ => return,
    };
    attrs.borrow_mut().retain_mut(|attribute| {
        let name = KeptAttribute::of(attribute);
        if name != Some(link) {
            // Remove the title of a link, because it usually repeats the text or the target of the
            // link.
            return link != KeptAttribute::Href || name != Some(KeptAttribute::Title);
        }
        let value = attribute.value.trim();
        let target = if value.starts_with('#') { None } else { base.join(value).ok() };
        let is_same_page = |target: &Url| {
            target[..Position::AfterQuery] == page[..Position::AfterQuery]
                && link == KeptAttribute::Href
        };
        let is_shown = |target: &Url| {
            let schemes: &[&str] =
                if link == KeptAttribute::Source { &["http", "https"] } else { LINK_SCHEMES };
            let room = MAX_URL_BYTES.min(MAX_HTML_LINK_BYTES - *bytes);
            schemes.contains(&target.scheme())
                && target.as_str().len() <= room
                && !is_same_page(target)
        };
        match target.filter(is_shown) {
            Some(target) => {
                *bytes += target.as_str().len();
                attribute.value = target.as_str().into();
            }
            None => return false,
        }
        true
    });
}

const LINK_SCHEMES: &[&str] = &["http", "https", "mailto", "tel", "ftp"];

/// Returns the first node in the order of the page for which `is_wanted` returns `true`.
fn find_first_node(root: &Handle, is_wanted: impl Fn(&Handle) -> bool) -> Option<Handle> {
    let mut open = vec![root.clone()];
    while let Some(node) = open.pop() {
        if is_wanted(&node) {
            return Some(node);
        }
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    None
}

/// Returns the nodes for which `is_wanted` returns `true`. Nodes inside a returned node are not
/// returned.
pub(super) fn find_outermost_nodes(
    root: &Handle,
    is_wanted: impl Fn(&Handle) -> bool,
) -> Vec<Handle> {
    let (mut found, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(node) = open.pop() {
        if is_wanted(&node) {
            found.push(node);
        } else {
            open.extend(node.children.borrow().iter().rev().cloned());
        }
    }
    found
}

/// Returns the text of a node. Each `<br>` becomes a line break.
pub(super) fn text_of(root: &Handle) -> String {
    let (mut text, mut open) = (String::new(), vec![root.clone()]);
    while let Some(node) = open.pop() {
        match &node.data {
            NodeData::Text { contents } => text.push_str(&contents.borrow()),
            NodeData::Element { name, .. } if *name.local == *"br" => text.push('\n'),
            _ => {}
        }
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    text
}

pub(super) fn is_named(node: &Handle, tag: &str) -> bool {
    matches!(&node.data, NodeData::Element { name, .. } if *name.local == *tag)
}

/// Returns a title as one line of limited length.
pub(super) fn title_as_one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    escape_invisible_truncated(&words.join(" "), MAX_PAGE_TITLE_BYTES).0
}
