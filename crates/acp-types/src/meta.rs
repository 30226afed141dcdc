//! What a call tells beside the protocol's own fields: one object in `_meta`, always whole.
//!
//! It reads no clock: times come in as values.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json;
use crate::limits::MAX_META_BYTES;
use crate::schema::v1::Meta;
use crate::trace::TraceContext;

/// The key under which the object lies; an embedder puts its own in its place.
pub const DEFAULT_KEY: &str = "callboard";

/// Timing, progress, kinship and the end of a call.
///
/// It is sent whole under one key of `_meta` whenever it changes, because v1 clients keep no
/// metadata and v2 clients patch by top-level key
/// (<https://agentclientprotocol.com/protocol/v2/extensibility#metadata-patches>).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallMeta {
    /// When it began to run; nothing for a call that never ran.
    #[serde(skip_serializing_if = "Option::is_none", with = "epoch_ms")]
    pub started_at: Option<SystemTime>,
    /// Milliseconds that it ran, known at its end; 0 for a call that never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Milliseconds from its announcement to its start, or to its end if it never ran: streaming
    /// and waiting for permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// How far it is, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The group of calls of one model reply that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// The call that it tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Why it ended otherwise than by completing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<CallEndReason>,
    /// Whether it may have changed something, although it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_have_acted: Option<bool>,
    /// While its arguments arrive: the bytes that have come of those which raw input does not
    /// hold yet, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arriving: BTreeMap<String, u64>,
    /// The exit code of its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its command, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Bytes that its terminals wrote, known at its end; those that are not shown count too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// What was left out of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<OmittedCounts>,
    /// The message key of its title and the arguments, for clients that render their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Value>,
    /// The trace that it belongs to. Its keys go to the root of `_meta`, where they are reserved.
    #[serde(skip_serializing_if = "TraceContext::is_empty")]
    pub trace: TraceContext,
    /// What the tool adds under keys of its own. A field above wins over a key of its name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub custom: Map<String, Value>,
}

/// How far a call is, in units of its own.
///
/// In `_meta` it also has a `percent` where the total is known; reading ignores that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// What is done.
    pub current: f64,
    /// What there is to do, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Makes a progress of which only is known what is done.
    #[must_use]
    pub fn new(current: f64) -> Self {
        Self { current, total: None, message: None }
    }

    /// Adds what there is to do, where it is known.
    #[must_use]
    pub fn with_total(self, total: impl Into<Option<f64>>) -> Self {
        Self { total: total.into(), ..self }
    }

    /// Adds what it is doing.
    #[must_use]
    pub fn with_message(self, message: impl Into<Option<String>>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Returns the whole percents that are done, 0 to 100, where a total above zero is known.
    ///
    /// They are rounded down: 100 means that everything is done.
    #[must_use]
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|total| total.is_finite() && *total > 0.0)?;
        let done = (self.current * 100.0 / total).floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is whole and between 0 and 100"
        )]
        self.current.is_finite().then(|| done.clamp(0.0, 100.0) as u8)
    }

    /// Returns whether its numbers can be sent: JSON has no infinity and no NaN.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.current.is_finite() && self.total.is_none_or(f64::is_finite)
    }
}

/// Why a call ended otherwise than by completing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallEndReason {
    /// The user rejected it or stopped it alone.
    User,
    /// Its turn was cancelled.
    Turn,
    /// A rule or a mode forbids it, or no one could be asked for permission: the call's text says
    /// which.
    Permission,
    /// It took longer than it may.
    Timeout,
    /// The agent or the session was closing.
    Shutdown,
    /// It failed, or could not be carried out.
    Error,
    /// Nobody waited for it any more.
    Dropped,
}

impl CallEndReason {
    /// Returns one sentence for people, used where the protocol has no word for the reason.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::User => "Cancelled by the user.",
            Self::Turn => "Cancelled with its turn.",
            Self::Permission => "Not permitted.",
            Self::Timeout => "Ended because it took too long.",
            Self::Shutdown => "Ended because the session was closing.",
            Self::Error => "Ended by an error.",
            Self::Dropped => "Ended because nobody waited for it any more.",
        }
    }
}

