//! Converts superscripts, subscripts, fractions and footnote marks to Markdown.

use std::rc::{Rc, Weak};

use htmd::Element;
use htmd::element_handler::{HandlerResult, Handlers};
use markup5ever_rcdom::Node;

use super::attributes::{KeptAttribute, attribute};
use super::elements::{find_all, is_named, text_of};

type Handle = Rc<Node>;

/// Converts a superscript, a subscript or a footnote mark. A sign is added, because otherwise the
/// converted text would look like a part of the number before it.
pub(super) fn convert_script(handlers: &dyn Handlers, element: Element<'_>) -> HandlerResult {
    let content = handlers.walk_children(element.node).content;
    let script = content.trim();
    // A link, and many footnote marks, already have brackets.
    if script.is_empty() || script.contains(['[', '\n']) {
        return content.into();
    }
    let is_power = element.tag == "sup";
    let around = parent(element.node).filter(|parent| {
        is_power && is_named(parent, "a") && letters(parent) == letters(element.node)
    });
    match around {
        // The link already has brackets.
        Some(link) if attribute(&link, KeptAttribute::Href).is_some() => content.into(),
        Some(_) => note(script).into(),
        None if is_power && is_linked(element.node) => note(script).into(),
        None => format!("{}{}", if is_power { "^" } else { "_" }, grouped(script)).into(),
    }
}

/// Converts a fraction, a superscript or a subscript of MathML. A sign is added between its two
/// parts.
pub(super) fn convert_math(handlers: &dyn Handlers, element: Element<'_>) -> HandlerResult {
    let sign = match element.tag {
        "mfrac" => "/",
        "msup" => "^",
        _ => "_",
    };
    let converted = |part: &Handle| handlers.handle(part).map(|it| grouped(it.content.trim()));
    let children = element.node.children.borrow();
    let parts = children.iter().filter_map(converted).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(sign).into()
}

fn note(mark: &str) -> String {
    format!("\\[{mark}\\]")
}

fn grouped(script: &str) -> String {
    if script.contains(|letter: char| !letter.is_alphanumeric()) {
        format!("({script})")
    } else {
        script.to_owned()
    }
}

/// Returns whether an element consists of links only. A link to a place on the same page has no
/// target any more, but still counts.
fn is_linked(script: &Handle) -> bool {
    let links = find_all(script, |node| is_named(node, "a"));
    !links.is_empty() && links.iter().map(letters).sum::<usize>() == letters(script)
}

/// Returns the number of letters. White space and commas, which separate several footnote marks, do
/// not count.
fn letters(node: &Handle) -> usize {
    let is_separator = |letter: &char| letter.is_whitespace() || *letter == ',';
    text_of(node).chars().filter(|letter| !is_separator(letter)).count()
}

fn parent(node: &Handle) -> Option<Handle> {
    let parent = node.parent.take();
    let found = parent.as_ref().and_then(Weak::upgrade);
    node.parent.set(parent);
    found
}
