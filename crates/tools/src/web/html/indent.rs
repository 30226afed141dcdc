//! Estimates how many bytes of indentation quotes and lists add to a page.

use std::rc::Rc;

use html5ever::Attribute;
use markup5ever_rcdom::{Node, NodeData};

use super::attributes::{KeptAttribute, attribute};

type Handle = Rc<Node>;

/// Returns approximately how many bytes the quotes and lists of a tree add to its lines. The
/// function uses no recursion.
///
/// The line breaks are counted in the tree and not in the source, because a page may write a line
/// break in several ways, e.g. as `&#10;`.
pub(super) fn estimate_total_indent_bytes(root: &Handle) -> usize {
    let (mut bytes, mut open) = (0_usize, vec![(root.clone(), 0)]);
    while let Some((node, around)) = open.pop() {
        let indent = around + indent_bytes_per_line(&node);
        bytes = bytes.saturating_add(max_line_break_count(&node).saturating_mul(indent));
        open.extend(node.children.borrow().iter().map(|child| (child.clone(), indent)));
    }
    bytes
}

/// Returns the number of bytes that an element adds to each line within it.
fn indent_bytes_per_line(node: &Handle) -> usize {
    let NodeData::Element { name, .. } = &node.data else { return 0 };
    match &*name.local {
        "blockquote" | "li" => 2,
        // The number of an item needs additional bytes. All numbers are counted with the length of
        // the last number.
        "ol" => {
            let start = attribute(node, KeptAttribute::Start);
            let start = start.and_then(|it| it.parse::<u32>().ok()).map_or(1, u64::from);
            (start + node.children.borrow().len() as u64).to_string().len()
        }
        _ => 0,
    }
}

/// Returns how many line breaks a node may add to the text. Each element may begin and end a line.
fn max_line_break_count(node: &Handle) -> usize {
    let count = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    match &node.data {
        NodeData::Text { contents } => count(&contents.borrow()),
        // Attributes count too, because the text of an image comes from its attributes.
        NodeData::Element { attrs, .. } => {
            let in_attributes = |Attribute { value, .. }: &Attribute| count(value);
            2 + attrs.borrow().iter().map(in_attributes).sum::<usize>()
        }
        _ => 0,
    }
}
