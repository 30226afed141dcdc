//! The size of the indentation that quotes and lists add to a page.

use std::rc::Rc;

use html5ever::Attribute;
use markup5ever_rcdom::{Node, NodeData};

use super::attributes::{KeptAttribute, attribute};

type Handle = Rc<Node>;

/// Returns about how many bytes the quotes and lists of a tree add to its lines. It is iterative.
///
/// The lines are counted in the tree, as a page may write them in several ways, e.g. as `&#10;`.
pub(super) fn indent_bytes(root: &Handle) -> usize {
    let (mut bytes, mut open) = (0_usize, vec![(root.clone(), 0)]);
    while let Some((node, around)) = open.pop() {
        let indent = around + own_indent(&node);
        bytes = bytes.saturating_add(lines(&node).saturating_mul(indent));
        open.extend(node.children.borrow().iter().map(|child| (child.clone(), indent)));
    }
    bytes
}

/// Returns the number of bytes that an element adds to each line within it.
fn own_indent(node: &Handle) -> usize {
    let NodeData::Element { name, .. } = &node.data else { return 0 };
    match &*name.local {
        "blockquote" | "li" => 2,
        // Further bytes for the items, whose numbers are all as long as the last one.
        "ol" => {
            let start = attribute(node, KeptAttribute::Start);
            let start = start.and_then(|it| it.parse::<u32>().ok()).map_or(1, u64::from);
            (start + node.children.borrow().len() as u64).to_string().len()
        }
        _ => 0,
    }
}

/// Returns how many line breaks a node may add to the text. Each element may begin and end a line.
fn lines(node: &Handle) -> usize {
    let count = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    match &node.data {
        NodeData::Text { contents } => count(&contents.borrow()),
        // Images are described by their attributes.
        NodeData::Element { attrs, .. } => {
            let in_attributes = |Attribute { value, .. }: &Attribute| count(value);
            2 + attrs.borrow().iter().map(in_attributes).sum::<usize>()
        }
        _ => 0,
    }
}
