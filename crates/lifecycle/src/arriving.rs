//! The arguments of a call while they stream: which are there, and how much of the rest.
//!
//! It reads each byte once and keeps no more than it shows. What is broken is found when the
//! arguments are whole and read by a parser; here it only ends what can be told.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::limits::{ARRIVING_BYTES, ARRIVING_FIELD_BYTES, ARRIVING_FIELDS};

/// The arguments of a call, one JSON object, of which fragments arrive in order.
///
/// ```
/// use acp_lifecycle::Arriving;
///
/// let mut arguments = Arriving::default();
/// assert!(!arguments.push(r#"{"path": "a.r"#));
/// assert!(arguments.push(r#"s", "content": "fn"#));
/// assert_eq!(arguments.fields()["path"], "a.rs");
/// assert_eq!(arguments.rest()["content"], 3);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Arriving {
    place: Place,
    key: String,
    /// The key or value that is being read, as long as it is short enough to be shown.
    token: Vec<u8>,
    /// Bytes of that key or value.
    len: usize,
    /// Brackets that are open within the value.
    depth: usize,
    /// The line that has come of a value which is a text, from 1.
    line: u32,
    string: InString,
    fields: Map<String, Value>,
    fields_len: usize,
    rest: BTreeMap<String, u64>,
}

/// Where in the object the next byte stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeObject,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    Value,
    AfterValue,
    /// The object is whole, or no object.
    Done,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum InString {
    #[default]
    No,
    Yes,
    AfterBackslash,
}

impl Arriving {
    /// Takes the next fragment, cut anywhere between two characters. Returns whether a field of
    /// [`Arriving::fields`] was finished by it.
    pub fn push(&mut self, fragment: &str) -> bool {
        let had = self.fields_len;
        fragment.bytes().for_each(|byte| self.byte(byte));
        if self.place == Place::Value {
            self.note_rest();
        }
        self.fields_len > had
    }

    /// Returns the fields that are whole and at most 1 KiB each, 4 KiB together.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns how many bytes of JSON have come of each field that is not among
    /// [`Arriving::fields`].
    #[must_use]
    pub fn rest(&self) -> &BTreeMap<String, u64> {
        &self.rest
    }

    /// Returns the field that is a text and not whole yet, and the line of it, from 1, that has come.
    #[must_use]
    pub fn text(&self) -> Option<(&str, u32)> {
        let is_text = self.place == Place::Value && self.depth == 0 && self.string != InString::No;
        is_text.then_some((&*self.key, self.line))
    }

    fn byte(&mut self, byte: u8) {
        let is_space = byte.is_ascii_whitespace();
        match self.place {
            Place::BeforeObject if byte == b'{' => self.place = Place::BeforeKey,
            Place::BeforeKey if byte == b'"' => self.begin(Place::Key, byte),
            Place::Key => self.key_byte(byte),
            Place::BeforeColon if byte == b':' => self.place = Place::BeforeValue,
            Place::BeforeValue if !is_space && !matches!(byte, b'}' | b']' | b',' | b':') => {
                self.begin(Place::Value, byte);
                self.depth = usize::from(matches!(byte, b'{' | b'['));
            }
            Place::Value => self.value_byte(byte),
            Place::AfterValue if byte == b',' => self.place = Place::BeforeKey,
            Place::Done => {}
            _ if is_space => {}
            _ => self.place = Place::Done,
        }
    }

    fn begin(&mut self, place: Place, byte: u8) {
        self.place = place;
        self.token.clear();
        self.len = 0;
        self.line = 1;
        self.string = if byte == b'"' { InString::Yes } else { InString::No };
        self.keep(byte);
    }

    fn keep(&mut self, byte: u8) {
        self.len += 1;
        if self.len <= ARRIVING_FIELD_BYTES {
            self.token.push(byte);
        }
    }

    fn key_byte(&mut self, byte: u8) {
        self.keep(byte);
        if self.ends_string(byte) {
            // A key too long to be shown is no key of a tool.
            self.key =
                self.parse().and_then(|key| key.as_str().map(str::to_owned)).unwrap_or_default();
            self.place = if self.key.is_empty() { Place::Done } else { Place::BeforeColon };
        }
    }

