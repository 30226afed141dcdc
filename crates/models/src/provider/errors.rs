//! Classification of provider errors, with messages for the user.

use std::{
    error::Error as _,
    time::{Duration, SystemTime},
};

use callboard_text::escape_invisible;
use rig_core::{
    ProviderResponseError,
    error::ProviderError,
    http_client::{self, HeaderMap},
};
use serde_json::Value;

use super::ApiKey;
use crate::{ModelError, ModelErrorKind, ModelEvent, ModelStopReason, limits};

/// Error message for a stream that ends before the reply is complete.
pub(super) const CUT_OFF: &str = "the reply was cut off";

/// The reason why a request got no response, with a message for the user.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(super) struct RequestFailure {
    pub(super) kind: ModelErrorKind,
    pub(super) text: String,
}

impl RequestFailure {
    pub(super) fn new(kind: ModelErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// Converts an error of a request to the last events of the reply. If a content filter has refused
/// the request, the reply ends with a refusal, because every later request with the same messages
/// would be refused too. The reason then precedes the refusal as a thought. The events never
/// contain the key.
pub(super) fn final_events(error: &ProviderError, key: Option<&ApiKey>) -> Vec<ModelEvent> {
    let is_refusal = error.provider_response().is_some_and(is_content_refusal);
    let error = from_provider_error(error, key);
    if !is_refusal {
        return vec![ModelEvent::Error(error)];
    }
    let reason = format!("A content filter of the provider refused the request: {error}");
    vec![ModelEvent::Thought(reason), ModelEvent::Stop(ModelStopReason::Refusal)]
}

/// Returns whether a server reports that a content filter has refused the request. The library
/// recognises the reports of Gemini.
fn is_content_refusal(response: &ProviderResponseError) -> bool {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let paths = ["/error/code", "/response/error/code", "/code"];
    let code = paths.iter().find_map(|path| body.pointer(path)?.as_str());
    match code {
        _ if response.refusal => true,
        // OpenRouter also reports this code for requests that do not match its schema.
        Some("invalid_prompt") => response.body.contains("flagged"),
        Some(code) => CONTENT_FILTER_CODES.contains(&code),
        None => false,
    }
}

/// Converts an error of a request. The message of the result never contains the key.
pub(super) fn from_provider_error(error: &ProviderError, key: Option<&ApiKey>) -> ModelError {
    let error = match error {
        ProviderError::Http(error) => from_http_error(error),
        ProviderError::Truncated => transient_error(CUT_OFF),
        ProviderError::Json(error) => {
            transient_error(format!("the server sent an invalid response: {error}"))
        }
        ProviderError::Request(_) | ProviderError::UnsupportedOption(_) => {
            let kind = match error {
                ProviderError::Request(_) => ModelErrorKind::InvalidRequest,
                _ => ModelErrorKind::Other,
            };
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            ModelError::new(kind, format!("cannot create the request: {cause}"))
        }
        _ => match error.provider_response() {
            Some(response) => from_error_response(response),
            None => classify_failure_text(&error.to_string()),
        },
    };
    redacted_single_line(error, key)
}

/// Prepares an error message for display. The key is redacted before the text is truncated, so that
/// no part of the key remains.
pub(super) fn redacted_single_line(mut error: ModelError, key: Option<&ApiKey>) -> ModelError {
    if let Some(key) = key {
        error.message = error.message.replace(key.expose(), "[key]");
    }
    error.message = visible_single_line(&error.message);
    error
}

/// Classifies a failure that a provider reports as text inside a reply. The caller must redact the
/// result.
pub(super) fn classify_failure_text(text: &str) -> ModelError {
    ModelError::new(classify_error(None, text), text)
}

pub(super) fn transient_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Transient, message)
}

fn other_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Other, message)
}

fn from_http_error(error: &http_client::Error) -> ModelError {
    match error {
        http_client::Error::Instance(error) => match error.downcast_ref::<RequestFailure>() {
            Some(RequestFailure { kind: fault, text }) => {
                ModelError { kind: *fault, ..transient_error(text.clone()) }
            }
            None => transient_error(error.to_string()),
        },
        http_client::Error::InvalidContentType(kind) => other_error(format!(
            "the server answered with {}, which is no stream of events: is the address right?",
            kind.to_str().unwrap_or("an unknown type")
        )),
        http_client::Error::StreamEnded => transient_error(CUT_OFF),
        error => other_error(error.to_string()),
    }
}

