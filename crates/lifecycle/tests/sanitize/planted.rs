//! Generators of random texts and JSON values that contain secrets, both plain and encoded.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;
use serde_json::{Map, Value};

/// A part of a generated text.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Noise(String),
    Secret(Index, Form),
}

/// The form in which a secret appears.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Plain,
    Json,
    Percent,
    /// Base64 of the secret with some bytes before and after the secret.
    Base64 {
        before: usize,
        after: usize,
    },
}

/// A JSON value that is not rendered yet.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Leaf(Value),
    /// The digits of a secret as a number, or null if the secret does not consist of digits.
    Number(Index),
    Text(Vec<Part>),
    /// A text repeated many times.
    Long(Vec<Part>, usize),
    Array(Vec<Self>, usize),
    Object(Vec<(Vec<Part>, Self)>),
}

/// Generates secrets of many kinds. Some secrets are plain, some consist of few distinct letters so
/// that they overlap, and some contain characters that must be escaped.
pub(crate) fn secrets() -> impl Strategy<Value = Vec<String>> {
    let secret = prop_oneof![
        "[a-zA-Z0-9]{8,24}",
        "[ab]{8,10}",
        "(ab){4,7}",
        "[1-9][0-9]{7,11}",
        "[!-~]{8,20}",
        "[a-c\"\\\\\n\t/+?%äü😀]{8,12}",
    ];
    let is_secret = |secret: &String| secret.trim() == secret && secret.len() >= 8;
    vec(secret.prop_filter("no secret", is_secret), 1..4)
}

pub(crate) fn text() -> impl Strategy<Value = Vec<Part>> {
    let form = prop_oneof![
        5 => Just(Form::Plain),
        1 => Just(Form::Json),
        1 => Just(Form::Percent),
        1 => (0..4_usize, 0..4_usize).prop_map(|(before, after)| Form::Base64 { before, after }),
    ];
    let part = prop_oneof![
        "[a-c0-9 ./:\"\\\\\näü😀]{0,6}".prop_map(Part::Noise),
        (any::<Index>(), form).prop_map(|(secret, form)| Part::Secret(secret, form)),
    ];
    vec(part, 0..6)
}

pub(crate) fn value() -> impl Strategy<Value = Plan> {
    let leaf = prop_oneof![
        20 => any::<i64>().prop_map(|number| Plan::Leaf(number.into())),
        10 => any::<bool>().prop_map(|is| Plan::Leaf(is.into())),
        10 => Just(Plan::Leaf(Value::Null)),
        10 => any::<Index>().prop_map(Plan::Number),
        80 => text().prop_map(Plan::Text),
        1 => (text(), 1..6_000_usize).prop_map(|(text, times)| Plan::Long(text, times)),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let times = prop_oneof![60 => Just(1_usize), 1 => 1..1_000_usize];
        prop_oneof![
            (vec(inner.clone(), 0..5), times).prop_map(|(items, times)| Plan::Array(items, times)),
            vec((text(), inner), 0..5).prop_map(Plan::Object),
        ]
    })
}

/// Renders a text.
pub(crate) fn write(parts: &[Part], secrets: &[String]) -> String {
    parts.iter().map(|part| one(part, secrets)).collect()
}

/// Renders a text in chunks, with one random split in every part.
pub(crate) fn pieces(parts: &[Part], secrets: &[String], cuts: &[Index]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (at, part) in parts.iter().enumerate() {
        let mut text = one(part, secrets);
        let cut = cuts.get(at % cuts.len().max(1)).map_or(0, |cut| cut.index(text.len() + 1));
        let cut = (0..=cut).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let rest = text.split_off(cut);
        if let Some(last) = pieces.last_mut() {
            last.push_str(&text);
        }
        pieces.push(rest);
    }
    pieces
}

fn one(part: &Part, secrets: &[String]) -> String {
    match part {
        Part::Noise(noise) => noise.clone(),
        Part::Secret(which, form) => {
            let secret = which.get(secrets);
            match form {
                Form::Plain => secret.clone(),
                Form::Json => inside(secret),
                Form::Percent => percent(secret),
                Form::Base64 { before, after } => {
                    BASE64.encode(format!("{}{secret}{}", "-".repeat(*before), ".".repeat(*after)))
                }
            }
        }
    }
}

pub(crate) fn json(plan: &Plan, secrets: &[String]) -> Value {
    match plan {
        Plan::Leaf(value) => value.clone(),
        Plan::Number(which) => {
            let number = which.get(secrets).parse::<u64>();
            number.map_or(Value::Null, Value::from)
        }
        Plan::Text(parts) => write(parts, secrets).into(),
        Plan::Long(parts, times) => write(parts, secrets).repeat(*times).into(),
        Plan::Array(items, times) => {
            let items: Vec<_> = items.iter().map(|item| json(item, secrets)).collect();
            items.iter().cycle().take(items.len() * times).cloned().collect()
        }
        Plan::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| (write(key, secrets), json(value, secrets)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Returns the texts that must never be visible: each secret in plain, escaped and encoded form.
pub(crate) fn needles(secrets: &[String]) -> Vec<String> {
    let mut needles = Vec::new();
    for secret in secrets {
        needles.extend([secret.clone(), inside(secret), inside(&inside(secret)), percent(secret)]);
        for before in 0..3 {
            // Omit the characters that also depend on the neighbouring bytes.
            let encoded = BASE64.encode(format!("{}{secret}", "-".repeat(before)));
            let own = (before * 8).div_ceil(6)..(before + secret.len()) * 8 / 6;
            needles.push(encoded[own].to_owned());
        }
    }
    needles
}

fn inside(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => write!(encoded, "%{byte:02X}").unwrap(),
        }
    }
    encoded
}
