//! Tests of the age and the size of the cache.

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
    assert!(cache.find(&url(1), start + MAX_CACHED_PAGE_AGE - Duration::from_secs(1)).is_some());
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
