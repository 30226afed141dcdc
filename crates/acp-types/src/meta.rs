//! The metadata of a tool call, e.g. its times. The protocol has no fields for this metadata, so it
//! is sent as one object in `_meta`, and always as a whole.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json;
use crate::limits::{MAX_META_BYTES, MAX_META_KEY_BYTES};
use crate::schema::v1::Meta;
use crate::trace::TraceContext;

/// Default key of the object in `_meta`. An embedding program can choose another key.
pub const DEFAULT_KEY: &str = "callboard";

/// Returns a key of `_meta` in the form in which it is sent. A key that takes more than 64 bytes in
/// JSON is truncated.
#[must_use]
pub fn truncate_meta_key(key: &str) -> &str {
    json::prefix_within_escaped_len(key, MAX_META_KEY_BYTES)
}

/// Timing, progress, relations and end of a call.
///
/// Whenever a part of the metadata changes, all metadata is sent again under one key of `_meta`.
/// The reason is that v1 clients keep no metadata, and that v2 clients replace each top-level key
/// of `_meta` separately
/// (<https://agentclientprotocol.com/protocol/v2/extensibility#metadata-patches>).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CallMeta {
    /// Time at which the call started to run; `None` if it never ran.
    #[serde(skip_serializing_if = "Option::is_none", with = "epoch_ms")]
    pub started_at: Option<SystemTime>,
    /// Run time in milliseconds, set at the end; 0 for a call that never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Milliseconds from the announcement of the call to its start, or to its end if the call never
    /// ran. This time includes argument streaming and the wait for permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// Progress while the call runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Id of the call that started this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Id of the group to which this call belongs. The calls of one model reply form a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Id of the call that this call retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Reason why the call ended without completing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<CallEndReason>,
    /// Whether the call may have had effects although it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_have_acted: Option<bool>,
    /// Names of the arguments that are still streaming and that raw input does not contain yet,
    /// each with the number of bytes received so far.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arriving: BTreeMap<String, u64>,
    /// Exit code of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the command, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Number of bytes that were written to the terminals of the call, including bytes that are not
    /// shown. Set at the end of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Counts of the parts that were omitted from the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<OmittedCounts>,
    /// Message key and arguments of the title, for clients that render titles themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Value>,
    /// The trace context of the call. The keys of the trace context are placed at the root of
    /// `_meta`, where these keys are reserved.
    #[serde(skip_serializing_if = "TraceContext::is_empty")]
    pub trace: TraceContext,
    /// Additional keys that the tool sets. If a custom key has the same name as another field of
    /// this type, the other field takes precedence.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub custom: Map<String, Value>,
}

/// Progress of a call, in any unit.
///
/// If the total is known, the object in `_meta` also has a field `percent`, which deserialisation
/// ignores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// Number of finished units.
    pub current: f64,
    /// Total number of units, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Description of the current step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Creates the progress of a call whose total is not known.
    #[must_use]
    pub fn new(current: f64) -> Self {
        Self { current, total: None, message: None }
    }

    /// Sets the total, if it is known.
    #[must_use]
    pub fn with_total(self, total: impl Into<Option<f64>>) -> Self {
        Self { total: total.into(), ..self }
    }

    /// Sets the description of the current step.
    #[must_use]
    pub fn with_message(self, message: impl Into<Option<String>>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Returns the finished part of the total as a percentage from 0 to 100. Returns `None` if the
    /// total is not known or not above zero.
    ///
    /// The percentage is rounded down to a whole number, so 100 means that everything is done.
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

    /// Returns whether all numbers are finite. Other numbers cannot be sent, because JSON has no
    /// infinity and no NaN.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.current.is_finite() && self.total.is_none_or(f64::is_finite)
    }
}

/// The reason why a call ended without completing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallEndReason {
    /// The user rejected the call, or stopped only this call.
    User,
    /// The approver of an embedding program rejected the call without asking the user.
    Approver,
    /// The turn of the call was cancelled.
    Turn,
    /// A rule or a mode forbids the call, or no client could be asked for permission. The text of
    /// the call states which of these applies.
    Permission,
    /// The call exceeded its timeout.
    Timeout,
    /// The session was closed, or the agent ended.
    Shutdown,
    /// The call failed, or could not be run.
    Error,
    /// The caller stopped waiting for the call.
    Dropped,
}

