//! The search service of the configuration.

use acp_tools::{WebSearchSettings, WebSearchShape};
use serde::Deserialize;

use super::SourcedValue;
use super::env_vars::env_secret;

/// The section `[web]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebSection {
    pub(super) search: Option<SourcedValue<SearchSection>>,
}

/// The section `[web.search]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchSection {
    service: String,
    /// The URL to which searches are sent. Brave Search and Tavily have a default.
    url: Option<String>,
    /// Name of the variable with the key.
    key_env: Option<String>,
}

impl SearchSection {
    /// Converts the section. The key is redacted in all later output.
    ///
    /// # Errors
    ///
    /// Returns an error if the service is not known, if it needs a URL, or if the URL or the key
    /// cannot be used. The text never contains the key.
    pub(super) fn to_web_search(
        &self,
        env: &[(String, String)],
    ) -> Result<WebSearchSettings, String> {
        let shape = WebSearchShape::from_name(&self.service).ok_or_else(|| {
            "web.search.service must be `searxng`, `brave` or `tavily`".to_owned()
        })?;
        let default = match shape {
            WebSearchShape::Brave => Some("https://api.search.brave.com/res/v1/web/search"),
            WebSearchShape::Tavily => Some("https://api.tavily.com/search"),
            _ => None,
        };
        let url = self.url.as_deref().or(default).ok_or_else(|| {
            format!("web.search.url is missing: `{}` has no address of its own", self.service)
        })?;
        let key = self.key_env.as_ref();
        let key = key.and_then(|variable| env_secret(env, variable, "web.search.key_env"));
        WebSearchSettings::try_new(url, shape, key).map_err(|error| format!("web.search: {error}"))
    }
}
