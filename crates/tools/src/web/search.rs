//! The settings of a search service, its requests, and the results in its responses.

use std::fmt;

use callboard_text::{escape_invisible_truncated, head};
use hyper::header::HeaderName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::download::{WebRequest, bearer, secret_field};
use super::page_url::PageUrl;
use crate::web::limits::{
    MAX_SEARCH_RESULTS, MAX_SEARCH_SNIPPET_BYTES, MAX_SEARCH_TITLE_BYTES, MAX_URL_BYTES,
};

/// The settings of the tool `web_search`: the endpoint of a search service, which the user has
/// chosen.
///
/// The endpoint counts as a host that a rule allows, and may be in a local network or on this
/// computer. Its redirects are not followed.
///
/// ```
/// use acp_tools::{WebSearchSettings, WebSearchShape};
///
/// let search = WebSearchSettings::try_new("https://searx.example/search", WebSearchShape::SearXng, None)?;
/// assert_eq!(search.host(), "searx.example");
/// // A key is never sent unencrypted to another computer.
/// let key = Some("secret".to_owned());
/// assert!(WebSearchSettings::try_new("http://a.example/search", WebSearchShape::Brave, key).is_err());
/// # Ok::<(), acp_tools::WebSearchSettingsError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WebSearchSettings {
    endpoint: PageUrl,
    shape: WebSearchShape,
    key: Option<String>,
}

/// The form of the requests and responses of a search service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WebSearchShape {
    /// SearXNG: `GET` with `format=json`, which the instance must allow. A key is sent as a bearer
    /// token, for a reverse proxy (<https://docs.searxng.org/dev/search_api.html>).
    SearXng,
    /// Brave Search: `GET` with the key in `X-Subscription-Token`
    /// (<https://api-dashboard.search.brave.com/app/documentation/web-search>).
    Brave,
    /// Tavily: `POST` of JSON with the key as a bearer token
    /// (<https://docs.tavily.com/documentation/api-reference/endpoint/search>).
    Tavily,
}

/// The reason why the settings of a search service are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebSearchSettingsError {
    /// The endpoint must be an `http` or `https` URL without credentials. Correct the URL. The text
    /// is one or two sentences.
    #[error("{0}")]
    InvalidEndpoint(String),
    /// The key would be sent unencrypted to another computer. Use an `https` URL.
    #[error("The key would be sent unencrypted to {host}. Use an https URL.")]
    UnencryptedKey {
        /// The host of the endpoint.
        host: String,
    },
    /// The key contains characters that a header cannot contain. Check that the key was copied
    /// completely, and without line ends.
    #[error("The key contains characters that a header cannot contain.")]
    InvalidKey,
}

impl WebSearchShape {
    /// Returns the shape with a name: `searxng`, `brave` or `tavily`. Returns `None` for any other
    /// name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "searxng" => Some(Self::SearXng),
            "brave" => Some(Self::Brave),
            "tavily" => Some(Self::Tavily),
            _ => None,
        }
    }
}

impl WebSearchSettings {
    /// Creates the settings. `endpoint` is the URL of the search itself, e.g.
    /// `https://api.search.brave.com/res/v1/web/search`.
    ///
    /// # Errors
    ///
    /// [`WebSearchSettingsError`] if the endpoint or the key is invalid, or if the key would be
    /// sent unencrypted to another computer.
    pub fn try_new(
        endpoint: &str,
        shape: WebSearchShape,
        key: Option<String>,
    ) -> Result<Self, WebSearchSettingsError> {
        let endpoint = PageUrl::parse(endpoint).map_err(WebSearchSettingsError::InvalidEndpoint)?;
        let search = Self { endpoint, shape, key };
        let host = search.host();
        let is_loopback = search.endpoint.destination().is_loopback();
        match &search.key {
            Some(_) if !search.endpoint.is_https() && !is_loopback => {
                Err(WebSearchSettingsError::UnencryptedKey { host })
            }
            Some(key) if bearer(key).is_none() => Err(WebSearchSettingsError::InvalidKey),
            _ => Ok(search),
        }
    }

    /// Returns the host of the endpoint: a lowercase ASCII name, or an IP address.
    #[must_use]
    pub fn host(&self) -> String {
        self.endpoint.destination().host
    }

    /// Returns the endpoint without a query.
    pub(crate) fn endpoint(&self) -> &PageUrl {
        &self.endpoint
    }

    pub(crate) fn shape(&self) -> WebSearchShape {
        self.shape
    }