    fn value_byte(&mut self, byte: u8) {
        if self.string != InString::No {
            self.keep(byte);
            let ends_line = (self.string, byte) == (InString::AfterBackslash, b'n');
            self.line = self.line.saturating_add(ends_line.into());
            if self.ends_string(byte) && self.depth == 0 {
                self.end_value(Place::AfterValue);
            }
            return;
        }
        match byte {
            b',' if self.depth == 0 => return self.end_value(Place::BeforeKey),
            b'}' | b']' if self.depth == 0 => return self.end_value(Place::Done),
            _ if self.depth == 0 && byte.is_ascii_whitespace() => {
                return self.end_value(Place::AfterValue);
            }
            b'"' => self.string = InString::Yes,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.keep(byte);
        if self.depth == 0 && matches!(byte, b'}' | b']') {
            self.end_value(Place::AfterValue);
        }
    }

    /// Goes one byte on in a string, and returns whether that ended it.
    fn ends_string(&mut self, byte: u8) -> bool {
        self.string = match (self.string, byte) {
            (InString::Yes, b'"') => InString::No,
            (InString::Yes, b'\\') => InString::AfterBackslash,
            _ => InString::Yes,
        };
        self.string == InString::No
    }

    fn end_value(&mut self, place: Place) {
        self.place = place;
        let has_room = self.fields_len + self.len <= ARRIVING_BYTES;
        match self.parse().filter(|_| has_room) {
            Some(value) => {
                self.fields_len += self.len;
                self.rest.remove(&self.key);
                self.fields.insert(std::mem::take(&mut self.key), value);
            }
            None => self.note_rest(),
        }
    }

    fn note_rest(&mut self) {
        if self.rest.len() < ARRIVING_FIELDS || self.rest.contains_key(&self.key) {
            self.rest.insert(self.key.clone(), self.len as u64);
        }
    }

    fn parse(&self) -> Option<Value> {
        let is_kept = self.len == self.token.len();
        serde_json::from_slice(&self.token).ok().filter(|_| is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::Arriving;
    use crate::limits::{ARRIVING_BYTES, ARRIVING_FIELDS};
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use proptest::{collection::vec, sample::Index};
    use serde_json::{Map, Value, json};

    fn arrive(text: &str) -> Arriving {
        let mut arriving = Arriving::default();
        arriving.push(text);
        arriving
    }

    #[test]
    fn what_is_whole_is_told_and_the_rest_is_measured() {
        let long = "x".repeat(2000);
        for (text, fields, rest) in [
            ("", json!({}), json!({})),
            ("{", json!({}), json!({})),
            (r#"{"a"#, json!({}), json!({})),
            (r#"{"a": "#, json!({}), json!({})),
            (r#"{"a": 12"#, json!({}), json!({"a": 2})),
            (r#"{"a": 12 "#, json!({"a": 12}), json!({})),
            (r#"{"a": 12, "b": "\"}"#, json!({"a": 12}), json!({"b": 4})),
            (r#"{"a": [1, {"x": "]"}]"#, json!({"a": [1, {"x": "]"}]}), json!({})),
            (r#"{"a": null, "b": {"c": tr"#, json!({"a": null}), json!({"b": 8})),
            (&format!(r#"{{"a": "{long}", "b": 1}}"#), json!({"b": 1}), json!({"a": 2002})),
            (r#"{"a": nonsense, "b": 1}"#, json!({"b": 1}), json!({"a": 8})),
            ("[1]", json!({}), json!({})),
            (r#"{"a": 1} {"b": 2}"#, json!({"a": 1}), json!({})),
            (r#"{"a" 1, "b": 2}"#, json!({}), json!({})),
            (r#"{"a": }"#, json!({}), json!({})),
            (r#"{"a": 1], "b": 2}"#, json!({"a": 1}), json!({})),
            (r#"{"a": ]]], "b": 2}"#, json!({}), json!({})),
        ] {
            let arriving = arrive(text);
            assert_eq!(json!(arriving.fields()), fields, "{text}");
            assert_eq!(json!(arriving.rest()), rest, "{text}");
        }
    }

    #[test]
    fn the_line_is_told_that_has_come_of_a_text() {
        for (text, line) in [
            (r#"{"a": "#, None),
            (r#"{"a": ""#, Some(1)),
            (r#"{"a": "one\ntwo"#, Some(2)),
            (r#"{"a": "one\n\"\\n\n"#, Some(3)),
            (r#"{"a": "one\ntwo\"#, Some(2)),
            (r#"{"a": "one\ntwo""#, None),
            (r#"{"b": "one\n", "a": "two"#, Some(1)),
            (r#"{"a": ["one\n"#, None),
            (r#"{"a": 12"#, None),
        ] {
            assert_eq!(arrive(text).text(), line.map(|line| ("a", line)), "{text}");
        }
        assert_eq!(arrive(r#"{"b": "one\ntwo"#).text(), Some(("b", 2)));
    }

    #[test]
    fn it_keeps_no_more_than_it_shows() {
        let fields: Map<String, Value> =
            (0..200).map(|number| (format!("k{number}"), json!("x".repeat(900)))).collect();
        let arriving = arrive(&json!(fields).to_string());
        let bytes: usize = arriving.fields().values().map(|value| value.to_string().len()).sum();
        assert!(bytes <= ARRIVING_BYTES && arriving.fields().len() == 4);
        assert_eq!(arriving.rest().len(), ARRIVING_FIELDS);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\{}\\[\\],:\u{e9}\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                vec(("[a-c\"\\\\]{1,3}", inner), 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn however_it_is_cut_all_fields_arrive(fields in vec(("[a-c\"\\\\]{1,3}", value()), 0..5), cuts in vec(any::<Index>(), 0..6), pretty in any::<bool>()) {
            let object = Value::Object(fields.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
            let ends: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut arriving = Arriving::default();
            for cut in cuts.windows(2) {
                arriving.push(&text[cut[0]..cut[1]]);
                for (key, value) in arriving.fields() {
                    assert_eq!(object.get(key), Some(value));
                }
            }
            assert_eq!(&Value::Object(arriving.fields().clone()), &object);
            assert!(arriving.rest().is_empty());
        }

        #[test]
        fn nothing_panics(fragments in vec("[{}\\[\\]\",:a1 \\\\\u{e9}]{0,12}", 0..6)) {
            let mut arriving = Arriving::default();
            for fragment in fragments {
                arriving.push(&fragment);
            }
        }
    }
}
