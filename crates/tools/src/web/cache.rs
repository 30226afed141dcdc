//! The pages that a session has fetched. Showing another part of a cached page needs no connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::page::Page;
use super::page_url::PageUrl;
use crate::web::limits::{MAX_CACHED_PAGE_AGE, MAX_CACHED_PAGES_BYTES};

/// Pages by the URL that was requested. The oldest page is removed first.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    entries: VecDeque<CachedPage>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedPage {
    url: PageUrl,
    page: Arc<Page>,
    bytes: usize,
    fetched: Instant,
}

impl PageCache {
    /// Returns a page that is not too old at `now`.
    pub(crate) fn find(&mut self, url: &PageUrl, now: Instant) -> Option<Arc<Page>> {
        let is_fresh =
            |entry: &CachedPage| now.saturating_duration_since(entry.fetched) < MAX_CACHED_PAGE_AGE;
        while self.entries.front().is_some_and(|oldest| !is_fresh(oldest)) {
            self.remove_oldest();
        }
        let found = self.entries.iter().find(|entry| entry.url == *url);
        found.map(|entry| Arc::clone(&entry.page))
    }

    /// Adds a page that was fetched at `now`. A page that is larger than the cache is not added.
    pub(crate) fn insert(&mut self, url: PageUrl, page: Arc<Page>, now: Instant) {
        if let Some(at) = self.entries.iter().position(|entry| entry.url == url) {
            self.bytes -= self.entries.remove(at).map_or(0, |entry| entry.bytes);
        }
        let bytes = page.memory_bytes() + url.as_url().as_str().len();
        if bytes > MAX_CACHED_PAGES_BYTES {
            return;
        }
        self.bytes += bytes;
        self.entries.push_back(CachedPage { url, page, bytes, fetched: now });
        while self.bytes > MAX_CACHED_PAGES_BYTES {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.bytes);
    }
}

#[cfg(test)]
mod tests;
