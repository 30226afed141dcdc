//! The arguments of a call while they stream: the complete fields, and the received size of the
//! other fields.
//!
//! The parser reads each byte once and keeps only the fields that are shown. Malformed JSON stops
//! the parser. The error is reported later, when the complete arguments are parsed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::limits::{MAX_PARTIAL_FIELD_BYTES, MAX_PARTIAL_FIELDS, MAX_PARTIAL_FIELDS_BYTES};

/// The arguments of a call: one JSON object that arrives in fragments.
///
/// ```
/// use acp_lifecycle::PartialArguments;
///
/// let mut arguments = PartialArguments::default();
/// assert!(!arguments.push(r#"{"path": "a.r"#));
/// assert!(arguments.push(r#"s", "content": "fn"#));
/// assert_eq!(arguments.complete_fields()["path"], "a.rs");
/// assert_eq!(arguments.partial_field_sizes()["content"], 3);
/// ```
#[derive(Debug, Clone, Default)]
pub struct PartialArguments {
    position: ParserPosition,
    key: String,
    /// Bytes of the current key or value, up to the maximum size of a shown field.
    token_bytes: Vec<u8>,
    /// Total size of the current key or value in bytes.
    len: usize,
    /// Number of open brackets in the value.
    depth: usize,
    /// Number of the current line of a streaming text. The first line has the number 1.
    text_line: u32,
    string: StringState,
    fields: Map<String, Value>,
    fields_len: usize,
    partial_field_bytes: BTreeMap<String, u64>,
}

/// The position of the next byte in the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ParserPosition {
    #[default]
    BeforeObject,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    Value,
    AfterValue,
    /// The object is complete or malformed.
    Finished,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    No,
    Yes,
    AfterBackslash,
}

impl PartialArguments {
    /// Parses the next fragment, which may end between any two characters. Returns whether the
    /// fragment completed a field of [`PartialArguments::complete_fields`].
    pub fn push(&mut self, fragment: &str) -> bool {
        let had = self.fields_len;
        fragment.bytes().for_each(|byte| self.parse_byte(byte));
        if self.position == ParserPosition::Value {
            self.record_partial_field_size();
        }
        self.fields_len > had
    }

    /// Returns the complete fields. Each field has at most 1 KiB, and all fields together have at
    /// most 4 KiB.
    #[must_use]
    pub fn complete_fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns the number of JSON bytes received for each field that is not in
    /// [`PartialArguments::complete_fields`].
    #[must_use]
    pub fn partial_field_sizes(&self) -> &BTreeMap<String, u64> {
        &self.partial_field_bytes
    }

    /// Returns the name of the text field that is still streaming, and the number of its current
    /// line. The first line has the number 1.
    #[must_use]
    pub fn streaming_field_name_and_line(&self) -> Option<(&str, u32)> {
        let is_text = self.position == ParserPosition::Value
            && self.depth == 0
            && self.string != StringState::No;
        is_text.then_some((&*self.key, self.text_line))
    }

    fn parse_byte(&mut self, byte: u8) {
        let is_space = byte.is_ascii_whitespace();
        match self.position {
            ParserPosition::BeforeObject if byte == b'{' => {
                self.position = ParserPosition::BeforeKey;
            }
            ParserPosition::BeforeKey if byte == b'"' => {
                self.begin_key_or_value(ParserPosition::Key, byte);
            }
            ParserPosition::Key => self.parse_key_byte(byte),
            ParserPosition::BeforeColon if byte == b':' => {
                self.position = ParserPosition::BeforeValue;
            }
            ParserPosition::BeforeValue
                if !is_space && !matches!(byte, b'}' | b']' | b',' | b':') =>
            {
                self.begin_key_or_value(ParserPosition::Value, byte);
                self.depth = usize::from(matches!(byte, b'{' | b'['));
            }
            ParserPosition::Value => self.parse_value_byte(byte),
            ParserPosition::AfterValue if byte == b',' => self.position = ParserPosition::BeforeKey,
            ParserPosition::Finished => {}
            _ if is_space => {}
            _ => self.position = ParserPosition::Finished,
        }
    }

    fn begin_key_or_value(&mut self, place: ParserPosition, byte: u8) {
        self.position = place;
        self.token_bytes.clear();
        self.len = 0;
        self.text_line = 1;
        self.string = if byte == b'"' { StringState::Yes } else { StringState::No };
        self.push_token_byte(byte);
    }

    fn push_token_byte(&mut self, byte: u8) {
        self.len += 1;
        if self.len <= MAX_PARTIAL_FIELD_BYTES {
            self.token_bytes.push(byte);
        }
    }

    fn parse_key_byte(&mut self, byte: u8) {
        self.push_token_byte(byte);
        if self.advance_string_state(byte) {
            // Ignore a key that is too long to be shown, because no tool has such a key.
            self.key = self
                .parse_token()
                .and_then(|key| key.as_str().map(str::to_owned))
                .unwrap_or_default();
            self.position = if self.key.is_empty() {
                ParserPosition::Finished
            } else {
                ParserPosition::BeforeColon
            };
        }
    }

