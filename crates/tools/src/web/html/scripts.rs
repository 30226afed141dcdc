//! Converts superscripts, subscripts, fractions and footnote marks to Markdown.

use std::rc::{Rc, Weak};

use htmd::Element;
use htmd::element_handler::{HandlerResult, Handlers};
use markup5ever_rcdom::Node;

use super::attributes::{KeptAttribute, attribute};
use super::elements::{find_outermost_nodes, is_named, text_of};

type Handle = Rc<Node>;

/// Converts a superscript, a subscript or a footnote mark. A sign is added, because otherwise the
/// converted text would look like a part of the number before it.
pub(super) fn convert_superscript_or_subscript(
    handlers: &dyn Handlers,
    element: Element<'_>,
) -> HandlerResult {
    let content = handlers.walk_children(element.node).content;
    let script = content.trim();
    // A link, and many footnote marks, already have brackets.
    if script.is_empty() || script.contains(['[', '\n']) {
        return content.into();
    }
    let is_power = element.tag == "sup";
    let around = parent(element.node).filter(|parent| {
        is_power
            && is_named(parent, "a")
            && count_non_separator_chars(parent) == count_non_separator_chars(element.node)
    });
    match around {
        // The link already has brackets.
        Some(link) if attribute(&link, KeptAttribute::Href).is_some() => content.into(),
        Some(_) => footnote_mark(script).into(),
        None if is_power && is_only_links(element.node) => footnote_mark(script).into(),
        None => format!(
            "{}{}",
            if is_power { "^" } else { "_" },
            parenthesize_unless_alphanumeric(script)
        )
        .into(),
    }
}

/// Converts a fraction, a superscript or a subscript of MathML. A sign is added between its two
/// parts.
pub(super) fn convert_math_fraction_or_script(
    handlers: &dyn Handlers,
    element: Element<'_>,
) -> HandlerResult {
    let sign = match element.tag {
        "mfrac" => "/",
        "msup" => "^",
        _ => "_",
    };
    let converted = |part: &Handle| {
        handlers.handle(part).map(|it| parenthesize_unless_alphanumeric(it.content.trim()))
    };
    let children = element.node.children.borrow();
    let parts = children.iter().filter_map(converted).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(sign).into()
}

fn footnote_mark(mark: &str) -> String {
    format!("\\[{mark}\\]")
}

fn parenthesize_unless_alphanumeric(script: &str) -> String {
    if script.contains(|letter: char| !letter.is_alphanumeric()) {
        format!("({script})")
    } else {
        script.to_owned()
    }
}

/// Returns whether an element consists of links only. A link to a place on the same page has no
/// target any more, but still counts.
fn is_only_links(script: &Handle) -> bool {
    let links = find_outermost_nodes(script, |node| is_named(node, "a"));
    !links.is_empty()
        && links.iter().map(count_non_separator_chars).sum::<usize>()
            == count_non_separator_chars(script)
}

/// Returns the number of letters. White space and commas, which separate several footnote marks, do
/// not count.
fn count_non_separator_chars(node: &Handle) -> usize {
    let is_separator = |letter: &char| letter.is_whitespace() || *letter == ',';
    text_of(node).chars().filter(|letter| !is_separator(letter)).count()
}

fn parent(node: &Handle) -> Option<Handle> {
    let parent = node.parent.take();
    let found = parent.as_ref().and_then(Weak::upgrade);
    node.parent.set(parent);
    found
}
