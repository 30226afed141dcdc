//! Opens pages in headless Chromium, and checks them through its debugging protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>).

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use acp_cards::Transcript;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::hostile::{PAYLOADS, updates_with};
use crate::{session, transcript};

/// A browser with one page, controlled through pipes. The browser exits at the end of the test, or
/// after two minutes.
struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    page: Option<String>,
    calls: u64,
    events: Vec<Value>,
}

impl Browser {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", "exec timeout 120 chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut browser = Self { process, input, output, page: None, calls: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        browser.page = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Audits"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and returns its result. Events that arrive before the result are kept.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(page) = &self.page {
            message["sessionId"] = json!(page);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("chromium is installed");
        loop {
            let message = self.read();
            if message["id"] == self.calls {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.output.read_until(0, &mut bytes).unwrap();
        assert!(!bytes.is_empty(), "Chromium ended. Is the program `chromium` installed?");
        serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap()
    }

    fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
    }

    /// Evaluates an expression in the page and returns its value.
    fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let result = self.call("Runtime.evaluate", params);
        assert_eq!(result.get("exceptionDetails"), None, "{expression}");
        result["result"]["value"].clone()
    }

    fn set_media(&mut self, media: &str, theme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    fn set_width(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Returns all errors and warnings of the console, exceptions, and violations of the content
    /// security policy.
    fn complaints(&mut self) -> Vec<String> {
        // The response to this request arrives after all earlier events.
        self.evaluate("0");
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            let is_loud =
                event["params"]["type"] == "error" || event["params"]["type"] == "warning";
            ["Log.entryAdded", "Runtime.exceptionThrown", "Audits.issueAdded"].contains(&method)
                || (method == "Runtime.consoleAPICalled" && is_loud)
        };
        self.events.iter().filter(is_complaint).map(Value::to_string).collect()
    }

    fn save_picture(&mut self, name: &str, folder: &Path) {
        let params = json!({"captureBeyondViewport": true, "format": "png"});
        let picture = self.call("Page.captureScreenshot", params);
        let picture = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        fs::write(folder.join(name), picture).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.page = None;
        let _ignored = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ignored = self.process.wait();
    }
}

/// Writes a page to a new folder. The screenshots are saved in the same folder.
fn write_page(name: &str, transcript: &Transcript) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
    let _ignored = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("page.html");
    fs::write(&file, transcript.to_html()).unwrap();
    (folder, file)
}

fn hostile_transcript() -> Transcript {
    let long = "long".repeat(500);
    let payloads = PAYLOADS.iter().copied().chain([&*long]);
    transcript(&payloads.flat_map(updates_with).collect::<Vec<_>>())
}

/// Checks a page at two widths and in both themes, with its entries folded and unfolded.
fn check(name: &str, transcript: &Transcript) {
    let (folder, file) = write_page(name, transcript);
    let mut browser = Browser::start(&folder);
    for width in [400, 1600] {
        for theme in ["light", "dark"] {
            browser.set_width(width);
            browser.set_media("screen", theme);
            browser.open(&file);
            browser.save_picture(&format!("{width}-{theme}.png"), &folder);
            for state in ["folded", "unfolded"] {
                let place = format!("{name}, {width}, {theme}, {state}");
                assert_eq!(browser.evaluate("innerWidth"), width, "{place}");
                let fits = "document.documentElement.scrollWidth <= innerWidth";
                assert_eq!(browser.evaluate(fits), true, "{place}");
                assert_eq!(browser.evaluate(OVERFLOWING), json!([]), "{place}");
                assert_eq!(browser.evaluate("typeof window.broken"), "undefined", "{place}");
                browser
                    .evaluate("document.querySelectorAll('details').forEach(it => it.open = true)");
            }
            assert_eq!(browser.complaints(), [""; 0], "{name}, {width}, {theme}");
            let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor");
            assert_eq!(dark == "rgb(20, 23, 28)", theme == "dark", "{dark}");
        }
    }
}

/// JavaScript that returns the elements beyond the right edge of the window, except those in tables
/// that scroll.
const OVERFLOWING: &str = "[...document.querySelectorAll('main *, header *, nav *')]
    .filter(it => it.checkVisibility() && !it.closest('svg, .prose table'))
    .filter(it => it.getBoundingClientRect().right > innerWidth + 0.5)
    .map(it => it.outerHTML.slice(0, 200))";

#[test]
#[ignore = "needs the program `chromium`"]
fn a_session_fits_every_window_and_runs_without_an_error() {
    check("session", &session::transcript());
}

#[test]
#[ignore = "needs the program `chromium`"]
fn a_hostile_session_runs_no_script_and_fits() {
    check("hostile", &hostile_transcript());
}

#[test]
#[ignore = "needs the program `chromium`"]
fn the_search_and_the_theme_button_work() {
    let (folder, file) = write_page("script", &session::transcript());
    let mut browser = Browser::start(&folder);
    browser.set_width(1600);
    browser.set_media("screen", "light");
    browser.open(&file);
    let shown = "document.querySelectorAll('.entry:not([hidden])').length";
    let all = browser.evaluate(shown);
    let search = |words: &str| {
        format!(
            "(() => {{ const find = document.getElementById('find'); find.value = '{words}'; \
             find.dispatchEvent(new Event('input')); \
             find.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}})); \
             return document.getElementById('found').textContent; }})()"
        )
    };
    assert_eq!(browser.evaluate(&search("one person BY NAME")), format!("1 of {all}"));
    assert_eq!(browser.evaluate(shown), 1);
    assert_eq!(browser.evaluate("CSS.highlights.get('find').size"), 1);
    browser.save_picture("search.png", &folder);
    assert_eq!(browser.evaluate(&search("nowhere to be found")), format!("0 of {all}"));
    // A folded thought that contains the words is unfolded, and it is folded again after the
    // search.
    let folds = "document.querySelector('.thought').open";
    browser.evaluate(&search("one caller"));
    assert_eq!(browser.evaluate(folds), true);
    browser.evaluate(&search(""));
    assert_eq!((browser.evaluate(shown), browser.evaluate(folds)), (all, json!(false)));
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(browser.evaluate("document.documentElement.dataset.theme"), "dark");
    assert_eq!(browser.evaluate("document.getElementById('theme').textContent"), "Light");
    let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(ground, "rgb(20, 23, 28)");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs the program `chromium`"]
fn a_printed_page_is_unfolded_and_a_page_without_script_is_complete() {
    let (folder, file) = write_page("print", &session::transcript());
    let mut browser = Browser::start(&folder);
    browser.set_width(800);
    browser.set_media("screen", "dark");
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&file);
    let thought = "document.querySelector('.thought .prose').checkVisibility()";
    let bar = "getComputedStyle(document.querySelector('.bar')).display";
    assert_eq!((browser.evaluate(bar), browser.evaluate(thought)), (json!("none"), json!(false)));
    browser.set_media("print", "dark");
    assert_eq!(browser.evaluate(thought), true);
    let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(ground, "rgb(255, 255, 255)");
    browser.save_picture("print.png", &folder);
    let print = browser.call("Page.printToPDF", json!({}));
    let print = BASE64_STANDARD.decode(print["data"].as_str().unwrap()).unwrap();
    fs::write(folder.join("print.pdf"), print).unwrap();
}