    fn parse_value_byte(&mut self, byte: u8) {
        if self.string != StringState::No {
            self.push_token_byte(byte);
            let ends_line = (self.string, byte) == (StringState::AfterBackslash, b'n');
            self.text_line = self.text_line.saturating_add(ends_line.into());
            if self.advance_string_state(byte) && self.depth == 0 {
                self.end_value(ParserPosition::AfterValue);
            }
            return;
        }
        match byte {
            b',' if self.depth == 0 => return self.end_value(ParserPosition::BeforeKey),
            b'}' | b']' if self.depth == 0 => return self.end_value(ParserPosition::Finished),
            _ if self.depth == 0 && byte.is_ascii_whitespace() => {
                return self.end_value(ParserPosition::AfterValue);
            }
            b'"' => self.string = StringState::Yes,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.push_token_byte(byte);
        if self.depth == 0 && matches!(byte, b'}' | b']') {
            self.end_value(ParserPosition::AfterValue);
        }
    }

    /// Advances the parser by one byte of a string, and returns whether the byte ended the string.
    fn advance_string_state(&mut self, byte: u8) -> bool {
        self.string = match (self.string, byte) {
            (StringState::Yes, b'"') => StringState::No,
            (StringState::Yes, b'\\') => StringState::AfterBackslash,
            _ => StringState::Yes,
        };
        self.string == StringState::No
    }

    fn end_value(&mut self, place: ParserPosition) {
        self.position = place;
        let has_room = self.fields_len + self.len <= MAX_PARTIAL_FIELDS_BYTES;
        match self.parse_token().filter(|_| has_room) {
            Some(value) => {
                self.fields_len += self.len;
                self.partial_field_bytes.remove(&self.key);
                self.fields.insert(std::mem::take(&mut self.key), value);
            }
            None => self.record_partial_field_size(),
        }
    }

    fn record_partial_field_size(&mut self) {
        if self.partial_field_bytes.len() < MAX_PARTIAL_FIELDS
            || self.partial_field_bytes.contains_key(&self.key)
        {
            self.partial_field_bytes.insert(self.key.clone(), self.len as u64);
        }
    }

    fn parse_token(&self) -> Option<Value> {
        let is_kept = self.len == self.token_bytes.len();
        serde_json::from_slice(&self.token_bytes).ok().filter(|_| is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::PartialArguments;
    use crate::limits::{MAX_PARTIAL_FIELDS, MAX_PARTIAL_FIELDS_BYTES};
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use proptest::{collection::vec, sample::Index};
    use serde_json::{Map, Value, json};

    fn parse_in_one_fragment(text: &str) -> PartialArguments {
        let mut arriving = PartialArguments::default();
        arriving.push(text);
        arriving
    }

    #[test]
    fn complete_fields_are_parsed_and_partial_ones_measured() {
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
            let arriving = parse_in_one_fragment(text);
            assert_eq!(json!(arriving.complete_fields()), fields, "{text}");
            assert_eq!(json!(arriving.partial_field_sizes()), rest, "{text}");
        }
    }

    #[test]
    fn the_current_line_of_a_streaming_text_is_reported() {
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
            assert_eq!(
                parse_in_one_fragment(text).streaming_field_name_and_line(),
                line.map(|line| ("a", line)),
                "{text}"
            );
        }
        assert_eq!(
            parse_in_one_fragment(r#"{"b": "one\ntwo"#).streaming_field_name_and_line(),
            Some(("b", 2))
        );
    }

    #[test]
    fn memory_is_bounded_by_the_shown_fields() {
        let fields: Map<String, Value> =
            (0..200).map(|number| (format!("k{number}"), json!("x".repeat(900)))).collect();
        let arriving = parse_in_one_fragment(&json!(fields).to_string());
        let bytes: usize =
            arriving.complete_fields().values().map(|value| value.to_string().len()).sum();
        assert!(bytes <= MAX_PARTIAL_FIELDS_BYTES && arriving.complete_fields().len() == 4);
        assert_eq!(arriving.partial_field_sizes().len(), MAX_PARTIAL_FIELDS);
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
        fn fields_are_parsed_for_any_fragmentation(fields in vec(("[a-c\"\\\\]{1,3}", value()), 0..5), cuts in vec(any::<Index>(), 0..6), pretty in any::<bool>()) {
            let object = Value::Object(fields.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
            let ends: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut arriving = PartialArguments::default();
            for cut in cuts.windows(2) {
                arriving.push(&text[cut[0]..cut[1]]);
                for (key, value) in arriving.complete_fields() {
                    assert_eq!(object.get(key), Some(value));
                }
            }
            assert_eq!(&Value::Object(arriving.complete_fields().clone()), &object);
            assert!(arriving.partial_field_sizes().is_empty());
        }

        #[test]
        fn malformed_fragments_never_panic(fragments in vec("[{}\\[\\]\",:a1 \\\\\u{e9}]{0,12}", 0..6)) {
            let mut arriving = PartialArguments::default();
            for fragment in fragments {
                arriving.push(&fragment);
            }
        }
    }
}
