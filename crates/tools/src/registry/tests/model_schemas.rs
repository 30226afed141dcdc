//! Tests that the tools accept all calls that fit the schemas which models receive.
//!
//! `PROPTEST_CASES` sets the number of calls of each tool. `cargo xtask accept edit-tools` runs
//! many more calls.

use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::registry::{Registry, arguments};

/// Generates values that fit a schema; integers are from 0 to 2³²−1, because the schemas of models
/// have no number formats. Fails if the schema contains a keyword that models would have to
/// resolve, e.g. a reference.
fn any_value_of(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return prop::sample::select(values.clone()).boxed();
    }
    match schema["type"].as_str() {
        Some("string") => any::<String>().prop_map(Value::from).boxed(),
        Some("integer") => any::<u32>().prop_map(Value::from).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("array") => {
            let items = any_value_of(&schema["items"]);
            prop::collection::vec(items, 0..4).prop_map(Value::from).boxed()
        }
        Some("object") => any_object_of(schema).prop_map(Value::from).boxed(),
        _ => panic!("a model cannot know the type of {schema}"),
    }
}

/// Generates objects with all required fields and any of the others.
fn any_object_of(schema: &Value) -> impl Strategy<Value = Map<String, Value>> + use<> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, field)| {
            let is_required = required.contains(&Value::from(&*name));
            let value = any_value_of(&field);
            let is_given = if is_required { Just(true).boxed() } else { any::<bool>().boxed() };
            (is_given, value).prop_map(move |(is_given, it)| is_given.then(|| (name.clone(), it)))
        })
        .collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_call_that_fits_the_schema_of_a_model_is_accepted_as_it_is(calls in any_calls()) {
        let registry = all_tools();
        for (name, args) in calls {
            let entry = registry.find(&name).unwrap();
            let normalised = arguments::normalise(entry.schema(), &args);
            let normalised = normalised.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(normalised.notes.is_empty(), "{name}: {:?}", normalised.notes);
            prop_assert_eq!(&normalised.args, &args);
            prop_assert!(entry.tool.accepts_unchanged(&args), "{} refuses {}", name, args);
        }
    }
}

fn all_tools() -> Registry {
    #[cfg_attr(not(feature = "web"), expect(unused_mut, reason = "only the web tools are added"))]
    let mut registry = Registry::builtin();
    #[cfg(feature = "web")]
    registry.add_web_tools(None);
    registry
}

/// Generates a call of each built-in tool.
fn any_calls() -> impl Strategy<Value = Vec<(String, Value)>> {
    let registry = all_tools();
    let calls = registry.definitions_for_model().map(|tool| {
        let name = tool.spec.name.into_owned();
        any_value_of(&tool.input_schema).prop_map(move |args| (name.clone(), args))
    });
    calls.collect::<Vec<_>>()
}
