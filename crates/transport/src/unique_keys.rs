//! JSON values without duplicate keys in objects.
//!
//! Parsers disagree about an object with duplicate keys, e.g. serde_json keeps the last value. A
//! check of the result of one parser may therefore be wrong for the result of another parser.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// A value in which no object, at any depth, has a duplicate key.
pub(crate) struct UniqueKeyValue(pub(crate) Value);

impl<'de> Deserialize<'de> for UniqueKeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeyVisitor).map(Self)
    }
}

struct UniqueKeyVisitor;

impl<'de> Visitor<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeyValue(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = members.next_key()? {
            match values.entry::<String>(key) {
                Entry::Occupied(_) => return Err(A::Error::custom("duplicate key")),
                Entry::Vacant(entry) => {
                    entry.insert(members.next_value::<UniqueKeyValue>()?.0);
                }
            }
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_value_equals_the_value_that_serde_json_parses() {
        for text in [
            "null",
            "true",
            "[0, -1, 18446744073709551615, -9223372036854775808, 1e3, 0.5, -0.0]",
            r#"{"b": {"": [[], {}]}, "a": "\u00e9\ud83d\ude00", "A": null}"#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            let UniqueKeyValue(value) = serde_json::from_str(text).unwrap();
            assert_eq!(value, expected, "{text}");
        }
    }

    #[test]
    fn a_duplicate_key_is_an_error_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"\u0061":1}}]"#] {
            assert!(serde_json::from_str::<UniqueKeyValue>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<UniqueKeyValue>(r#"[{"a":1},{"a":{"a":1}}]"#).is_ok());
    }
}