/// What was left out of a document. Where the whole of an output was kept, its call shows a
/// resource link to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OmittedCounts {
    /// Bytes left out of raw input and raw output.
    #[serde(skip_serializing_if = "is_zero")]
    pub raw_bytes: u64,
    /// Secrets that were replaced, counted wherever they were shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub redacted: u64,
    /// Items of content left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub items: u64,
    /// Locations left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub locations: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CallMeta {
    /// Returns whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the `_meta` object: everything under `key`, in at most 2 KiB.
    ///
    /// What does not fit goes in this order: the custom keys, the title's arguments, the text of
    /// the progress, what arrives. The rest always fits, unless a caller puts whole texts into ids.
    #[must_use]
    pub fn to_meta(&self, key: &str) -> Meta {
        let mut object = self.to_object();
        if json::object_len(&object) > MAX_META_BYTES {
            object = self.to_bounded_object();
        }
        let mut meta = Meta::from_iter([(key.to_owned(), Value::Object(object))]);
        if !self.trace.is_empty()
            && let Ok(Value::Object(trace)) = serde_json::to_value(&self.trace)
        {
            meta.extend(trace);
        }
        meta
    }

    fn to_bounded_object(&self) -> Map<String, Value> {
        let mut fitting = self.clone();
        for shrink in [Self::drop_custom, Self::drop_title, Self::drop_message] {
            shrink(&mut fitting);
            let object = fitting.to_object();
            if json::object_len(&object) <= MAX_META_BYTES {
                return object;
            }
        }
        fitting.drop_arriving();
        fitting.to_object()
    }

    fn to_object(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(self) else {
            return Map::new();
        };
        if !self.custom.is_empty() {
            object.remove("custom");
        }
        if !self.trace.is_empty() {
            object.remove("trace");
        }
        let percent = self.progress.as_ref().and_then(Progress::percent);
        if let (Some(percent), Some(Value::Object(progress))) =
            (percent, object.get_mut("progress"))
        {
            progress.insert("percent".to_owned(), percent.into());
        }
        for (key, value) in &self.custom {
            object.entry(key.as_str()).or_insert_with(|| value.clone());
        }
        object
    }

    fn drop_custom(&mut self) {
        self.custom.clear();
    }

    fn drop_title(&mut self) {
        self.title = None;
    }

    fn drop_message(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.message = None;
        }
    }

    fn drop_arriving(&mut self) {
        self.arriving.clear();
    }

    /// Says for people why a call ended and what that means for the world, where the protocol
    /// has no word for it: the text that v1 shows of a cancelled call.
    #[must_use]
    pub fn end_message(&self) -> String {
        let why = self.reason.unwrap_or(CallEndReason::Dropped).description();
        match self.may_have_acted {
            Some(true) => format!("{why} It may have had effects already."),
            _ => why.to_owned(),
        }
    }
}

/// Milliseconds since the Unix epoch; a time before it is none.
mod epoch_ms {
    use super::{Duration, SystemTime};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        match since.and_then(|since| u64::try_from(since.as_millis()).ok()) {
            Some(millis) => serializer.serialize_some(&millis),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let millis = Option::<u64>::deserialize(deserializer)?;
        Ok(millis
            .and_then(|millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))))
    }
}

#[cfg(test)]
mod tests {
    use super::{CallEndReason, CallMeta, MAX_META_BYTES, Progress, TraceContext, json};
    use serde_json::{Value, json};
    use std::time::{Duration, SystemTime};

    #[test]
    fn everything_lies_under_one_key_but_the_trace() {
        let meta = CallMeta {
            started_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500)),
            duration_ms: Some(3),
            reason: Some(CallEndReason::Timeout),
            trace: TraceContext {
                traceparent: Some("00-1-2-01".to_owned()),
                ..TraceContext::default()
            },
            custom: json!({"mine": 1, "durationMs": "not mine"}).as_object().unwrap().clone(),
            ..CallMeta::default()
        };
        assert_eq!(
            Value::Object(meta.to_meta("k")),
            json!({
                "k": {"startedAt": 1500, "durationMs": 3, "reason": "timeout", "mine": 1},
                "traceparent": "00-1-2-01",
            })
        );
    }

    #[test]
    fn it_stays_under_its_bound() {
        let long = "x".repeat(MAX_META_BYTES);
        let meta = CallMeta {
            duration_ms: Some(1),
            progress: Some(Progress { current: 1.0, total: None, message: Some(long.clone()) }),
            title: Some(json!(long)),
            custom: json!({ "long": long }).as_object().unwrap().clone(),
            ..CallMeta::default()
        };
        let Value::Object(object) = meta.to_meta("k")["k"].clone() else { panic!("no object") };
        assert!(json::serialized_len(&object) <= MAX_META_BYTES);
        assert_eq!(object["durationMs"], 1);
        assert_eq!(object["progress"], json!({"current": 1.0}));
    }

    #[test]
    fn percents_are_told_where_the_total_is_known() {
        for (current, total, percent) in [
            (0.0, Some(3.0), Some(0)),
            (1.0, Some(3.0), Some(33)),
            (2.999, Some(3.0), Some(99)),
            (3.0, Some(3.0), Some(100)),
            (9.0, Some(3.0), Some(100)),
            (-1.0, Some(3.0), Some(0)),
            (1.0, None, None),
            (1.0, Some(0.0), None),
            (1.0, Some(-1.0), None),
            (f64::NAN, Some(1.0), None),
            (f64::INFINITY, Some(1.0), None),
            (1.0, Some(f64::INFINITY), None),
            (f64::MAX, Some(1.0), Some(100)),
        ] {
            let progress = Progress { current, total, message: None };
            assert_eq!(progress.percent(), percent, "{progress:?}");
            let meta = CallMeta { progress: Some(progress), ..CallMeta::default() };
            let told = &meta.to_meta("k")["k"]["progress"];
            assert_eq!(told.get("percent").and_then(Value::as_u64), percent.map(u64::from));
        }
    }

    #[test]
    fn it_round_trips() {
        let meta = CallMeta {
            started_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(7)),
            ..CallMeta::default()
        };
        let back: CallMeta = serde_json::from_value(serde_json::to_value(&meta).unwrap()).unwrap();
        assert_eq!(back, meta);
    }
}
