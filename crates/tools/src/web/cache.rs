//! The pages that a session has fetched. Reading on in such a page needs no connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::page::Page;
use super::page_url::PageUrl;
use crate::web::limits::{MAX_CACHED_PAGE_AGE, MAX_CACHED_PAGES_BYTES};

/// Pages by the URL that was requested. The oldest page is removed first.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    url: PageUrl,
    page: Arc<Page>,
    bytes: usize,
    fetched: Instant,
}

impl PageCache {
    /// Returns a page that is not too old at `now`.
    pub(crate) fn find(&mut self, url: &PageUrl, now: Instant) -> Option<Arc<Page>> {
        let is_fresh =
            |entry: &Entry| now.saturating_duration_since(entry.fetched) < MAX_CACHED_PAGE_AGE;
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
        self.entries.push_back(Entry { url, page, bytes, fetched: now });
        while self.bytes > MAX_CACHED_PAGES_BYTES {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::super::body::Body;
    use super::super::media_type::MediaType;
    use super::{Page, PageCache, PageUrl};
    use crate::web::limits::{MAX_CACHED_PAGE_AGE, MAX_CACHED_PAGES_BYTES};

    fn url(name: usize) -> PageUrl {
        PageUrl::parse(&format!("https://a.example/{name}")).unwrap()
    }

    fn page(bytes: usize) -> Arc<Page> {
        let body = Body { bytes: vec![b'x'; bytes], is_truncated: false };
        Arc::new(Page::from_body(url(0), 200, MediaType::parse("text/plain"), body))
    }

    #[test]
    fn pages_expire() {
        let (mut cache, start) = (PageCache::default(), Instant::now());
        cache.insert(url(1), page(10), start);
        cache.insert(url(2), page(10), start + Duration::from_secs(60));
        assert!(
            cache.find(&url(1), start + MAX_CACHED_PAGE_AGE - Duration::from_secs(1)).is_some()
        );
        assert!(cache.find(&url(3), start).is_none());
        let later = start + MAX_CACHED_PAGE_AGE;
        assert!(cache.find(&url(1), later).is_none());
        assert!(cache.find(&url(2), later).is_some());
        cache.insert(url(2), page(10), later);
        assert!(cache.find(&url(2), later + Duration::from_secs(120)).is_some());
        assert!(cache.find(&url(2), later + MAX_CACHED_PAGE_AGE).is_none());
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn the_oldest_pages_make_room() {
        let (mut cache, now) = (PageCache::default(), Instant::now());
        let size = MAX_CACHED_PAGES_BYTES / 4;
        for name in 0..9 {
            cache.insert(url(name), page(size), now);
            assert!(cache.bytes <= MAX_CACHED_PAGES_BYTES);
        }
        let kept: Vec<_> = (0..9).filter(|name| cache.find(&url(*name), now).is_some()).collect();
        assert_eq!(kept, [6, 7, 8]);
        cache.insert(url(9), page(MAX_CACHED_PAGES_BYTES), now);
        assert!(cache.find(&url(9), now).is_none() && cache.find(&url(8), now).is_some());
    }
}
