//! The row `ssrf`: the tool `fetch` in a network in which a plain program reaches every address.

mod denied;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use self::denied::{ADDRESSES, LOCATIONS, SPELLINGS, URLS};
use super::ReleasePrograms;
use super::allowing_client::AllowingClient;
use super::figures::{done_and_end_turn_lines, isolated_command, scripted_call};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// The script that creates the network and runs the agent in this network.
const NETWORK: &str = include_str!("ssrf/network.sh");
/// The address of the allowed host.
const ALLOWED: &str = "93.184.216.34";
/// A public address to which there is no route.
const UNREACHABLE: &str = "93.184.216.99";
/// A private address that a rule allows.
const NAMED: &str = "10.9.8.7";
/// Minimum number of denied addresses that a plain program must reach.
const MIN_REACHABLE: usize = 36;
/// Modes of the agent. In the mode `auto`, many calls run without a permission request.
const MODES: [&str; 2] = ["ask", "auto"];

/// A page to fetch, and the expected result.
struct Fetch {
    url: String,
    /// A part of the page's text if the page must arrive, or else a part of the error.
    expected: String,
    is_reached: bool,
}

/// Makes the agent fetch denied addresses in every form. Also makes n fetches of names whose
/// address changes. Returns the number of connections to denied addresses. Every permission request
/// is answered with *allow*.
///
/// # Errors
///
/// Returns an error if the network cannot be created, if an allowed host is not reached, or if the
/// error of a fetch does not contain the expected reason.
pub(super) fn denied_connections(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let fetches = all_fetches(n);
    let mut denied = 0;
    for mode in MODES {
        let scratch = ScratchFolders::new(&format!("ssrf-{mode}"))?;
        write_files(&scratch, &fetches)?;
        let folder = scratch.cwd();
        let ended = find_unexpected_fetch_results(
            &mut agent_command(built, &scratch, mode),
            &folder,
            &fetches,
        );
        let stderr = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        let wrong = ended.map_err(|error| {
            let error = error.message().unwrap_or_default();
            TaskError::Failed(format!(
                "{error}\n{stderr}\nThis row needs the programs unshare, mount and ip (util-linux, \
                 iproute2), and a system where this user may make namespaces and veth interfaces."
            ))
        })?;
        let counts = read_connections(&folder)?;
        denied += counts.denied.len();
        if !counts.denied.is_empty() {
            let shown: BTreeSet<_> = counts.denied.iter().collect();
            writeln!(io::stderr(), "connections in mode {mode}: {shown:?}").ok();
            continue;
        }
        let wrong = [counts.reasons_to_distrust_result(&fetches), wrong].concat();
        if !wrong.is_empty() {
            return Err(TaskError::Failed(format!("in mode {mode}:\n{}", wrong.join("\n"))));
        }
    }
    Ok(denied as f64)
}

/// The connections that were recorded.
struct Connections {
    /// Number of connections to the allowed host.
    allowed: usize,
    /// Number of connections to the private address that a rule allows.
    named: usize,
    /// The address and the port of each other connection.
    denied: Vec<String>,
    /// Whether the last connections of the script were recorded.
    is_complete: bool,
    /// The denied addresses that a plain program reaches.
    reachable: Vec<String>,
}

fn read_connections(folder: &Path) -> Result<Connections, TaskError> {
    let mut denied = [read_lines(folder, "near")?, read_lines(folder, "far")?].concat();
    let mut take = |host: &str| {
        let before = denied.len();
        denied.retain(|connection| !connection.starts_with(&format!("{host} ")));
        before - denied.len()
    };
    let (allowed, named) = (take(ALLOWED), take(NAMED));
    let last = denied.iter().position(|connection| connection == "127.0.0.1 80");
    let is_complete = last.map(|last| denied.swap_remove(last)).is_some();
    let reachable = read_lines(folder, "reachable")?;
    Ok(Connections { allowed, named, denied, is_complete, reachable })
}

