//! The rows for the tool `fetch`.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;

use super::RowMeasure::Programs;
use super::allowing_client::AllowingClient;
use super::figures::{callboard_command, done_and_end_turn_lines, read_memory_mib, scripted_call};
use super::scratch::ScratchFolders;
use super::{AcceptanceRow, ReleasePrograms, ssrf};
use crate::process::TaskError;

/// The rows of the command `accept` for the web.
pub(super) const WEB_ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "ssrf",
        what: "connections of fetch to denied addresses, in a network where plain programs reach \
               them: over 100 spellings, redirects, and names whose addresses change n times; each \
               question is answered with allow",
        n: 1_000,
        target: Some(0.0),
        measure: Programs(ssrf::denied_connections),
    },
    AcceptanceRow {
        name: "page-memory",
        what: "additional peak MiB of an agent that fetches a page of n MB, the largest of several \
               kinds: HTML, text, compressed, endless and hostile ones",
        n: 50,
        target: Some(16.0),
        measure: Programs(page_memory),
    },
];

/// The pages that are fetched, each by a separate agent.
const PAGES: [&str; 10] = [
    "html",
    "text",
    "lines",
    "gzip",
    "endless",
    "elements",
    "list",
    "attributes",
    "links",
    "quotes",
];

/// Number of list entries of a page that is just small enough to become Markdown.
const LIST_ENTRIES: usize = 4_500;

/// For each page of n MB, measures the memory that it adds to the memory of an agent that has
/// fetched a small page. Returns the largest of these values.
fn page_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let server = TcpListener::bind("127.0.0.1:0").map_err(|error| task_error_from_io(&error))?;
    let address = server.local_addr().map_err(|error| task_error_from_io(&error))?;
    let bomb = gzipped_html(n)?;
    thread::spawn(move || {
        for stream in server.incoming().filter_map(Result::ok) {
            // An error means that the agent has read enough.
            send_page(&stream, n, &bomb).ok();
        }
    });
    let mut largest: f64 = 0.0;
    for page in PAGES {
        let scratch = ScratchFolders::new("page-memory")?;
        let turn = |page| {
            let call =
                scripted_call("fetch", &json!({"url": format!("http://page.example/{page}")}));
            call + &done_and_end_turn_lines()
        };
        let script = scratch.write_file("script.jsonl", &(turn("small") + &turn(page)))?;
        let mut command =
            callboard_command(built, &scratch, &format!("script:{}", script.display()));
        // The agent refuses to fetch pages from this computer, so this server acts as a proxy.
        for proxy in ["HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(proxy).env_remove(proxy.to_ascii_lowercase());
        }
        command.env("HTTP_PROXY", format!("http://{address}"));
        let mut client = AllowingClient::start(&mut command, &scratch.cwd())?;
        run_fetch(&mut client)?;
        let before = read_memory_mib(client.pid(), "VmRSS:")?;
        run_fetch(&mut client)?;
        let added = read_memory_mib(client.pid(), "VmHWM:")? - before;
        writeln!(io::stderr(), "{page}: {added:.3} MiB").ok();
        largest = largest.max(added);
        client.end()?;
    }
    Ok(largest)
}

/// Runs a turn with a fetch. The page must arrive.
fn run_fetch(client: &mut AllowingClient) -> Result<(), TaskError> {
    let ended = client.run_turn()?;
    match ended["status"] == "completed" && ended.to_string().contains("of the page") {
        true => Ok(()),
        false => Err(TaskError::Failed(format!("the page did not arrive: {ended}"))),
    }
}

/// Answers a request of the agent to its proxy.
fn send_page(mut stream: &TcpStream, n: u32, bomb: &[u8]) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let page = first.split(' ').nth(1).and_then(|url| url.rsplit('/').next()).unwrap_or_default();
    let media_type = if matches!(page, "text" | "lines") { "text/plain" } else { "text/html" };
    let encoding = if page == "gzip" { "Content-Encoding: gzip\r\n" } else { "" };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}; charset=utf-8\r\n{encoding}\
         Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    match page {
        "small" => write_chunk(stream, &html(1)[..2_000])?,
        "gzip" => write_chunk(stream, bomb)?,
        "endless" => loop {
            write_chunk(stream, &html(1))?;
        },
        "list" => write_chunk(stream, LIST_ENTRY.repeat(LIST_ENTRIES).as_bytes())?,
        _ => {
            let (start, repeated) = hostile_page_parts(page).unwrap_or_default();
            write_chunk(stream, format!("<p>of the page</p>{start}").as_bytes())?;
            let megabyte = match repeated {
                "" => html(1),
                _ => repeated.repeat(1_000_000 / repeated.len()).into_bytes(),
            };
            (0..n).try_for_each(|_| write_chunk(stream, &megabyte))?;
        }
    }
    write_chunk(stream, &[])
}

/// Returns the beginning of a page, and the text that is repeated after the beginning. Returns
/// `None` for an ordinary page.
fn hostile_page_parts(page: &str) -> Option<(String, &'static str)> {
    Some(match page {
        "lines" => (String::new(), "\n"),
        "elements" => (String::new(), "<p>a<br>"),
        "attributes" => (String::new(), "<b a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8>"),
        "links" => {
            (format!("<base href='http://a.example/{}/'>", "b".repeat(4_000)), "<a href=x>y</a>")
        }
        "quotes" => ("<blockquote>".repeat(150) + "<pre>", "x\n"),
        _ => return None,
    })
}

/// Sends bytes as one chunk. If there are no bytes, the chunk ends the body.
fn write_chunk(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    write!(stream, "{:x}\r\n", bytes.len())?;
    stream.write_all(bytes)?;
    stream.write_all(b"\r\n")
}

/// An entry of a list with as many elements as in an encyclopedia.
const LIST_ENTRY: &str = "<li class='x y' id=cite><a href=/wiki/Article title='An article' \
                          class=link>One of the pages</a> and <i>some</i> text of the page<sup \
                          id=ref class=ref><a href=#note>[1]</a></sup></li>\n";

/// Returns n MB of HTML.
fn html(n: u32) -> Vec<u8> {
    let paragraph = "<h2>A heading</h2>\n<p>Some words of the page with <b>a few</b> elements and \
                     <a href=/link>a link</a>.</p>\n<ul><li>one</li><li>two</li></ul>\n";
    paragraph.repeat(n as usize * 1_000_000 / paragraph.len()).into_bytes()
}

/// Returns n MB of HTML, compressed by the program `gzip`.
fn gzipped_html(n: u32) -> Result<Vec<u8>, TaskError> {
    let mut command = Command::new("gzip");
    command.arg("-c9").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| task_error_from_io(&error))?;
    let mut input = child.stdin.take();
    let writer = thread::spawn(move || input.as_mut().map(|input| input.write_all(&html(n))));
    let output = child.wait_with_output().map_err(|error| task_error_from_io(&error))?;
    drop(writer.join());
    Ok(output.stdout)
}

fn task_error_from_io(error: &io::Error) -> TaskError {
    TaskError::Failed(error.to_string())
}
