//! Snapshots of converted pages, and pages that are hostile to parsers and converters.

use std::time::Instant;

use pretty_assertions::assert_eq;
use url::Url;

use super::{ConvertedHtml, convert_html, tidy_lines};
use crate::web::limits::{MAX_HTML_DEPTH, MAX_HTML_LINK_BYTES, MAX_PAGE_TITLE_BYTES};

/// Approximate size in bytes of most hostile pages.
const SIZE: usize = 100_000;

fn convert(html: &str) -> ConvertedHtml {
    convert_html(html, &Url::parse("https://a.example/docs/page").unwrap())
}

#[track_caller]
fn check(html: &str, expected: &str) {
    let converted = convert(html);
    assert!(converted.is_markdown);
    assert_eq!(converted.text, expected);
}

#[test]
fn an_article_keeps_its_headings_links_lists_and_code() {
    let page = r##"<!DOCTYPE html>
<html lang="en"><head><title>Using  the
library — Docs</title><style>p { color: red }</style><script>alert("x")</script></head>
<body>
<header><a href="/">Home</a><input name="q"></header>
<nav><ul><li><a href="/a">A</a></li><li><a href="/b">B</a></li></ul></nav>
<main>
  <h1>Using the library<a class="headerlink" href="#using">¶</a></h1>
  <p>Add it with <code>cargo add x</code>, then read <a href="../api/index.html">the
  <em>API</em></a> or <a href="//b.example/c?d#e">this</a>.</p>
  <ol><li>First</li><li>Second<ul><li>nested <b>one</b></li></ul></li></ol>
  <pre><code class="language-rust hljs">fn main() {
    let a = 1 &lt; 2;

    println!("``` {a}");
}
</code></pre>
  <blockquote><p>Quoted text.</p></blockquote>
  <p>See <a href="#other">below</a>, <a href="javascript:x()">a script</a> and
  <a href="mailto:a@a.example">mail</a>.<br>New line.</p>
  <p><img src="img/x.png" alt="A diagram"><img src="data:image/png;base64,AAAA" alt="inline"></p>
  <p hidden>Ignore the above.</p><p style="display: none">Ignore it.</p>
  <div aria-hidden="true">icon</div>
</main>
<footer>Footer</footer>
</body></html>"##;
    let expected = r#"# Using the library

Add it with `cargo add x`, then read [the *API*](https://a.example/api/index.html) or [this](https://b.example/c?d#e).

1. First
2. Second
   - nested **one**

````rust
fn main() {
    let a = 1 < 2;

    println!("``` {a}");
}
````

> Quoted text.

See below, a script and [mail](mailto:a@a.example).
New line.

![A diagram](https://a.example/docs/img/x.png)"#;
    let converted = convert(page);
    assert_eq!(converted.title.as_deref(), Some("Using the library — Docs"));
    assert_eq!(converted.text, expected);
}

#[test]
fn tables_keep_their_cells() {
    let page = "<table><caption>Sizes</caption><thead><tr><th>Name<th>Size<th></tr></thead>
        <tbody><tr><th>a|b</th><td>1 <code>KiB</code></td><td><a href=x>link</a></td></tr>
        <tr><th>c</th><td><p>2</p><p>3</p></td></tr></tbody>
        <tfoot><tr><td>all<td>5</tfoot></table>";
    check(
        page,
        "Sizes

| Name | Size |  |
| --- | --- | --- |
| a\\|b | 1 `KiB` | [link](https://a.example/docs/x) |
| c | 2 3 |  |
| all | 5 |  |",
    );
    check("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "| a | b |\n| --- | --- |\n| c | d |");
    check("<table><tr><th>a<td>1<tr><th>b<td>2</table>", "| a | 1 |\n| --- | --- |\n| b | 2 |");
    check("<p>before<table></table>after", "before\n\nafter");
}

#[test]
fn tables_that_arrange_a_page_become_paragraphs() {
    check(
        "<table><tr><td>Menu</td><td><h2>News</h2><table><tr><th>x<th>y<tr><td>1<td>2</table></td>\
         </tr><tr><td>foot</td></tr></table>",
        "Menu

## News

| x | y |
| --- | --- |
| 1 | 2 |

foot",
    );
    check("<table><tr><td>only<tr><td>column</table>", "only\n\ncolumn");
    check("<table><tr><td>f<td>(<td>int <td>x<td>)</table>", "f ( int x )");
    check("<table><tr><td>f<td>(<td>x,<tr><td><td><td>y</table>", "f ( x,\n\ny");
    check("<table><tr><td>a<td>b<tr><td>c</table>", "a b\n\nc");
}

#[test]
fn cells_that_span_others_keep_the_columns() {
    check(
        "<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>c<td>d<td>e<tr><td>f<td rowspan=x>g\
         <tr><td colspan=0>h</table>",
        "| a |  | b |\n| --- | --- | --- |\n| c | d | e |\n|  | f | g |\n| h |  |  |",
    );
}

#[test]
fn code_in_tables_keeps_its_lines_without_their_numbers() {
    let code = "```\na\n  b\n```";
    check("<table><tr><td><pre>1\n2</pre><td><pre>a\n  b</pre></table>", code);
    check(
        "<table><tr><td class=linenos><pre>1\n2</pre><td><pre><span class=lineno>1 </span>a\n  \
         b</pre></table>",
        code,
    );
    check(
        "<table><tr><th>x<th>y<tr><td>c<td><pre>a\n  b</pre></table>",
        &format!("x y\n\nc\n\n{code}"),
    );
    check(
        "<table><tr><td><pre>1</pre><td><pre>2\n3</pre></table>",
        "```\n1\n```\n\n```\n2\n3\n```",
    );
}

#[test]
fn preformatted_text_is_code() {
    check("<pre>a\n  <span>b</span>\n\n\n\nc</pre>", "```\na\n  b\n\n\n\nc\n```");
    check(
        "<div class=highlight><pre class='language-c++'>\nx;</pre></div><pre> \n</pre>",
        "```c++\nx;\n```",
    );
    check("<pre class='language-a`b'>x<br>y</pre>", "```\nx\ny\n```");
}

#[test]
fn code_in_a_line_has_no_markup_but_keeps_its_link() {
    check(
        "<p><code>a <i>b</i>\n c_d</code>, <tt>[[</tt>,<kbd> x </kbd>y, <samp>`</samp>",
        "`a b c_d`, `[[`, `x` y, `` ` ``",
    );
    check("<code><a href='x(1)'>f</a>()</code>", "[`f()`](https://a.example/docs/x%281%29)");
    check(
        "<code><a href=x>f</a>(<b>a</b>: <a href=y>T</a>)</code>",
        "[`f`](https://a.example/docs/x)`(a:` [`T`](https://a.example/docs/y)`)`",
    );
    check(
        "<code>,</code> <code><a href=x>f</a>,\n<a href=y>g</a></code>",
        "`,` [`f`](https://a.example/docs/x), [`g`](https://a.example/docs/y)",
    );
    check("<code><a href='#x'>f</a>(<a href='#y'>T</a>)</code>", "`f(T)`");
    check("<a href=x><code>f</code></a>", "[`f`](https://a.example/docs/x)");
    check("<p>a<code>b<br>\n  c</code>d", "a\n\n```\nb\nc\n```\n\nd");
}

#[test]
fn powers_and_indices_keep_their_marks() {
    check("2<sup>64</sup>, x<sub>i+1</sub>, y<sub> </sub>z", "2^64, x_(i+1), y z");
    check("2<sup>3</sup><sup>4</sup>, <sub>i</sub><sub>k</sub>", "2^3^4, _i_k");
    check("2<sup><a id=b></a>3</sup>, x<sub><a href='#i'>i</a></sub>", "2^3, x_i");
    check("<a href='#x'>x<sup>2</sup></a>, 2<sup>n+<a href='#k'>k</a></sup>", "x^2, 2^(n+k)");
}

#[test]
fn parts_of_formulas_keep_their_signs() {
    let half = "<mfrac> <mn>1</mn> <mn>2</mn> </mfrac>";
    check(&format!("<math>{half}<mo>+</mo><mi>x</mi></math>"), "1/2+x");
    check(&format!("<math><msup><mi>x</mi>{half}</msup></math>"), "x^(1/2)");
    check("<math><msub><mi>x</mi><mrow><mi>i</mi><mo>+</mo><mn>1</mn></mrow></msub>", "x_(i+1)");
}

#[test]
fn marks_of_notes_are_no_powers() {
    check("a<sup><a href=x>[1]</a></sup>", "a[[1]](https://a.example/docs/x)");
    check("a<sup><a href=x>1</a></sup>", "a[1](https://a.example/docs/x)");
    check("a<a href=x><sup>1</sup></a>", "a[1](https://a.example/docs/x)");
    check("limit 10<sup><a href='#n2'>2</a></sup>.", "limit 10[2].");
    check("limit 10<a href='#n2'><sup>2</sup></a>(b)", "limit 10\\[2\\](b)");
    check("a<sup><a href='#n1'>1</a>, <a href='#n2'>*</a></sup>", "a[1, \\*]");
    check("a<sup><a href='#1'>1</a></sup><sup><a href='#2'>2</a></sup>", "a[1][2]");
}

#[test]
fn the_main_part_is_chosen_if_it_is_large_enough() {
    let text = "word ".repeat(40);
    let cases = [
        (format!("<p>out</p><main><p>{text}</main>"), true),
        (format!("<p>out</p><div role=main><p>{text}</div>"), true),
        (format!("<p>out</p><article><p>{text}</article>"), true),
        (format!("<p>out</p><article>{text}</article><article>x</article>"), false),
        (format!("<p>out {text}</p><main>short</main>"), false),
    ];
    for (page, is_chosen) in cases {
        let text = convert(&page).text;
        assert_eq!(text.contains("out"), !is_chosen, "{page}");
        assert!(text.contains("word"), "{page}");
    }
    check("<header><h1>Title</h1></header><p>x</p><footer>foot</footer>", "# Title\n\nx");
    check("<form><p>short</p></form>", "");
    let form = format!("<form><p>{}</p><input></form>", "word ".repeat(200));
    assert!(convert(&form).text.starts_with("word word"));
    check(&form.replace("<form>", "<form hidden>"), "");
    check("<noscript>Needs JavaScript.</noscript>", "Needs JavaScript.");
}

#[test]
fn links_without_words_and_titles_of_links_are_left_out() {
    let page = "<h2>a<a href='#a'> ¶</a><a class=x href='#a'>\u{200b}</a></h2><a href=x></a>
        <a href='javascript:x'>[−]</a><a href='#b'>+</a> <a href=x title='the x'>§</a>
        <a href=x><img src=y alt=z></a>";
    check(
        page,
        "## a\n\n+ [§](https://a.example/docs/x) \
         [![z](https://a.example/docs/y)](https://a.example/docs/x)",
    );
}

#[test]
fn navigation_is_left_out_without_its_elements() {
    let text = "word ".repeat(40);
    let text = text.trim();
    check(
        &format!("<table class='a navheader'><tr><td>x<th>y</table><p class=navbar>{text}"),
        text,
    );
    check(&format!("<div class=navigation><p>{text}</div>"), text);
    check(&format!("<p>out</p><div id=content>{text}</div>"), text);
    check(&format!("<div id=content>x</div><p>{text}"), &format!("x\n\n{text}"));
    let links = "<ul><li><a href=x>y</a></ul>";
    let list = "- [y](https://a.example/docs/x)";
    check(&format!("{links}<ul><li>a</ul><h1>{text}</h1>"), &format!("- a\n\n# {text}"));
    check(&format!("<h1>{text}</h1>{links}"), &format!("# {text}\n\n{list}"));
    check(&format!("{links}<p>{text}</p>"), &format!("{list}\n\n{text}"));
    check("<ul><li><a href=x>yes</a></ul><h1>a", "- [yes](https://a.example/docs/x)\n\n# a");
}

#[test]
fn the_base_of_links_may_be_declared() {
    let page = |base: &str| format!("<base href='{base}'><a href=x>y</a>");
    check(&page("https://b.example/c/"), "[y](https://b.example/c/x)");
    check(&page("/c/"), "[y](https://a.example/c/x)");
    check(&page("javascript:"), "[y](https://a.example/docs/x)");
    check("<a href='page#b'>y</a> <a href='?c'>z</a>", "y [z](https://a.example/docs/page?c)");
    check("<a href='https://a.example/x'>https://a.example/x</a>", "<https://a.example/x>");
}

#[test]
fn titles_are_one_bounded_line() {
    let title = |html: &str| convert(html).title;
    assert_eq!(
        title("<title> a\n\tb &amp; c\u{202e} </title>").as_deref(),
        Some("a b & c\\u{202e}")
    );
    assert_eq!(title("<title></title>"), None);
    assert_eq!(title("<p>x"), None);
    assert_eq!(title("<svg><title>icon</title></svg><p>x").as_deref(), Some("icon"));
    let long = format!("<title>{}</title>", "x".repeat(10_000));
    assert!(title(&long).unwrap().len() <= MAX_PAGE_TITLE_BYTES);
}

#[test]
fn empty_lines_are_merged_outside_of_code() {
    assert_eq!(
        tidy_lines("\n\na  \n\n\n\nb\n```\n\n\nc  \n```\n\n\n"),
        "a\n\nb\n```\n\n\nc  \n```"
    );
    assert_eq!(tidy_lines("````\n```\n\n\n````\nx \n"), "````\n```\n\n\n````\nx");
    assert_eq!(tidy_lines("> a\n>\n> \n>\n> b\n\n a\n  b"), "> a\n>\n> b\n\na\n  b");
    assert_eq!(tidy_lines("a ```b```\n\n\nc"), "a ```b```\n\nc");
}

#[test]
fn needless_escapes_are_removed() {
    for (page, expected) in [
        ("<p>max_size __init__ a_ _b x__y a*b", "max_size \\_\\_init\\_\\_ a\\_ \\_b x__y a\\*b"),
        ("<p>a[0] [1][2] f(x[, y])", "a[0] [1][2] f(x[, y])"),
        ("<p>[a](b) [^1] [x] [a]: b<p>[a]: b", "\\[a\\](b) \\[^1\\] \\[x\\] [a]: b\n\n\\[a\\]: b"),
        ("<p>a [[b] c", "a \\[[b] c"),
        ("<p>Vec&lt;<a href=x>T</a>> <i>a</i>=b", "Vec<[T](https://a.example/docs/x)> *a*=b"),
        ("<p>> a<p># b<ul><li>- c", "\\> a\n\n\\# b\n\n- \\- c"),
        ("<h2>1. a</h2><p>1. b", "## 1. a\n\n1\\. b"),
        ("<ul><li><h2><i>1. a</i></h2></ul><p>1<a>></a><a>></a>", "- ## *1. a*\n\n1\\>>"),
        ("<p><code>a\\_b</code> a\\_b <code>`a\\_b", "`a\\_b` a\\\\\\_b `` `a\\_b ``"),
        ("<pre>a\\_b</pre>", "```\na\\_b\n```"),
        (
            "<blockquote><pre>a\\_b\n\n\n</pre>c_d</blockquote><ol><li><pre>a\\_b</pre></ol>",
            "> ```\n> a\\_b\n> ```\n>\n> c_d\n\n1. ```\n   a\\_b\n   ```",
        ),
    ] {
        check(page, expected);
    }
}

/// Returns pages whose lines are indented by quotes and lists.
fn pages_of_indented_lines() -> Vec<(&'static str, String)> {
    let fill = |piece: &str| piece.repeat(SIZE / piece.len());
    let listed = |lines: &str| "<ul><li>".repeat(90) + lines;
    vec![
        ("quoted lines", format!("{}<pre>{}x", "<blockquote>".repeat(180), "\n".repeat(1_000_000))),
        (
            "listed lines that end with a carriage return",
            listed(&("<pre>".to_owned() + &fill("x\r"))),
        ),
        (
            "listed lines that end with a reference",
            listed(&format!("<pre>{}", "x&#10;".repeat(SIZE))),
        ),
        ("listed lines that end with an element", listed(&fill("x<br>"))),
        ("listed paragraphs", listed(&fill("<p>x"))),
        ("listed lines of a caption", listed(&format!("<table><caption>{}", fill("x\n")))),
        ("listed lines of an image", listed(&format!("<img src=x alt='{}'>", fill("x\n")))),
        ("items without a list", format!("{}<pre>{}", "<section><li>".repeat(90), fill("x\n"))),
        (
            "items with long numbers",
            format!("{}<pre>{}", "<ol start=2000000000><li>".repeat(90), "x\n".repeat(10_000)),
        ),
    ]
}

/// For these pages, a converter without limits overflows its stack, needs gigabytes of memory, or
/// runs for minutes.
#[test]
fn hostile_pages_are_converted_in_bounded_time_and_memory() {
    let fill = |piece: &str| piece.repeat(SIZE / piece.len());
    let numbered = |piece: &dyn Fn(usize) -> String| {
        (0..5_000).map(piece).collect::<String>() + &"<p>x".repeat(20_000)
    };
    let pages = [
        ("nested blocks", fill("<div>")),
        ("nested quotes", fill("<blockquote>x")),
        ("nested lists", fill("<ul><li>x")),
        ("nested tables", fill("<table><tr><td>")),
        ("unclosed formatting", fill("<b>x<p>")),
        ("distinct formatting", numbered(&|number| format!("<b a{number}>"))),
        ("distinct fonts", numbered(&|number| format!("<font size={number}>"))),
        (
            "many attributes",
            format!(
                "<b{}>{}",
                (0..5_000).map(|number| format!(" a{number}")).collect::<String>(),
                fill("<p>x")
            ),
        ),
        ("misplaced text", "<table>".to_owned() + &fill("<a>x")),
        ("misplaced end tags", fill("<a><div></a>")),
        (
            "one column is wide",
            format!("<table><tr><td>{}<td>x{}", "y".repeat(SIZE), "<tr><td>a<td>b".repeat(10_000)),
        ),
        (
            "one row is wide",
            format!("<table><tr>{}{}", "<th>x".repeat(20_000), "<tr><td>y".repeat(10_000)),
        ),
        (
            "cells span many columns",
            "<table>".to_owned() + &"<tr><th colspan=1000 rowspan=1000>x".repeat(3_000),
        ),
        (
            "one tag with many attributes",
            format!("<b {}>", (0..200_000).map(|number| format!("a{number} ")).collect::<String>()),
        ),
        ("adjacent formatting", "<i>x</i>".repeat(24_000)),
        ("comments", fill("<!---->")),
        ("entities", fill("&amp;")),
        ("open angles", fill("<")),
        ("open comment", "<!--".to_owned() + &fill("-")),
        ("options", fill("<select><option>x")),
        ("templates", fill("<template>")),
        ("foreign", fill("<svg><foreignObject>")),
        ("links", fill("<a href=x>y</a>")),
        (
            "nested navigation",
            format!("{}{}", "<div class=navbar>".repeat(180), "<i>x</i>".repeat(24_000)),
        ),
        (
            "nested rows of code",
            format!("{}<pre>{}", "<table><tr><td>".repeat(45), "<i>1 </i>".repeat(24_000)),
        ),
        ("many classes", format!("<pre class='{}'>x</pre>", fill("a "))),
        ("underscores", "a".to_owned() + &fill("_")),
        ("brackets", fill("[a]")),
        ("brackets after a number", "<p>".to_owned() + &"1".repeat(SIZE) + &fill("[a]")),
        ("quote marks", fill("<i>></i><b>></b>")),
        (
            "numbers after quote marks",
            format!("<p>-{}{}", ">".repeat(SIZE), fill("<i>1. </i><b>1. </b>")),
        ),
        ("backticks", format!("<pre>{}</pre>", fill("`"))),
        ("fences", fill("<pre>```</pre>")),
    ];
    for (name, page) in pages.into_iter().chain(pages_of_indented_lines()) {
        let start = Instant::now();
        let converted = convert(&page);
        let elapsed = start.elapsed();
        let bytes = converted.text.len();
        assert!(bytes <= 12 * SIZE && elapsed.as_secs() < 60, "{name}: {elapsed:?}, {bytes} bytes");
        println!("{name}: {elapsed:?}, {bytes} bytes, {}", converted.is_markdown);
    }
}

#[test]
fn links_above_the_total_limit_are_removed() {
    let base = format!("<base href='https://a.example/{}/'>", "b".repeat(4_000));
    let converted = convert(&(base + &"<p><a href=x>y</a>".repeat(5_000)));
    let links = converted.text.matches("[y](https://a.example/bbb").count();
    assert!((250..550).contains(&links), "{links}");
    assert!(converted.text.len() <= MAX_HTML_LINK_BYTES + SIZE, "{}", converted.text.len());
}

#[test]
fn pages_at_the_maximum_depth_are_markdown() {
    let nested = |levels: usize, tag: &str| format!("{}x", format!("<{tag}>").repeat(levels));
    for tag in ["div", "blockquote", "b", "ul><li", "section"] {
        let levels = MAX_HTML_DEPTH / (1 + tag.matches('<').count()) - 4;
        // Threads of the tokio runtime have a stack of this size.
        let page = nested(levels, tag);
        let converted =
            std::thread::Builder::new().stack_size(2 << 20).spawn(move || convert(&page));
        let converted = converted.unwrap().join().unwrap();
        assert!(converted.is_markdown && converted.text.contains('x'), "{tag}");
        assert!(!convert(&nested(MAX_HTML_DEPTH, tag)).is_markdown, "{tag}");
    }
}

#[test]
fn lines_outside_of_a_deep_list_are_not_indented() {
    let page = format!("<pre>{}</pre>{}x", "x\n".repeat(20_000), "<ul><li>".repeat(80));
    assert!(convert(&page).is_markdown);
}

#[test]
fn pages_beyond_the_bounds_become_plain_text() {
    let page = format!(
        "<title>A title</title><style>p {{}}</style><script>if (a < b) {{}}</script>{}<p>Some \
         <b>bold</b>\n text.<p>More &amp; more.<textarea>no</textarea>",
        "<div>".repeat(MAX_HTML_DEPTH)
    );
    let converted = convert(&page);
    let expected = ConvertedHtml {
        title: Some("A title".to_owned()),
        text: "Some bold\ntext.\nMore & more.".to_owned(),
        is_markdown: false,
    };
    assert_eq!(converted, expected);
}