impl Connections {
    /// Returns reasons not to trust the result of the test, even if there are no denied
    /// connections.
    fn reasons_to_distrust_result(&self, fetches: &[Fetch]) -> Vec<String> {
        let Self { allowed, named, is_complete, reachable, .. } = self;
        let mut gaps = Vec::new();
        if reachable.len() < MIN_REACHABLE {
            gaps.push(format!("a plain program reaches only {reachable:?}"));
        }
        let expected = fetches.iter().filter(|fetch| fetch.is_reached).count();
        if !is_complete || *named == 0 || allowed + named < expected {
            gaps.push(format!("{allowed} and {named} connections, of at least {expected}"));
        }
        gaps
    }
}

fn all_fetches(n: u32) -> Vec<Fetch> {
    let mut fetches = control_fetches();
    for (index, (host, reason)) in SPELLINGS.iter().enumerate() {
        let (scheme, port) = [("http", ""), ("https", ""), ("http", ":8080")][index % 3];
        let url = format!("{scheme}://{host}{port}/");
        fetches.push(fetch_expected_to_fail(url_redirecting_to(&url), reason));
        fetches.push(fetch_expected_to_fail(url, reason));
    }
    for (url, reason) in URLS {
        fetches.push(fetch_expected_to_fail((*url).to_owned(), reason));
    }
    for (location, reason) in LOCATIONS {
        fetches.push(fetch_expected_to_fail(url_redirecting_to(location), reason));
    }
    for (address, kind) in ADDRESSES {
        let alone = host_name_for_addresses(&[address]);
        fetches.push(fetch_expected_to_fail(
            url_redirecting_to(&format!("http://{alone}/")),
            &only_addresses_error_text(kind),
        ));
        fetches.push(fetch_expected_to_fail(
            format!("http://{alone}/"),
            &only_addresses_error_text(kind),
        ));
        for mixed in [[ALLOWED, address], [address, ALLOWED]] {
            fetches.push(fetch_expected_to_succeed(format!(
                "http://{}/",
                host_name_for_addresses(&mixed)
            )));
        }
        let unreachable = host_name_for_addresses(&[UNREACHABLE, address]);
        fetches.push(fetch_expected_to_fail(format!("http://{unreachable}/"), UNREACHABLE));
    }
    for index in 0..n as usize {
        let (address, kind) = ADDRESSES[index / 2 % ADDRESSES.len()];
        let url =
            format!("http://flip.n{}.{}/", index / 2, host_name_for_addresses(&[ALLOWED, address]));
        fetches.push(match index % 2 {
            0 => fetch_expected_to_succeed(url),
            _ => fetch_expected_to_fail(url, &only_addresses_error_text(kind)),
        });
    }
    fetches
}

/// Returns fetches of allowed hosts, and of hosts that remain denied although a rule allows them.
fn control_fetches() -> Vec<Fetch> {
    let mut controls = vec![
        fetch_expected_to_succeed(format!("http://{ALLOWED}/")),
        fetch_expected_to_succeed(format!("http://{ALLOWED}:8080/")),
        fetch_expected_to_succeed(format!("http://{}/", host_name_for_addresses(&[ALLOWED]))),
        fetch_expected_to_succeed(url_redirecting_to(&format!(
            "http://{}/",
            host_name_for_addresses(&[ALLOWED])
        ))),
        fetch_expected_to_succeed(format!("http://{NAMED}/")),
        fetch_expected_to_succeed(url_redirecting_to(&format!("http://{NAMED}/"))),
        fetch_expected_to_succeed(format!("http://{}/", rule_allowed_host_name(NAMED))),
        fetch_expected_to_succeed(url_redirecting_to(&format!(
            "http://{}/",
            rule_allowed_host_name(NAMED)
        ))),
    ];
    let denied = never_allowed_addresses().map(|(address, kind)| {
        fetch_expected_to_fail(
            format!("http://{}/", rule_allowed_host_name(address)),
            &only_addresses_error_text(kind),
        )
    });
    controls.extend(denied);
    controls
}

fn fetch_expected_to_succeed(url: String) -> Fetch {
    Fetch { url, expected: "reached".to_owned(), is_reached: true }
}

fn fetch_expected_to_fail(url: String, reason: &str) -> Fetch {
    Fetch { url, expected: reason.to_owned(), is_reached: false }
}

/// Returns a URL of the allowed host that redirects to `location`.
fn url_redirecting_to(location: &str) -> String {
    let hex: String = location.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("http://{ALLOWED}/to/{hex}")
}

