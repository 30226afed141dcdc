//! URLs of pages, and of redirects to other pages.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::network::{Destination, canonical_ip_text, parse_host};
use crate::web::limits::MAX_URL_BYTES;

/// The URL of a page: `http` or `https`, without credentials and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageUrl {
    url: Url,
}

impl PageUrl {
    /// Parses a URL. A missing scheme is replaced by `https`.
    ///
    /// # Errors
    ///
    /// Returns one or two sentences with the reason and with advice.
    pub(crate) fn parse(given: &str) -> Result<Self, String> {
        let given = given.trim();
        if given.len() > MAX_URL_BYTES {
            return Err(format!("The URL has more than {MAX_URL_BYTES} bytes. Use a shorter one."));
        }
        // The parser would remove some of these characters, so the permission request would show
        // another URL.
        if given.is_empty() || given.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(
                "The URL is empty, or contains blanks or control characters. Encode them, e.g. as \
                 %20."
                    .to_owned(),
            );
        }
        let absolute = match explicit_scheme(given) {
            Some(scheme) => match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" if given[scheme.len()..].starts_with("://") => given.to_owned(),
                "http" | "https" => {
                    return Err(format!("Write the URL as {scheme}://host/path."));
                }
                _ => {
                    return Err(format!(
                        "Only http and https URLs can be fetched, not {scheme}. Read a file with \
                         read_file."
                    ));
                }
            },
            None => format!("https://{}", given.trim_start_matches('/')),
        };
        let url = Url::parse(&absolute).map_err(|error| format!("The URL is invalid: {error}."))?;
        Self::check_and_normalize(url)
    }

    /// Returns the URL of a redirect.
    ///
    /// # Errors
    ///
    /// Returns the reason as the end of a sentence, if the redirect must not be followed.
    pub(crate) fn redirect(&self, location: &str) -> Result<Self, String> {
        let target = self.url.join(location).map_err(|error| format!("it is invalid ({error})"))?;
        if target.as_str().len() > MAX_URL_BYTES {
            return Err(format!("it has more than {MAX_URL_BYTES} bytes"));
        }
        match (self.url.scheme(), target.scheme()) {
            (_, "https") | ("http", "http") => {}
            (_, "http") => return Err("it leads from https to http".to_owned()),
            // Do not quote the scheme, because it may contain a text that is addressed to the
            // model.
            _ => return Err("its scheme is neither http nor https".to_owned()),
        }
        Self::check_and_normalize(target).map_err(|reason| reason.trim_end_matches('.').to_owned())
    }

    /// Checks and normalises a URL whose scheme is known.
    fn check_and_normalize(mut url: Url) -> Result<Self, String> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err("The URL contains credentials, which are never sent. Remove them.".into());
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => parse_host(name),
            Some(Host::Ipv4(address)) => Some(canonical_ip_text(address.into())),
            Some(Host::Ipv6(address)) => Some(canonical_ip_text(address.into())),
            None => None,
        };
        let is_valid = url.port_or_known_default().is_some_and(|port| port != 0);
        let Some(host) = host.filter(|_| is_valid) else {
            return Err("The URL has no valid host and port.".to_owned());
        };
        // Store the normalised host, so that the displayed URL contains the same host as the
        // permission request.
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        url.set_host(Some(&host)).map_err(|error| format!("The host is invalid: {error}."))?;
        url.set_fragment(None);
        Ok(Self { url })
    }

    /// Returns the host and port to connect to.
    pub(crate) fn destination(&self) -> Destination {
        let host = match self.url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => canonical_ip_text(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => canonical_ip_text(IpAddr::V6(address)),
            None => String::new(),
        };
        Destination { host, port: self.url.port_or_known_default().unwrap_or_default() }
    }

    /// Returns whether the connection is encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the value of the field `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Returns the path with the query.
    pub(crate) fn path_and_query(&self) -> String {
        let query = self.url.query().map(|query| format!("?{query}"));
        self.url.path().to_owned() + &query.unwrap_or_default()
    }

    /// Returns this URL with the query of another one.
    pub(crate) fn with_query_of(&self, other: &Url) -> Self {
        let mut url = self.url.clone();
        url.set_query(other.query());
        Self { url }
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// Returns the scheme of a URL. Returns `None` for a URL without a scheme, e.g. `host:80`.
fn explicit_scheme(given: &str) -> Option<&str> {
    let end = given.find([':', '/', '?', '#', '\\', '[', '@'])?;
    let rest = given[end..].strip_prefix(':')?;
    let scheme = &given[..end];
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    // `user:password@host` has no scheme either. The caller rejects it because of its credentials.
    (is_scheme && !is_port && !port.contains('@')).then_some(scheme)
}

#[cfg(test)]
mod tests;
