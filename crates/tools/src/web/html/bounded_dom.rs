//! A tree of a page with a bounded number of nodes, and a bounded depth.
//!
//! A parser for HTML repairs malformed pages, so it may create many more elements than the page has
//! tags. For example, if a page does not close its formatting elements, the parser repeats all of
//! them in each later paragraph.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Instant;

use callboard_text::head;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::{Node, NodeData, RcDom};

use crate::web::limits::{
    HTML_CHUNK_BYTES, MAX_HTML_ATTRIBUTES, MAX_HTML_DEPTH, MAX_HTML_NODES, MAX_HTML_PARSE_TIME,
};

use super::attributes::KeptAttribute;

type Handle = Rc<Node>;

/// The panic payload with which the parser is stopped.
struct HtmlParseLimitPanic;

/// Splits a page into chunks. Each chunk ends at a character boundary.
pub(super) fn chunks(mut html: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (chunk, rest) = html.split_at(head(html, HTML_CHUNK_BYTES).len());
        html = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Parses a page. Returns `None` if the page exceeds the bounds, or if the parser panics.
pub(super) fn parse_bounded(html: &str) -> Option<Handle> {
    let options = ParseOpts {
        // Scripts do not run, so the content of `<noscript>` is shown.
        tree_builder: TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() },
        ..ParseOpts::default()
    };
    let deadline = Instant::now() + MAX_HTML_PARSE_TIME;
    let parse = || {
        let mut parser = parse_document(BoundedDom::new(deadline), options);
        for chunk in chunks(html) {
            // Check the time between the chunks, because the parser may need quadratic time for the
            // attributes of one tag.
            if Instant::now() > deadline {
                resume_unwind(Box::new(HtmlParseLimitPanic));
            }
            parser.process(chunk.into());
        }
        parser.finish().document
    };
    let document = catch_unwind(AssertUnwindSafe(parse)).ok()?;
    (max_tree_depth(&document) <= MAX_HTML_DEPTH).then_some(document)
}

/// Returns the number of levels of a tree, without recursion.
fn max_tree_depth(document: &Handle) -> usize {
    let (mut deepest, mut open) = (0, vec![(document.clone(), 1)]);
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(node.children.borrow().iter().map(|child| (child.clone(), depth + 1)));
    }
    deepest
}

/// Removes the values of attributes that the conversion does not read, because these values may
/// need much memory.
fn clear_unread_values(attributes: &mut [Attribute]) {
    for attribute in attributes {
        if KeptAttribute::of(attribute).is_none() {
            attribute.value = StrTendril::new();
        }
    }
}

/// Returns whether appending a child creates a new text node. A text after another text is added to
/// the existing node.
fn is_new_text(parent: &Handle, child: &NodeOrText<Handle>) -> bool {
    let is_text = |node: &Handle| matches!(node.data, NodeData::Text { .. });
    let NodeOrText::AppendText(_) = child else { return false };
    !parent.children.borrow().last().is_some_and(is_text)
}

/// A tree that stops the parser when the tree becomes too large. The tree unwinds the stack for
/// this, because the parser has no method to stop it.
struct BoundedDom {
    dom: RcDom,
    nodes: Cell<usize>,
    attributes: Cell<usize>,
    deadline: Instant,
}

impl BoundedDom {
    fn new(deadline: Instant) -> Self {
        let (nodes, attributes) = (Cell::new(0), Cell::new(0));
        Self { dom: RcDom::default(), nodes, attributes, deadline }
    }

    fn count_or_abort(&self, nodes: usize, attributes: usize) {
        self.nodes.set(self.nodes.get() + nodes);
        self.attributes.set(self.attributes.get() + attributes);
        let is_large =
            self.nodes.get() > MAX_HTML_NODES || self.attributes.get() > MAX_HTML_ATTRIBUTES;
        // Check the time too, because the parser may need quadratic time even for a tree within the
        // limits.
        if is_large || Instant::now() > self.deadline {
            // Unlike `panic!`, `resume_unwind` does not call the panic hook.
            resume_unwind(Box::new(HtmlParseLimitPanic));
        }
    }
}

impl TreeSink for BoundedDom {
    type Handle = Handle;
    type Output = RcDom;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> RcDom {
        self.dom
    }

    // Parse errors are dropped, because they would need memory and are not shown.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(
        &self,
        name: QualName,
        mut attrs: Vec<Attribute>,
        flags: ElementFlags,
    ) -> Handle {
        self.count_or_abort(1, attrs.len());
        clear_unread_values(&mut attrs);
        attrs.shrink_to_fit();
        self.dom.create_element(name, attrs, flags)
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.count_or_abort(1, 0);
        self.dom.create_comment(StrTendril::new())
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        self.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.count_or_abort(usize::from(is_new_text(parent, &child)), 0);
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        prev_element: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.count_or_abort(1, 0);
        self.dom.append_based_on_parent_node(element, prev_element, child);
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        self.dom.same_node(x, y)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, new_node: NodeOrText<Handle>) {
        self.count_or_abort(usize::from(matches!(new_node, NodeOrText::AppendText(_))), 0);
        self.dom.append_before_sibling(sibling, new_node);
    }

    fn add_attrs_if_missing(&self, target: &Handle, mut attrs: Vec<Attribute>) {
        self.count_or_abort(0, attrs.len());
        clear_unread_values(&mut attrs);
        self.dom.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.count_or_abort(0, 0);
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(handle)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;

    fn count_nodes(html: &str) -> usize {
        let sink = BoundedDom::new(Instant::now() + Duration::from_secs(3_600));
        let mut parser = parse_document(sink, ParseOpts::default());
        parser.process(html.into());
        parser.tokenizer.sink.sink.nodes.get()
    }

    #[test]
    fn elements_comments_and_whole_texts_are_counted() {
        // Each page has the elements `html`, `head` and `body`.
        for (html, count) in [
            ("<p>", 4),
            ("<p><!-- a -->", 5),
            ("<p>a<br>", 6),
            ("<p>a &amp; b\nc &amp; d<br>", 6),
            ("<p>a<br>b<br>c<br>", 10),
            ("<table>a<td>b<br>", 10),
        ] {
            assert_eq!(count_nodes(html), count, "{html}");
        }
    }
}
