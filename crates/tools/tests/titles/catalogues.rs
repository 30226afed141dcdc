//! Tests that each catalogue has the same messages as the English catalogue. Each message must use
//! exactly the same variables.

use std::collections::{BTreeMap, BTreeSet};

use acp_tools::CATALOGUES;
use fluent_syntax::ast::{Entry, Resource};
use fluent_syntax::{parser, serializer};
use pretty_assertions::assert_eq;

/// Returns the variables of each message. The keys of the map are the keys of the messages.
fn variables(messages: &str) -> BTreeMap<String, BTreeSet<String>> {
    let resource = parser::parse(messages).expect("the catalogue is valid");
    let messages = resource.body.into_iter().filter_map(|entry| match entry {
        Entry::Message(message) => {
            let key = message.id.name.to_owned();
            let text = serializer::serialize(&Resource { body: vec![Entry::Message(message)] });
            let names = text.split('$').skip(1).map(|rest| {
                let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
                rest.chars().take_while(|c| is_name(*c)).collect()
            });
            Some((key, names.collect()))
        }
        _ => None,
    });
    messages.collect()
}

#[test]
fn every_locale_has_every_message_with_the_same_variables() {
    let (locale, english) = CATALOGUES[0];
    let english = variables(english);
    assert_eq!(locale, "en");
    assert!(english.len() > 20 && english["read-file-lines"].contains("last"));
    for (locale, messages) in CATALOGUES {
        assert_eq!(variables(messages), english, "{locale}");
    }
}