impl CallEndReason {
    /// Returns a sentence for people, which is sent where the protocol has no field for the reason.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::User => "Cancelled by the user.",
            Self::Approver => "Rejected by the approver.",
            Self::Turn => "Cancelled with its turn.",
            Self::Permission => "Not permitted.",
            Self::Timeout => "Ended because it took too long.",
            Self::Shutdown => "Ended because the session or the agent ended.",
            Self::Error => "Ended by an error.",
            Self::Dropped => "Ended because the caller stopped waiting for it.",
        }
    }
}

/// Counts of the parts that were omitted from a document. If a whole output was stored in a file,
/// the call shows a resource link to that file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct OmittedCounts {
    /// Number of bytes omitted from raw input and raw output.
    #[serde(skip_serializing_if = "is_zero")]
    pub raw_bytes: u64,
    /// Number of redactions. A secret is counted at every place where it occurred.
    #[serde(skip_serializing_if = "is_zero")]
    pub redacted: u64,
    /// Number of omitted items of content.
    #[serde(skip_serializing_if = "is_zero")]
    pub items: u64,
    /// Number of omitted locations.
    #[serde(skip_serializing_if = "is_zero")]
    pub locations: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CallMeta {
    /// Returns whether there is no metadata, so that none is sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the `_meta` object. The object contains all metadata under `key` in at most 2 KiB,
    /// and the trace context at its root. The key is [truncated](truncate_meta_key).
    ///
    /// If the metadata is larger, fields are removed in this order: the custom keys, the title, the
    /// progress message, the sizes of streaming arguments. The other fields always fit, except if a
    /// caller puts whole texts into ids.
    #[must_use]
    pub fn to_meta(&self, key: &str) -> Meta {
        let mut object = self.to_object();
        if json::object_len(&object) > MAX_META_BYTES {
            object = self.to_bounded_object();
        }
        let mut meta =
            Meta::from_iter([(truncate_meta_key(key).to_owned(), Value::Object(object))]);
        if !self.trace.is_empty()
            && let Ok(Value::Object(trace)) = serde_json::to_value(&self.trace)
        {
            meta.extend(trace);
        }
        meta
    }

    fn to_bounded_object(&self) -> Map<String, Value> {
        let mut fitting = self.clone();
        for shrink in [Self::drop_custom, Self::drop_title, Self::drop_progress_message] {
            shrink(&mut fitting);
            let object = fitting.to_object();
            if json::object_len(&object) <= MAX_META_BYTES {
                return object;
            }
        }
        fitting.drop_streamed_argument_sizes();
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

    fn drop_progress_message(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.message = None;
        }
    }

    fn drop_streamed_argument_sizes(&mut self) {
        self.arriving.clear();
    }

    /// Returns a text for people: the reason why a call ended, and whether it may have had effects.
    /// In v1, a cancelled call shows this text, because v1 has no status for cancelled calls.
    #[must_use]
    pub fn end_reason_text(&self) -> String {
        let why = self.reason.unwrap_or(CallEndReason::Dropped).description();
        match self.may_have_acted {
            Some(true) => format!("{why} It may have had effects already."),
            _ => why.to_owned(),
        }
    }
}

/// Serialises a time as milliseconds since the Unix epoch. A time before the epoch is serialised as
/// `None`.
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
    fn all_metadata_except_the_trace_is_under_one_key() {
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
    fn metadata_is_reduced_to_its_size_limit() {
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
    fn percent_is_sent_if_the_total_is_known() {
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
            let sent = &meta.to_meta("k")["k"]["progress"];
            assert_eq!(sent.get("percent").and_then(Value::as_u64), percent.map(u64::from));
        }
    }

    #[test]
    fn metadata_round_trips_through_json() {
        let meta = CallMeta {
            started_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(7)),
            ..CallMeta::default()
        };
        let back: CallMeta = serde_json::from_value(serde_json::to_value(&meta).unwrap()).unwrap();
        assert_eq!(back, meta);
    }
}