fn from_error_response(response: &ProviderResponseError) -> ModelError {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let status = response.status.map(|status| status.as_u16()).filter(|status| *status >= 300);
    // Gateways report the status of their upstream server in the error body.
    let status = status.or_else(|| upstream_status_in_body(&body));
    let message = match find_error_message(&body) {
        Some(text) => text,
        None if response.body.trim_start().starts_with('<') => {
            "the server responded with an HTML page: is the address right?".to_owned()
        }
        None if response.body.trim().is_empty() => default_message_for_status(status),
        None => response.body.clone(),
    };
    let headers = response.headers.as_ref();
    let fault = match classify_error(status, &response.body) {
        ModelErrorKind::Other if status.is_none() && response.is_retryable() => {
            ModelErrorKind::Transient
        }
        fault => fault,
    };
    let retry_after = requested_retry_delay(headers, &body, SystemTime::now());
    ModelError { kind: fault, message, status, retry_after }
}

fn default_message_for_status(status: Option<u16>) -> String {
    match status {
        Some(300..=399) => "the server sends elsewhere: is the address right?".to_owned(),
        Some(404) => "the server did not find this path: is the address right?".to_owned(),
        _ => "the server gave no reason".to_owned(),
    }
}

fn upstream_status_in_body(body: &Value) -> Option<u16> {
    let error = body.get("error")?;
    let code = error.get("code").or_else(|| error.get("status_code"))?.as_u64()?;
    u16::try_from(code).ok().filter(|code| (300..600).contains(code))
}

/// Returns the error message from the JSON of any dialect.
fn find_error_message(body: &Value) -> Option<String> {
    let body = if let Value::Array(items) = body { items.first()? } else { body };
    let paths = ["/error/message", "/message", "/error", "/detail", "/response/error/message"];
    let text = paths.iter().find_map(|path| body.pointer(path)?.as_str())?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

/// Error codes which mean that a content filter has refused the request.
const CONTENT_FILTER_CODES: [&str; 3] = [
    "content_filter",           // Azure OpenAI and compatible servers
    "content_policy_violation", // gateways
    "data_inspection_failed",   // Alibaba Cloud
];

/// Lower-case phrases which mean that the request was too long: error codes, or parts of messages.
const CONTEXT_TOO_LONG_PHRASES: [&str; 21] = [
    "context_length_exceeded",           // OpenAI and many others
    "maximum context length",            // OpenAI, DeepSeek, OpenRouter, vLLM
    "exceeds the context window",        // OpenAI Responses
    "prompt is too long",                // Anthropic
    "exceed context limit",              // Anthropic
    "request_too_large",                 // Anthropic
    "input token count",                 // Gemini
    "exceed_context_size",               // llama.cpp
    "available context size",            // llama.cpp
    "maximum model length",              // vLLM
    "context the overflows",             // LM Studio
    "greater than the context length",   // LM Studio
    "context length exceeded",           // LM Studio and others
    "exceeds the context length",        // Ollama
    "exceeds maximum context",           // Mistral
    "too large for model",               // Mistral
    "maximum prompt length",             // xAI
    "reduce the length of the messages", // Groq
    "input is too long",                 // Bedrock
    "too many input tokens",             // gateways
    "tokens exceed",                     // gateways
];

/// Lower-case phrases which mean that the model does not accept images. The status of such a
/// response may be 404 or 500.
const IMAGE_PHRASES: [&str; 3] = [
    "support image input",           // OpenRouter and Ollama
    "image input is not supported",  // llama.cpp
    "data required for image input", // Ollama
];

/// Lower-case phrases which mean that the key is missing, invalid or lacks a permission.
const AUTH_PHRASES: [&str; 6] = [
    "invalid_api_key",
    "api key not valid",
    "api_key_invalid",
    "authentication_error",
    "permission_error",
    "incorrect api key",
];

/// Lower-case phrases which mean that the account has no credit. For such an account, a retry would
/// fail as well.
const QUOTA_PHRASES: [&str; 4] = [
    "insufficient_quota",
    "billing_hard_limit",
    "credit balance is too low",
    "insufficient balance",
];

/// Lower-case phrases which mean that an error is transient. These phrases classify errors without
/// a status.
const TRANSIENT_PHRASES: [&str; 14] = [
    "overloaded",
    "rate_limit",
    "rate limit",
    "too many requests",
    "server_error",
    "api_error",
    "internal_error",
    "internal server error",
    "timeout",
    "timed out",
    "unavailable",
    "resource_exhausted",
    "slow_down",
    "try again",
];

fn classify_error(status: Option<u16>, text: &str) -> ModelErrorKind {
    let text = text.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let by_status = status.map(ModelErrorKind::from_status);
    match by_status {
        Some(ModelErrorKind::Auth) => ModelErrorKind::Auth,
        _ if has(&QUOTA_PHRASES) => ModelErrorKind::Other,
        Some(ModelErrorKind::Transient) if status == Some(429) => ModelErrorKind::Transient,
        _ if has(&CONTEXT_TOO_LONG_PHRASES) => ModelErrorKind::ContextTooLong,
        _ if has(&AUTH_PHRASES) => ModelErrorKind::Auth,
        _ if has(&IMAGE_PHRASES) => ModelErrorKind::InvalidRequest,
        Some(fault) => fault,
        None if has(&TRANSIENT_PHRASES) => ModelErrorKind::Transient,
        None => ModelErrorKind::Other,
    }
}

/// Returns the time to wait before a retry, from the headers or from Gemini's error details. A date
/// is compared with the server's clock if the response has a `Date` header.
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>)
fn requested_retry_delay(
    headers: Option<&HeaderMap>,
    body: &Value,
    now: SystemTime,
) -> Option<Duration> {
    let header = |name: &str| headers?.get(name)?.to_str().ok().map(str::trim);
    let number = |name| header(name)?.parse::<f64>().ok();
    let date = |name| httpdate::parse_http_date(header(name)?).ok();
    let until = || {
        let wait = date("retry-after")?.duration_since(date("date").unwrap_or(now));
        Some(wait.unwrap_or_default().as_secs_f64())
    };
    let seconds = number("retry-after-ms")
        .map(|milliseconds| milliseconds / 1_000.0)
        .or_else(|| number("retry-after"))
        .or_else(until)
        .or_else(|| gemini_retry_delay(body))?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    Some(wait.min(limits::MAX_RETRY_AFTER))
}

