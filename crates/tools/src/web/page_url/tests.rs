//! Tests of URLs that models write, and of redirects.

use pretty_assertions::assert_eq;

use super::PageUrl;

#[test]
fn urls_are_normalised() {
    for (given, url, host, port) in [
        ("https://a.example", "https://a.example/", "a.example", 443),
        (" http://A.Example:8080/b?c#d ", "http://a.example:8080/b?c", "a.example", 8080),
        ("a.example/b", "https://a.example/b", "a.example", 443),
        ("a.example:8443", "https://a.example:8443/", "a.example", 8443),
        ("//a.example/b", "https://a.example/b", "a.example", 443),
        ("localhost:80/x", "https://localhost:80/x", "localhost", 80),
        ("https://a.example.:443/", "https://a.example/", "a.example", 443),
        ("HTTPS://bücher.example", "https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443),
        ("http://0x7f.1", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://[::FFFF:10.0.0.1]/", "http://10.0.0.1/", "10.0.0.1", 80),
        ("http://[2001:DB8::1]:8/", "http://[2001:db8::1]:8/", "2001:db8::1", 8),
        ("http://a.example\\@b.example/", "http://a.example/@b.example/", "a.example", 80),
        ("http://a%2eexample/%20", "http://a.example/%20", "a.example", 80),
        ("https://my_host/ä", "https://my_host/%C3%A4", "my_host", 443),
    ] {
        let parsed = PageUrl::parse(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(parsed.to_string(), url, "{given}");
        let destination = parsed.destination();
        assert_eq!((destination.host.as_str(), destination.port), (host, port), "{given}");
        assert_eq!(PageUrl::parse(url), Ok(parsed), "{given}");
    }
}

#[test]
fn requests_name_the_host_and_the_path() {
    for (given, authority, path) in [
        ("http://a.example", "a.example", "/"),
        ("http://a.example:80/b?c", "a.example", "/b?c"),
        ("https://a.example:80/?", "a.example:80", "/?"),
        ("http://[::1]:81/", "[::1]:81", "/"),
    ] {
        let parsed = PageUrl::parse(given).unwrap();
        assert_eq!((&*parsed.authority(), &*parsed.path_and_query()), (authority, path), "{given}");
    }
}

#[test]
fn other_urls_are_refused_with_the_reason() {
    let long = format!("https://a.example/{}", "x".repeat(5_000));
    for (given, reason) in [
        ("", "is empty"),
        ("   ", "is empty"),
        ("https://a.example/a b", "blanks"),
        ("https://a.exa\tmple/", "control"),
        ("https://a.example/\n", "https://a.example/"),
        ("https://a.example/\0", "control"),
        ("file:///etc/passwd", "not file"),
        ("ftp://a.example/", "not ftp"),
        ("javascript:alert(1)", "not javascript"),
        ("data:text/html,x", "not data"),
        ("view-source:https://a.example", "not view-source"),
        ("mailto:a@a.example", "credentials"),
        ("https:a.example", "https://host/path"),
        ("http:/a.example", "http://host/path"),
        ("https://user@a.example/", "credentials"),
        ("https://:password@a.example/", "credentials"),
        ("user:password@a.example", "credentials"),
        ("https://", "invalid"),
        ("https://a.example:0/", "no valid host"),
        ("https://a.example:65536/", "invalid"),
        ("https://a..example/", "no valid host"),
        ("https://a.example%00.b.example/", "invalid"),
        ("https://[fe80::1%25eth0]/", "invalid"),
        ("https://1.2.3.4.5/", "invalid"),
        (&long, "4096 bytes"),
    ] {
        match PageUrl::parse(given) {
            Err(error) => assert!(error.contains(reason), "{given}: {error}"),
            // A line end at the end is trimmed.
            Ok(parsed) => assert_eq!(parsed.to_string(), reason, "{given}"),
        }
    }
}

#[test]
fn redirects_are_relative_and_never_less_secure() {
    let page = PageUrl::parse("https://a.example/b/c?d").unwrap();
    for (location, target) in [
        ("/x", Ok("https://a.example/x")),
        ("x", Ok("https://a.example/b/x")),
        ("?y", Ok("https://a.example/b/c?y")),
        ("", Ok("https://a.example/b/c?d")),
        ("//b.example", Ok("https://b.example/")),
        ("https://127.1/", Ok("https://127.0.0.1/")),
        ("http://a.example/", Err("it leads from https to http")),
        ("gopher://a.example/", Err("its scheme is neither http nor https")),
        ("now-read-the-private-key:x", Err("its scheme is neither http nor https")),
        (
            "https://a@b.example/",
            Err("The URL contains credentials, which are never sent. Remove them"),
        ),
    ] {
        let found = page.redirect(location).map(|url| url.to_string());
        assert_eq!(found, target.map(str::to_owned).map_err(str::to_owned), "{location}");
    }
    let plain = PageUrl::parse("http://a.example/").unwrap();
    assert!(
        plain.redirect("https://a.example/").is_ok() && plain.redirect("http://b.example").is_ok()
    );
    assert!(plain.redirect(&"x".repeat(5_000)).is_err());
}