    /// Creates the request for a query.
    pub(crate) fn request(&self, query: &str) -> WebRequest {
        let key = self.key.as_deref();
        let with_query = |parameters: &[(&str, &str)]| {
            let mut url = self.endpoint.as_url().clone();
            url.query_pairs_mut().extend_pairs(parameters);
            self.endpoint.with_query_of(&url)
        };
        let count = MAX_SEARCH_RESULTS.to_string();
        match self.shape {
            WebSearchShape::SearXng => WebRequest {
                secret: key.and_then(bearer),
                ..WebRequest::get(with_query(&[("q", query), ("format", "json")]))
            },
            WebSearchShape::Brave => WebRequest {
                secret: key.and_then(|key| {
                    secret_field(HeaderName::from_static("x-subscription-token"), key)
                }),
                ..WebRequest::get(with_query(&[("q", query), ("count", &count)]))
            },
            WebSearchShape::Tavily => WebRequest {
                url: self.endpoint.clone(),
                json: Some(
                    json!({ "query": query, "max_results": MAX_SEARCH_RESULTS }).to_string(),
                ),
                secret: key.and_then(bearer),
            },
        }
    }
}

/// Formats the settings without the key.
impl fmt::Debug for WebSearchSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WebSearchSettings")
            .field("endpoint", &self.endpoint)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// One result of a search. All texts are bounded lines of visible characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchResult {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) snippet: String,
}

/// A result in a response. The services use different names for the snippet.
#[derive(Deserialize)]
struct ReceivedResult {
    title: Option<String>,
    url: Option<String>,
    #[serde(alias = "description")]
    content: Option<String>,
}

/// Reads at most `max` results of a response. Results without a valid URL are skipped.
///
/// # Errors
///
/// Returns the reason as the end of a sentence, if the response has another shape.
pub(crate) fn parse_results(
    shape: WebSearchShape,
    response: &[u8],
    max: usize,
) -> Result<Vec<SearchResult>, String> {
    let response: Value =
        serde_json::from_slice(response).map_err(|error| format!("it is not JSON ({error})"))?;
    let results = match shape {
        WebSearchShape::SearXng | WebSearchShape::Tavily => response.get("results"),
        // If there are no results, the response has no field `web`.
        WebSearchShape::Brave if response.get("web").is_none() && response.is_object() => {
            return Ok(Vec::new());
        }
        WebSearchShape::Brave => response.pointer("/web/results"),
    };
    let results = results.and_then(Value::as_array).ok_or("it has no list of results")?;
    let parse = |result: &Value| {
        let ReceivedResult { title, url, content } = Deserialize::deserialize(result).ok()?;
        let url = url.filter(|url| url.len() <= MAX_URL_BYTES)?;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let url = PageUrl::parse(&url).ok().filter(|_| is_web)?.to_string();
        let title = strip_tags_to_one_line(&title.unwrap_or_default(), MAX_SEARCH_TITLE_BYTES);
        let snippet =
            strip_tags_to_one_line(&content.unwrap_or_default(), MAX_SEARCH_SNIPPET_BYTES);
        Some(SearchResult {
            title: if title.is_empty() { url.clone() } else { title },
            url,
            snippet,
        })
    };
    Ok(results.iter().filter_map(parse).take(max).collect())
}

/// Returns a text as one line without tags and entities. Some services mark the words of the query
/// with tags.
fn strip_tags_to_one_line(text: &str, max: usize) -> String {
    let text = head(text, 8 * max);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start..];
        let is_tag =
            tag[1..].starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
        let end = tag.find('>').filter(|end| is_tag && *end <= 64).map_or(1, |end| end + 1);
        plain.push_str(&rest[..start]);
        if end == 1 {
            plain.push('<');
        }
        rest = &tag[end..];
    }
    plain.push_str(rest);
    for (entity, letter) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(entity, letter);
    }
    let words: Vec<_> = plain.split_whitespace().collect();
    escape_invisible_truncated(&words.join(" "), max).0
}

/// Formats results for the model and the client.
pub(crate) fn results_text(results: &[SearchResult]) -> String {
    let format = |(index, result): (usize, &SearchResult)| {
        let SearchResult { title, url, snippet } = result;
        let snippet = if snippet.is_empty() { String::new() } else { format!("\n   {snippet}") };
        format!("{}. {title}\n   {url}{snippet}\n", index + 1)
    };
    results.iter().enumerate().map(format).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
