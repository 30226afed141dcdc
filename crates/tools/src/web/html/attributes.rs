//! The attributes that the conversion reads.

use std::rc::Rc;

use html5ever::Attribute;
use markup5ever_rcdom::{Node, NodeData};

/// Defines an enum of the attributes whose values are kept in the tree. The conversion reads
/// attributes only by this enum, so it cannot read an attribute whose value was removed.
macro_rules! kept_attributes {
    ($($attribute:ident = $name:literal,)*) => {
        /// An attribute whose value is kept in the tree. The values of all other attributes are
        /// removed, because they may need much memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum KeptAttribute {
            $($attribute,)*
        }

        impl KeptAttribute {
            /// Returns `None` if the value is not kept.
            pub(super) fn of(attribute: &Attribute) -> Option<Self> {
                match &*attribute.name.local {
                    $($name => Some(Self::$attribute),)*
                    _ => None,
                }
            }
        }
    };
}

// The library `htmd` itself reads `alt`, `class`, `href`, `src`, `start` and `title`.
kept_attributes! {
    Alt = "alt",
    AriaHidden = "aria-hidden",
    Class = "class",
    ColumnSpan = "colspan",
    Hidden = "hidden",
    Href = "href",
    Id = "id",
    Role = "role",
    RowSpan = "rowspan",
    Source = "src",
    Start = "start",
    Style = "style",
    Title = "title",
}

/// Returns the value of an attribute of an element.
pub(super) fn attribute(node: &Rc<Node>, wanted: KeptAttribute) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    let found = attrs.iter().find(|attribute| KeptAttribute::of(attribute) == Some(wanted))?;
    Some(found.value.to_string())
}