fn gemini_retry_delay(body: &Value) -> Option<f64> {
    let body = if let Value::Array(items) = body { items.first()? } else { body };
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    delay.strip_suffix('s')?.parse().ok()
}

/// Prepares a server's text for display: the result is one line of limited length without control
/// characters. Invisible characters are escaped.
pub(super) fn visible_single_line(text: &str) -> String {
    let blank = |character: char| if character.is_control() { ' ' } else { character };
    let text: String = text.chars().map(blank).collect();
    let text = escape_invisible(text.trim());
    if text.len() <= limits::MAX_ERROR_TEXT_BYTES {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(limits::MAX_ERROR_TEXT_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_from_body(status: Option<u16>, body: &str) -> ModelError {
        let mut response = ProviderResponseError::without_status(body);
        response.status = status.map(|status| status.try_into().unwrap());
        from_provider_error(
            &ProviderError::ProviderResponse(response),
            ApiKey::from_nonempty_text("sk-test-secret").as_ref(),
        )
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn the_error_of_each_provider_has_the_right_kind() {
        use ModelErrorKind::{Auth, ContextTooLong, InvalidRequest, Other, Transient};
        for (status, body, fault) in [
            (
                Some(400),
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
                ContextTooLong,
            ),
            (
                Some(413),
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                ContextTooLong,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                ContextTooLong,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}"#,
                ContextTooLong,
            ),
            (
                Some(500),
                r#"{"error":"the input length exceeds the context length"}"#,
                ContextTooLong,
            ),
            (
                None,
                r#"{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}"#,
                ContextTooLong,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Auth,
            ),
            (Some(403), r#"{"error":{"message":"billing"}}"#, Auth),
            (
                Some(429),
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                Other,
            ),
            (
                Some(429),
                r#"{"error":{"message":"Rate limit reached: tokens exceed 30000 per minute"}}"#,
                Transient,
            ),
            (
                Some(529),
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Transient,
            ),
            (
                None,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Transient,
            ),
            (Some(200), r#"{"error":{"code":502,"message":"Provider returned error"}}"#, Transient),
            (None, r#"{"error":{"message":"no such tool"}}"#, Other),
            (Some(404), r#"{"error":{"message":"model not found"}}"#, Other),
            (Some(400), r#"{"error":{"message":"Could not process image"}}"#, InvalidRequest),
            (
                Some(404),
                r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#,
                InvalidRequest,
            ),
            (
                Some(500),
                r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
                InvalidRequest,
            ),
            (
                Some(400),
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
                Other,
            ),
        ] {
            let error = error_from_body(status, body);
            assert_eq!(error.kind, fault, "{body}: {error}");
        }
    }

    #[test]
    fn only_reports_of_content_filters_are_refusals() {
        for (status, body, is_refusal) in [
            (
                Some(400),
                r#"{"error":{"message":"The response was filtered.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
                true,
            ),
            (None, r#"{"error":{"message":"filtered","code":"content_filter"}}"#, true),
            (
                Some(400),
                r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","code":"invalid_prompt"}}"#,
                true,
            ),
            (
                None,
                r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"your prompt was flagged"}}}"#,
                true,
            ),
            (
                Some(400),
                r#"{"error":{"code":"data_inspection_failed","message":"Input text data may contain inappropriate content."}}"#,
                true,
            ),
            (
                Some(400),
                r#"{"error":{"code":"invalid_prompt","message":"Invalid Responses API request"}}"#,
                false,
            ),
            (Some(400), r#"{"error":{"message":"content_filter is no tool"}}"#, false),
            (Some(400), r#"{"error":{"code":400,"message":"wrong"}}"#, false),
            (Some(500), "content_filter", false),
        ] {
            let mut response = ProviderResponseError::without_status(body);
            response.status = status.map(|status: u16| status.try_into().unwrap());
            let events = final_events(&ProviderError::ProviderResponse(response), None);
            let is_stop = events.last() == Some(&ModelEvent::Stop(ModelStopReason::Refusal));
            assert_eq!(is_stop, is_refusal, "{body}: {events:?}");
        }
    }

    #[test]
    fn an_error_text_of_a_server_is_one_short_line_without_the_key() {
        let long = "a".repeat(600);
        for (body, expected) in [
            (
                r#"{"error":{"message":"bad\nkey sk-test-secret\u0007"}}"#,
                "bad key [key]".to_owned(),
            ),
            (r#"[{"error":{"message":"in a list"}}]"#, "in a list".to_owned()),
            (r#"{"detail":"by FastAPI"}"#, "by FastAPI".to_owned()),
            ("plain", "plain".to_owned()),
            ("", "the server gave no reason".to_owned()),
            (
                "<!doctype html>",
                "the server responded with an HTML page: is the address right?".to_owned(),
            ),
            (&long, format!("{}…", "a".repeat(500))),
        ] {
            assert_eq!(error_from_body(Some(400), body).message, expected);
        }
    }

    #[test]
    fn the_requested_retry_time_is_found_in_headers_and_body() {
        const DATE: &str = "Fri, 31 Dec 1999 23:59:59 GMT";
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_790);
        let gemini = r#"{"error":{"details":[{"@type":"x"},{"retryDelay":"37.5s"}]}}"#;
        for (headers, body, expected) in [
            (vec![("retry-after", "7")], "", Some(7_000)),
            (vec![("retry-after", "7"), ("retry-after-ms", "250")], "", Some(250)),
            (vec![("retry-after", "-1")], "", None),
            (vec![("retry-after", "1e9")], "", Some(3_600_000)),
            (vec![("retry-after", DATE)], "", Some(9_000)),
            (
                vec![("retry-after", DATE), ("date", "Fri, 31 Dec 1999 23:59:57 GMT")],
                "",
                Some(2_000),
            ),
            // A date in the past means no wait.
            (vec![("retry-after", DATE), ("date", "Sat, 01 Jan 2000 00:00:00 GMT")], "", Some(0)),
            (vec![("retry-after", "Fri, 31 Dec 1999")], gemini, Some(37_500)),
            (vec![], gemini, Some(37_500)),
            (vec![], "{}", None),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.insert(*name, value.parse().unwrap());
            }
            let body = serde_json::from_str(body).unwrap_or_default();
            let expected = expected.map(Duration::from_millis);
            assert_eq!(requested_retry_delay(Some(&map), &body, now), expected, "{headers:?}");
        }
    }

    #[test]
    fn an_error_text_of_a_server_hides_nothing() {
        assert_eq!(visible_single_line(" a\u{1b}[2J\nb\u{202e}c\n"), "a [2J b\\u{202e}c");
    }
}