/// Returns the host name that the name server resolves to these addresses.
fn host_name_for_addresses(addresses: &[&str]) -> String {
    let label = |address: &&str| match address.parse() {
        Ok(IpAddr::V4(address)) => format!("a{:08x}.", address.to_bits()),
        Ok(IpAddr::V6(address)) => format!("b{:032x}.", address.to_bits()),
        Err(_) => String::new(),
    };
    addresses.iter().map(label).collect::<String>() + "answers.example"
}

/// Returns a host name that a rule allows, and that the name server resolves to this address.
fn rule_allowed_host_name(address: &str) -> String {
    format!("named.{}", host_name_for_addresses(&[address]))
}

/// Returns the addresses that stay denied even if a rule allows them.
fn never_allowed_addresses() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    ADDRESSES.iter().filter(|(_, kind)| *kind != "private")
}

/// Returns a part of the error for a host name that has only addresses of this kind.
fn only_addresses_error_text(kind: &str) -> String {
    format!("has only {kind} addresses")
}

/// Writes the files that the agent and the script of the network read.
fn write_files(scratch: &ScratchFolders, fetches: &[Fetch]) -> Result<(), TaskError> {
    let one_turn = |fetch: &Fetch| {
        scripted_call("fetch", &json!({"url": fetch.url})) + &done_and_end_turn_lines()
    };
    let hosts = never_allowed_addresses().map(|(address, _)| rule_allowed_host_name(address));
    let hosts =
        hosts.chain([rule_allowed_host_name(NAMED), NAMED.to_owned(), "168.63.129.16".to_owned()]);
    let rule = |host| json!({"scope": "user", "verdict": "allow", "matcher": {"host": host}});
    let rules = json!({"rules": hosts.map(rule).collect::<Vec<_>>()});
    let state = scratch.home().join(".local/state/callboard/permissions");
    fs::create_dir_all(&state).map_err(|error| TaskError::Failed(error.to_string()))?;
    for (name, text) in [
        ("home/.local/state/callboard/permissions/user.json", rules.to_string()),
        ("cwd/script.jsonl", fetches.iter().map(one_turn).collect()),
        ("cwd/network.sh", NETWORK.to_owned()),
        ("cwd/resolv.conf", "nameserver 81.2.69.141\n".to_owned()),
        ("cwd/nsswitch.conf", "hosts: files dns\n".to_owned()),
        ("cwd/hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
    ] {
        scratch.write_file(name, &text)?;
    }
    Ok(())
}

/// Returns the command of an agent in the network of the test. All processes of the network end
/// when the command ends.
fn agent_command(built: &ReleasePrograms, scratch: &ScratchFolders, mode: &str) -> Command {
    let folder = scratch.cwd();
    let mut command = isolated_command(Path::new("unshare"), scratch);
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy).env_remove(proxy.to_ascii_lowercase());
    }
    command.args(["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "sh"]).arg(folder.join("network.sh"));
    let addresses: Vec<_> = ADDRESSES.iter().map(|(address, _)| *address).collect();
    command.arg(&built.denied_hosts).arg(&folder).arg(addresses.join(" "));
    let model = format!("script:{}", folder.join("script.jsonl").display());
    command.arg(&built.callboard).args(["acp", "--ephemeral", "--no-sandbox", "--mode", mode]);
    command.args(["--model", &model]);
    command
}

/// Runs a turn for each fetch. Returns a description of each fetch whose result is not the expected
/// result.
fn find_unexpected_fetch_results(
    command: &mut Command,
    folder: &Path,
    fetches: &[Fetch],
) -> Result<Vec<String>, TaskError> {
    let mut client = AllowingClient::start(command, folder)?;
    let mut wrong = Vec::new();
    for Fetch { url, expected, is_reached } in fetches {
        let ended = client.run_turn()?;
        let status = if *is_reached { "completed" } else { "failed" };
        if ended["status"] != status || !ended.to_string().contains(expected.as_str()) {
            wrong.push(format!("{url}: not {status} with {expected:?}: {ended}"));
        }
    }
    client.end()?;
    Ok(wrong)
}

fn read_lines(folder: &Path, name: &str) -> Result<Vec<String>, TaskError> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| TaskError::Failed(format!("{}: {error}", path.display())))?;
    Ok(text.lines().map(str::to_owned).collect())
}
