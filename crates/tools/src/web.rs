//! Pages and searches of the web: which URLs and addresses may be requested, bounded downloads,
//! text from HTML, and the results of search services.
//!
//! Decisions and conversions are pure. Only `download` and `session` use the network.

mod body;
mod cache;
mod charset;
mod download;
mod html;
pub(crate) mod limits;
mod media_type;
mod page;
mod page_url;
mod search;
mod session;
mod tls;

pub(crate) use download::DownloadError;
pub(crate) use page::{Page, PageContent, PagePart};
pub(crate) use page_url::PageUrl;
pub use search::{WebSearchSettings, WebSearchSettingsError, WebSearchShape};
pub(crate) use search::{parse_results, results_text};
pub(crate) use session::{FetchError, HostAccess, SharedWebAccess};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
