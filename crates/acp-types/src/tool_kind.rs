//! Infers the kind of a tool that does not declare one.

use crate::ToolKind;

/// Hints about the behaviour of an MCP tool, from the definition of the tool
/// (<https://modelcontextprotocol.io/specification/2025-06-18/server/tools>).
///
/// The MCP server chooses these hints. Use the hints to select an icon, never to decide on
/// permission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// `readOnlyHint`: the tool changes nothing.
    pub read_only: Option<bool>,
    /// `destructiveHint`: the tool may delete data.
    pub destructive: Option<bool>,
    /// `openWorldHint`: the tool accesses systems outside of the machine.
    pub open_world: Option<bool>,
}

/// Returns the kind of a tool. The declared kind has priority. Without a declared kind, the kind is
/// inferred from the annotations, or else from whole words of the name (`delete_widget` is a
/// deletion; `widget` matches no kind). If no kind can be inferred, returns `Other`.
#[must_use]
pub fn infer_kind(
    declared: Option<ToolKind>,
    annotations: ToolAnnotations,
    name: &str,
) -> ToolKind {
    declared
        .or_else(|| kind_from_annotations(annotations))
        .or_else(|| kind_from_name(name))
        .unwrap_or_default()
}

/// Returns whether a call of this kind may change something or be visible to other systems. Use the
/// result for display, never to decide on permission, because the tool declares its kind itself.
#[must_use]
pub fn may_have_side_effects(kind: ToolKind) -> bool {
    !matches!(kind, ToolKind::Read | ToolKind::Search | ToolKind::Think)
}

fn kind_from_annotations(annotations: ToolAnnotations) -> Option<ToolKind> {
    match (annotations.read_only, annotations.destructive, annotations.open_world) {
        (Some(true), _, Some(true)) => Some(ToolKind::Fetch),
        (Some(true), _, _) => Some(ToolKind::Read),
        (Some(false), Some(true), _) => Some(ToolKind::Delete),
        _ => None,
    }
}

fn kind_from_name(name: &str) -> Option<ToolKind> {
    split_words(name).find_map(|word| {
        KIND_BY_WORD.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    })
}

/// Splits a name into words in lower case: at each character that is not alphanumeric, and before
/// each capital letter that follows a small letter.
fn split_words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (small && letter.is_uppercase()) {
            words.push(String::new());
        }
        small = letter.is_lowercase();
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// Verbs that imply exactly one kind. `get`, `list`, `create` and `query` are missing, because the
/// kind of such a tool depends on the object of the verb.
const KIND_BY_WORD: &[(&str, ToolKind)] = &[
    ("read", ToolKind::Read),
    ("view", ToolKind::Read),
    ("cat", ToolKind::Read),
    ("edit", ToolKind::Edit),
    ("write", ToolKind::Edit),
    ("patch", ToolKind::Edit),
    ("replace", ToolKind::Edit),
    ("delete", ToolKind::Delete),
    ("remove", ToolKind::Delete),
    ("move", ToolKind::Move),
    ("rename", ToolKind::Move),
    ("copy", ToolKind::Move),
    ("search", ToolKind::Search),
    ("grep", ToolKind::Search),
    ("glob", ToolKind::Search),
    ("find", ToolKind::Search),
    ("execute", ToolKind::Execute),
    ("exec", ToolKind::Execute),
    ("run", ToolKind::Execute),
    ("shell", ToolKind::Execute),
    ("bash", ToolKind::Execute),
    ("terminal", ToolKind::Execute),
    ("think", ToolKind::Think),
    ("thinking", ToolKind::Think),
    ("todo", ToolKind::Think),
    ("plan", ToolKind::Think),
    ("fetch", ToolKind::Fetch),
    ("download", ToolKind::Fetch),
    ("browse", ToolKind::Fetch),
];

#[cfg(test)]
mod tests {
    use super::{ToolAnnotations, infer_kind};
    use crate::ToolKind;

    #[test]
    fn a_name_counts_by_whole_words() {
        for (name, kind) in [
            ("read_file", ToolKind::Read),
            ("readFile", ToolKind::Read),
            ("mcp__files__delete_path", ToolKind::Delete),
            ("widget_delete", ToolKind::Delete),
            ("widget", ToolKind::Other),
            ("budget", ToolKind::Other),
            ("get_weather", ToolKind::Other),
            ("create_issue", ToolKind::Other),
            ("spread", ToolKind::Other),
            ("runner", ToolKind::Other),
            ("copy-file", ToolKind::Move),
            ("Bash", ToolKind::Execute),
            ("", ToolKind::Other),
            ("___", ToolKind::Other),
        ] {
            assert_eq!(infer_kind(None, ToolAnnotations::default(), name), kind, "{name}");
        }
    }

    #[test]
    fn declared_beats_annotated_beats_named() {
        let read_only = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
        assert_eq!(infer_kind(Some(ToolKind::Edit), read_only, "delete_file"), ToolKind::Edit);
        assert_eq!(infer_kind(None, read_only, "delete_file"), ToolKind::Read);
        let open = ToolAnnotations { open_world: Some(true), ..read_only };
        assert_eq!(infer_kind(None, open, "x"), ToolKind::Fetch);
        let destructive =
            ToolAnnotations { read_only: Some(false), destructive: Some(true), open_world: None };
        assert_eq!(infer_kind(None, destructive, "x"), ToolKind::Delete);
    }
}
