//! Tests of redirects, and of servers that send too much, too little or nonsense.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;

use super::super::download::{
    DownloadError, ReceivedResponse, WebRequest, exchange, http_request, within_time,
};
use super::super::page::PageContent;
use super::super::testing::{Answer, page, redirect, response};
use super::*;
use crate::web::limits::{MAX_DOWNLOAD_TIME, MAX_PAGE_BYTES, MAX_REDIRECTS, MAX_STALL_TIME};

fn download_error(fetched: Fetched) -> DownloadError {
    match fetched {
        Err(FetchError::Download { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// Sends a request over a stream, and receives the response.
async fn slow_exchange(stream: DuplexStream) -> Result<ReceivedResponse, DownloadError> {
    let request = WebRequest::get(PageUrl::parse("http://a.example").unwrap());
    let request = http_request(request, "/", None).unwrap();
    within_time(exchange(stream, request, &|_, _| {})).await
}

#[tokio::test]
async fn a_page_is_requested_truthfully() {
    let server = TestServer::with_pages(vec![("/a?b=c", page("text/plain", b"text"))]).await;
    let (session, network) = public_session(&server);
    let fetched = fetch(&session, "http://A.Example:81/a?b=c#fragment").await;
    assert_eq!(text_of(&fetched), "text");
    let expected = format!(
        "GET /a?b=c HTTP/1.1\r\nhost: a.example:81\r\nuser-agent: callboard/{} \
         (+https://github.com/callboard-dev/callboard)\r\naccept: text/html, \
         application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, application/json;q=0.9, \
         */*;q=0.5\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(*server.requests.lock().unwrap(), [expected]);
    assert_eq!(network.connected(), ["203.0.113.1"]);
}

#[tokio::test]
async fn redirects_are_followed_up_to_the_maximum() {
    let server = TestServer::start(|request| {
        let path = request.split(' ').nth(1).unwrap();
        Answer::Whole(match path.trim_start_matches('/').parse::<usize>() {
            Ok(0) => page("text/plain", b"end"),
            Ok(left) => redirect(&format!("{}", left - 1)),
            Err(_) => redirect("http://b.example:82/0"),
        })
    })
    .await;
    let (session, network) = public_session(&server);
    let fetched = fetch(&session, &format!("http://a.example/{MAX_REDIRECTS}")).await;
    assert_eq!(text_of(&fetched), "end");
    assert_eq!(fetched.unwrap().url.to_string(), "http://a.example/0");
    assert_eq!(network.resolved(), ["a.example"]);
    let fetched = fetch(&session, &format!("http://a.example/{}", MAX_REDIRECTS + 1)).await;
    let Err(FetchError::Redirect { from, reason }) = fetched else { panic!("{fetched:?}") };
    assert_eq!(
        (&*from.to_string(), &*reason),
        ("http://a.example/1", "it is the redirect number 6")
    );
    let fetched = fetch(&session, "http://a.example/x").await;
    assert_eq!(fetched.unwrap().url.to_string(), "http://b.example:82/0");
    assert_eq!(network.resolved(), ["a.example", "a.example", "a.example", "b.example"]);
}

#[tokio::test]
async fn redirects_to_other_kinds_of_urls_are_not_followed() {
    for (location, reason) in [
        ("file:///etc/passwd", "its scheme is neither http nor https"),
        ("ftp://a.example/", "its scheme is neither http nor https"),
        ("data:text/plain,x", "its scheme is neither http nor https"),
        (
            "http://user:password@b.example/",
            "The URL contains credentials, which are never sent. Remove them",
        ),
        ("http://b.example:0/", "The URL has no valid host and port"),
        ("http://", "it is invalid (empty host)"),
    ] {
        let server = TestServer::with_pages(vec![("/", redirect(location))]).await;
        let (session, network) = public_session(&server);
        let fetched = fetch(&session, "http://a.example").await;
        let Err(FetchError::Redirect { reason: found, .. }) = fetched else {
            panic!("{fetched:?}")
        };
        assert_eq!(found, reason, "{location}");
        assert_eq!(network.connected().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn endless_bodies_are_cut() {
    let piece = vec![b'x'; 64 * 1024];
    let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
    for (fields, again) in [("", piece), ("Transfer-Encoding: chunked\r\n", chunk)] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{fields}\r\n");
        let respond = move |_: &str| Answer::Endless(head.clone().into_bytes(), again.clone());
        let server = TestServer::start(respond).await;
        let (session, _) = public_session(&server);
        let page = fetch(&session, "http://a.example").await.unwrap();
        let PageContent::Text { text, details } = &page.content else { panic!("{page:?}") };
        assert_eq!((text.len(), details.is_truncated), (MAX_PAGE_BYTES, true));
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_bodies_are_counted_after_decompression() {
    let fields = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n";
    let bomb = gzip(&vec![b'x'; 200 << 20]);
    assert!(bomb.len() < 300_000, "{}", bomb.len());
    let pages = vec![
        ("/bomb", response(200, fields, &bomb)),
        ("/small", response(200, fields, &gzip(b"small"))),
        ("/broken", response(200, fields, b"no gzip")),
        ("/other", response(200, "Content-Encoding: br\r\n", b"?")),
    ];
    let server = TestServer::with_pages(pages).await;
    let (session, _) = public_session(&server);
    assert_eq!(text_of(&fetch(&session, "http://a.example/small").await), "small");
    assert_eq!(text_of(&fetch(&session, "http://a.example/bomb").await).len(), MAX_PAGE_BYTES);
    for path in ["broken", "other"] {
        let fetched = fetch(&session, &format!("http://a.example/{path}")).await;
        assert!(matches!(download_error(fetched), DownloadError::Body(_)), "{path}");
    }
}

/// Wherever the server stops in its response, the download fails after the same time.
#[tokio::test(start_paused = true)]
async fn stalled_servers_are_given_up() {
    let whole = page("text/plain", b"text");
    for end in [0, 1, 20, whole.len() - 4, whole.len() - 1] {
        let start = whole[..end].to_vec();
        let server = TestServer::start(move |_| Answer::Stalled(start.clone())).await;
        let (session, _) = public_session(&server);
        let start = Instant::now();
        let error = download_error(fetch(&session, "http://a.example").await);
        assert_eq!(error, DownloadError::Stalled, "{end}");
        let elapsed = start.elapsed();
        assert!(elapsed >= MAX_STALL_TIME && elapsed < MAX_STALL_TIME * 2, "{elapsed:?}");
    }
}

/// A body that arrives byte by byte never exceeds the stall limit, but the download still has a
/// total time limit.
#[tokio::test(start_paused = true)]
async fn slow_servers_are_given_up() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    let (client, mut server) = tokio::io::duplex(1024);
    let sent = tokio::spawn(async move {
        server.read_buf(&mut Vec::new()).await.unwrap();
        server.write_all(&head).await.unwrap();
        while server.write_all(b"x").await.is_ok() {
            tokio::time::advance(Duration::from_secs(14)).await;
        }
    });
    let start = Instant::now();
    let error = slow_exchange(client).await.unwrap_err();
    assert_eq!(error, DownloadError::TooSlow);
    assert!(start.elapsed() >= MAX_DOWNLOAD_TIME, "{:?}", start.elapsed());
    sent.await.unwrap();
}

#[tokio::test]
async fn received_bytes_are_reported() {
    let pages = vec![("/", page("text/plain", &[b'x'; 500_000]))];
    let server = TestServer::with_pages(pages).await;
    let (session, _) = public_session(&server);
    let connector = session.connector_with_proxy_from_env(&BTreeMap::new());
    let url = PageUrl::parse("http://a.example").unwrap();
    let route = connector.resolve_allowed_route(&url.destination(), PUBLIC).await.unwrap();
    let reports = Mutex::new(Vec::new());
    let on_bytes = |bytes, total| reports.lock().unwrap().push((bytes, total));
    session.send_request(&connector, &route, WebRequest::get(url), &on_bytes).await.unwrap();
    let reports = reports.into_inner().unwrap();
    assert!(reports.len() > 1 && reports.is_sorted());
    assert!(reports.iter().all(|(_, total)| *total == Some(500_000)));
    assert_eq!(reports.last().unwrap().0, 500_000);
}

#[tokio::test]
async fn nonsense_is_an_error() {
    let many = "X: y\r\n".repeat(100_000);
    let long = format!("X: {}\r\n", "y".repeat(1 << 20));
    for answer in [
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        b"HTTP/1.1 banana\r\n\r\n".to_vec(),
        b"".to_vec(),
        b"\0\0\0\0".to_vec(),
        response(200, &many, b"x"),
        response(200, &long, b"x"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort".to_vec(),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
        let server = TestServer::start(move |_| Answer::Whole(answer.clone())).await;
        let (session, _) = public_session(&server);
        let error = download_error(fetch(&session, "http://a.example").await);
        assert!(matches!(error, DownloadError::Protocol(_)), "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn types_decide_how_a_page_is_shown() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
    let japanese = "日本語";
    let shift_jis = encoding_rs::SHIFT_JIS.encode(japanese).0.into_owned();
    let pages = vec![
        ("/html", page("text/html", b"<title>A  title</title><main><h1>x</h1><p>y</main>")),
        ("/json", page("application/json", b"{\"a\": 1}")),
        ("/none", response(200, "", b"plain")),
        ("/latin", page("text/plain; charset=iso-8859-1", b"caf\xe9")),
        ("/sjis", page("text/plain; charset=Shift_JIS", &shift_jis)),
        ("/png", page("image/png", png)),
        ("/false", page("image/png", b"no image")),
        ("/pdf", page("application/pdf", b"%PDF-1.7")),
        ("/zip", page("application/octet-stream", b"PK\x03\x04\0\0")),
        ("/gone", response(410, "Content-Type: text/plain\r\n", b"gone")),
    ];
    let server = TestServer::with_pages(pages).await;
    let (session, _) = public_session(&server);
    let mut shown = String::new();
    for name in ["html", "json", "none", "latin", "sjis", "png", "false", "pdf", "zip", "gone"] {
        let page = fetch(&session, &format!("http://a.example/{name}")).await.unwrap();
        let content = match &page.content {
            PageContent::Image(image) => image.describe(),
            PageContent::Binary { bytes } => format!("{bytes:?}\n"),
            _ => format!("{:?}\n", page.shown_text(false).unwrap()),
        };
        shown += &(page.header_lines(false) + &content);
    }
    let expected = r##"URL: http://a.example/html
Status: 200
Type: text/html, converted to Markdown without navigation, forms and scripts
Title: A title
"# x\n\ny"
URL: http://a.example/json
Status: 200
Type: application/json
"{\"a\": 1}"
URL: http://a.example/none
Status: 200
Type: not declared
"plain"
URL: http://a.example/latin
Status: 200
Type: text/plain, decoded from windows-1252
"café"
URL: http://a.example/sjis
Status: 200
Type: text/plain, decoded from Shift_JIS
"日本語"
URL: http://a.example/png
Status: 200
Type: image/png
[image/png, 16 bytes]
URL: http://a.example/false
Status: 200
Type: image/png
Some(8)
URL: http://a.example/pdf
Status: 200
Type: application/pdf
Some(8)
URL: http://a.example/zip
Status: 200
Type: application/octet-stream
Some(6)
URL: http://a.example/gone
Status: 410
Type: text/plain
"gone"
"##;
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_page_is_fetched_once() {
    let pages = vec![
        ("/", page("text/plain", b"text")),
        ("/other", redirect("/")),
        ("/no", response(200, "Cache-Control: private, no-store\r\n", b"text")),
    ];
    let server = TestServer::with_pages(pages).await;
    let (session, _) = public_session(&server);
    for (url, is_cached) in [
        ("http://a.example/", true),
        ("http://a.example/#part", true),
        ("http://a.example/other", true),
        ("http://a.example/no", false),
        ("http://a.example/missing", false),
    ] {
        let parsed = PageUrl::parse(url).unwrap();
        fetch(&session, url).await.unwrap();
        assert_eq!(session.cached_page(&parsed).is_some(), is_cached, "{url}");
    }
    let other = PageUrl::parse("http://a.example/other").unwrap();
    assert_eq!(session.cached_page(&other).unwrap().url.to_string(), "http://a.example/");
    assert!(session.cached_page(&PageUrl::parse("https://a.example/").unwrap()).is_none());
}
