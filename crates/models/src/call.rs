//! One call a model makes, and the events that stream it.
//!
//! Knows no tool and parses no argument.

use std::iter;

use super::Event;

/// A call of a tool, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The model's id for the call. Some models repeat theirs.
    pub id: String,
    /// The tool's name, whether or not there is such a tool.
    pub name: String,
    /// The arguments: JSON text, if the model wrote it well.
    pub arguments: String,
}

impl Call {
    /// Streams the call: its start, its arguments in fragments of at most `bytes` (or one
    /// character, where that is longer), its end.
    pub(super) fn into_events(self, bytes: usize) -> impl Iterator<Item = Event> + Send {
        let Self { id, name, arguments } = self;
        let start = Event::CallStart { id: id.clone(), name };
        let end = Event::CallEnd { id: id.clone() };
        let pieces = fragments(arguments, bytes)
            .map(move |fragment| Event::CallArguments { id: id.clone(), fragment });
        iter::once(start).chain(pieces).chain(iter::once(end))
    }
}

fn fragments(text: String, bytes: usize) -> impl Iterator<Item = String> + Send {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = &text[at..];
        let one_character = rest.ceil_char_boundary(1);
        let fragment = &rest[..rest.floor_char_boundary(bytes).max(one_character)];
        at += fragment.len();
        (!fragment.is_empty()).then(|| fragment.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_cut_between_characters_and_join_to_the_whole() {
        let cases: [(&str, usize, &[&str]); 7] = [
            ("", 4, &[]),
            ("abcdef", 4, &["abcd", "ef"]),
            ("abcd", 4, &["abcd"]),
            ("abc", usize::MAX, &["abc"]),
            ("aé€b", 2, &["a", "é", "€", "b"]),
            ("aé€b", 4, &["aé", "€b"]),
            ("🎭🎭", 1, &["🎭", "🎭"]),
        ];
        for (text, bytes, expected) in cases {
            let got: Vec<_> = fragments(text.to_owned(), bytes).collect();
            assert_eq!(got, expected, "{text} by {bytes}");
        }
    }

    #[test]
    fn a_call_without_arguments_has_a_start_and_an_end_only() {
        let call = Call { id: "a".into(), name: "undo".into(), arguments: String::new() };
        let events: Vec<_> = call.into_events(1).collect();
        let start = Event::CallStart { id: "a".into(), name: "undo".into() };
        assert_eq!(events, [start, Event::CallEnd { id: "a".into() }]);
    }
}
