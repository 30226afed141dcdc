//! Markdown of powers, indices, fractions and marks of notes.

use std::rc::{Rc, Weak};

use htmd::Element;
use htmd::element_handler::{HandlerResult, Handlers};
use markup5ever_rcdom::Node;

use super::attributes::{KeptAttribute, attribute};
use super::elements::{find_all, is_named, text_of};

type Handle = Rc<Node>;

/// Converts a power, an index or the mark of a note. Without its mark, it would become a part of the
/// number before it.
pub(super) fn convert_script(handlers: &dyn Handlers, element: Element<'_>) -> HandlerResult {
    let content = handlers.walk_children(element.node).content;
    let script = content.trim();
    // Links and the marks of many notes have brackets.
    if script.is_empty() || script.contains(['[', '\n']) {
        return content.into();
    }
    let is_power = element.tag == "sup";
    let around = parent(element.node).filter(|parent| {
        is_power && is_named(parent, "a") && letters(parent) == letters(element.node)
    });
    match around {
        // The link has brackets.
        Some(link) if attribute(&link, KeptAttribute::Href).is_some() => content.into(),
        Some(_) => note(script).into(),
        None if is_power && is_linked(element.node) => note(script).into(),
        None => format!("{}{}", if is_power { "^" } else { "_" }, grouped(script)).into(),
    }
}

/// Converts a fraction, a power or an index of MathML, whose parts have no sign between them.
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

/// Returns whether an element consists of links, whose targets were removed if they are on the page.
fn is_linked(script: &Handle) -> bool {
    let links = find_all(script, |node| is_named(node, "a"));
    !links.is_empty() && links.iter().map(letters).sum::<usize>() == letters(script)
}

/// Returns the number of letters that are not between the marks of notes.
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
