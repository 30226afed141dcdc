//! Tests of the precedence of the sources, and of errors for invalid values.

use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_mcp::McpTransport;
use pretty_assertions::assert_eq;

use super::{Config, ConfigRow, Flags, config_file_path};
use crate::secrets::process_secrets;
use callboard_runtime::{PermissionMode, SessionRetention};

const FILE: &str = "/c/config.toml";

fn env(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn config(text: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let path = Some(PathBuf::from(FILE));
    Config::merge_sources(path, text, &env(variables), flags).map_err(|error| error.to_string())
}

/// Returns the value of a key, and its source.
fn shown_row(config: &Config, key: &str) -> Option<(String, String)> {
    let rows = config.display_rows().into_iter();
    rows.filter(|row| row.key == key)
        .find_map(|ConfigRow { value, source, .. }| Some((value?, source)))
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn a_flag_overrides_a_variable_overrides_the_file_overrides_the_default() {
    let file = "locale = 'de_DE.UTF-8'\nmodel = 'openai/file'\nmode = 'read-only'\n";
    let variables = [
        ("CALLBOARD_MODEL", "openai/variable"),
        ("CALLBOARD_MODE", "ask-always"),
        ("CALLBOARD_LOCALE", "de"),
    ];
    let flags = || Flags {
        model: Some("openai/flag".to_owned()),
        mode: Some(PermissionMode::Ask),
        locale: Some("en".to_owned()),
        ephemeral: false,
        no_sandbox: false,
    };
    let empty = [("CALLBOARD_MODEL", ""), ("CALLBOARD_MODE", ""), ("CALLBOARD_LOCALE", "")];
    for (text, variables, flags, model, mode, locale) in [
        (
            file,
            &variables[..],
            flags(),
            Some(pair("openai/flag", "--model")),
            Some(pair("ask", "--mode")),
            Some(pair("en", "--locale")),
        ),
        (
            file,
            &variables,
            Flags::default(),
            Some(pair("openai/variable", "CALLBOARD_MODEL")),
            Some(pair("ask-always", "CALLBOARD_MODE")),
            Some(pair("de", "CALLBOARD_LOCALE")),
        ),
        (
            file,
            &empty,
            Flags::default(),
            Some(pair("openai/file", "/c/config.toml:2")),
            Some(pair("read-only", "/c/config.toml:3")),
            Some(pair("de_DE.UTF-8", "/c/config.toml:1")),
        ),
        ("", &[], Flags::default(), None, Some(pair("ask", "default")), None),
    ] {
        let config = config(text, variables, flags).unwrap();
        assert_eq!(shown_row(&config, "model"), model);
        assert_eq!(shown_row(&config, "mode"), mode);
        assert_eq!(shown_row(&config, "locale"), locale);
    }
}

#[test]
fn each_provider_has_a_table_that_variables_override() {
    let text = "[providers.openai]\nbase_url = 'https://a.example/v1'\nkey_env = 'A_KEY'\n\
        ca_file = 'ca.pem'\ntools = 'json_schema'\ncontext_tokens = 9000\nmodels = ['x', 'y/z']\n\
        [providers.openai-responses]\nca_file = '/ca.pem'\n";
    let variables =
        [("OPENAI_API_KEY", "sk-other"), ("A_KEY", "sk-mine"), ("OLLAMA_HOST", "0.0.0.0:1234")];
    let config = config(text, &variables, Flags::default()).unwrap();
    let line = |line: usize| format!("{FILE}:{line}");
    for (key, value, source) in [
        ("openai.base_url", "https://a.example/v1", line(2)),
        ("openai.key_env", "A_KEY", line(3)),
        ("openai.key", "(set)", "A_KEY".to_owned()),
        ("openai.ca_file", "/c/ca.pem", line(4)),
        ("openai.tools", "json_schema", line(5)),
        ("openai.context_tokens", "9000", line(6)),
        ("openai.models", "x, y/z", line(7)),
        ("openai-responses.ca_file", "/ca.pem", line(9)),
        ("openai-responses.key", "(set)", "A_KEY".to_owned()),
        ("ollama.base_url", "http://127.0.0.1:1234", "OLLAMA_HOST".to_owned()),
    ] {
        assert_eq!(
            shown_row(&config, &format!("providers.{key}")),
            Some(pair(value, &source)),
            "{key}"
        );
    }
    assert_eq!(shown_row(&config, "providers.anthropic.key"), None);
    let rows = format!("{:?} {config:?}", config.display_rows());
    assert!(!rows.contains("sk-"), "{rows}");
}

#[test]
fn an_unusable_ollama_host_is_ignored() {
    let file = "[providers.ollama]\nbase_url = 'http://box:1'\n";
    for (host, url, source) in [
        ("not a host", "http://box:1", "/c/config.toml:2"),
        ("::", "http://[::1]:11434", "OLLAMA_HOST"),
        ("\"127.0.0.1:11434\"", "http://127.0.0.1:11434", "OLLAMA_HOST"),
    ] {
        let config = config(file, &[("OLLAMA_HOST", host)], Flags::default()).unwrap();
        let shown = shown_row(&config, "providers.ollama.base_url");
        assert_eq!(shown, Some(pair(url, source)), "{host}");
    }
}

#[test]
fn a_variable_named_in_the_file_replaces_the_default_variables() {
    let text = "[providers.openai]\nkey_env = 'A_KEY'\n";
    let config = config(text, &[("OPENAI_API_KEY", "sk-other")], Flags::default()).unwrap();
    assert_eq!(shown_row(&config, "providers.openai.key"), None);
}

#[test]
fn openais_second_dialect_inherits_missing_settings_from_the_first() {
    const OPENAI: &str = "[providers.openai]\nbase_url = 'https://a/v1'\nkey_env = 'A_KEY'\n\
        ca_file = '/a.pem'\n[providers.openai-responses]\n";
    let variables = [("OPENAI_API_KEY", "sk-other"), ("A_KEY", "sk-mine"), ("B_KEY", "sk-b")];
    let other_url = [("OPENAI_BASE_URL", "https://v/v1"), ("A_KEY", "sk-mine")];
    for (own, variables, url, key, ca_file) in [
        ("", &variables[..], "https://a/v1", Some("A_KEY"), Some("/a.pem")),
        ("", &other_url, "https://v/v1", Some("A_KEY"), Some("/a.pem")),
        ("key_env = 'B_KEY'", &variables, "https://a/v1", Some("B_KEY"), Some("/a.pem")),
        ("ca_file = '/b.pem'", &variables, "https://a/v1", Some("A_KEY"), Some("/b.pem")),
        ("base_url = 'https://a/v1'", &variables, "https://a/v1", Some("A_KEY"), Some("/a.pem")),
        // A key is never sent to another server.
        ("base_url = 'https://b/v1'", &variables, "https://b/v1", None, None),
        (
            "base_url = 'https://b/v1'\nkey_env = 'B_KEY'",
            &variables,
            "https://b/v1",
            Some("B_KEY"),
            None,
        ),
    ] {
        let config = config(&format!("{OPENAI}{own}"), variables, Flags::default()).unwrap();
        let of = |name: &str| shown_row(&config, &format!("providers.openai-responses.{name}"));
        assert_eq!(of("base_url").map(|(value, _)| value).as_deref(), Some(url), "{own}");
        assert_eq!(of("key").map(|(_, source)| source).as_deref(), key, "{own}");
        assert_eq!(of("ca_file").map(|(value, _)| value).as_deref(), ca_file, "{own}");
    }
}

#[test]
fn openais_default_key_is_sent_only_to_openais_server() {
    for (text, key) in [
        ("", Some("OPENAI_API_KEY")),
        ("base_url = 'http://other/v1'", None),
        ("base_url = 'https://api.openai.com/v1/'", Some("OPENAI_API_KEY")),
    ] {
        let file = format!("[providers.openai-responses]\n{text}\n");
        let config = config(&file, &[("OPENAI_API_KEY", "sk-mine")], Flags::default()).unwrap();
        let key_of = |name: &str| shown_row(&config, &format!("providers.{name}.key"));
        assert_eq!(key_of("openai-responses").map(|(_, source)| source).as_deref(), key, "{text}");
        assert!(key_of("openai").is_some(), "{text}");
    }
}

#[test]
fn errors_name_the_location_and_never_contain_a_key() {
    for (text, variables, place, says) in [
        ("\nmodell = 'x'", &[][..], ":2:", "unknown field `modell`"),
        ("model = 'gpt'", &[], ":1:", "unknown model `gpt`"),
        ("model = 3", &[], ":1:", "invalid type"),
        ("model = ", &[], ":1:", ""),
        ("a = 1\na = 2", &[], ":", ""),
        ("[terminal]\nenv_pass = ['MY_TOKEN']", &[], ":2:", "MY_TOKEN is named like a secret"),
        ("mode = 'yolo'", &[], ":1:", "`ask`, "),
        ("locale = 'xx-yy-zz!!'", &[], ":1:", "locale must be one of `en`, `de`"),
        ("locale = 'de-!!'", &[], ":1:", "locale must be one of `en`, `de`"),
        ("locale = ''", &[], ":1:", "locale must be one of `en`, `de`"),
        ("", &[("CALLBOARD_LOCALE", "fr")], "CALLBOARD_LOCALE:", "locale must be one of"),
        ("[providers.openrouter]", &[], ":1:", "`openrouter`"),
        ("[providers.openai]\nkey = 'sk-1234567890'", &[], ":2:", "unknown field `key`"),
        ("[providers.openai]\nkey_env = 'sk-1234567890'", &[], ":2:", "name a variable"),
        ("[providers.openai]\nkey_env = ''", &[], ":2:", "name a variable"),
        ("[providers.openai]\nbase_url = 'example.org/v1'", &[], ":2:", "base_url"),
        ("[providers.openai]\nbase_url = 'ftp://example.org'", &[], ":2:", "base_url"),
        ("[providers.openai]\n\ntools = 'none'", &[], ":3:", "`json_schema`"),
        ("[providers.openai]\ntools = 'sk-1234567890'", &[], ":2:", "expected `native`"),
        ("[providers.openai]\ntools = \"sk-1234567890\"", &[], ":2:", "expected `native`"),
        ("[providers.openai]\nmodels = 'sk-1234567890'", &[], ":2:", "invalid type, expected"),
        ("[providers.openai]\ncontext_tokens = 'sk-1234567890'", &[], ":2:", "whole number"),
        ("[sessions]\nenabled = 'sk-1234567890'", &[], ":2:", "expected a boolean"),
        ("mode = 'yolo'", &[("CALLBOARD_MODE", "ask")], ":1:", "`ask`, "),
        ("model = 'gpt'", &[("CALLBOARD_MODEL", "direct")], ":1:", "unknown model `gpt`"),
        ("locale = 'fr'", &[("CALLBOARD_LOCALE", "de")], ":1:", "locale must be one of"),
        ("[providers.openai]\ncontext_tokens = 0", &[], ":2:", "at least 1"),
        ("[providers.openai]\nmodels = []", &[], ":2:", "models"),
        ("", &[("CALLBOARD_MODE", "yolo")], "CALLBOARD_MODE:", "`ask`, "),
        ("", &[("CALLBOARD_MODEL", "gpt")], "CALLBOARD_MODEL:", "unknown model `gpt`"),
        ("", &[("OPENAI_BASE_URL", "here")], "OPENAI_BASE_URL:", "base_url"),
    ] {
        let error = config(text, variables, Flags::default()).unwrap_err();
        let place =
            if place.starts_with(':') { format!("{FILE}{place}") } else { place.to_owned() };
        assert!(error.starts_with(&place) && error.contains(says), "{text}: {error}");
        assert!(!error.contains("sk-1234") && !error.contains('\n'), "{text}: {error}");
    }
    let flags = Flags { mode: Some(PermissionMode::Ask), ..Flags::default() };
    let overridden = config("mode = 'yolo'", &[], flags).unwrap_err();
    assert!(overridden.starts_with(&format!("{FILE}:1: mode must be")), "{overridden}");
    let flags = Flags { model: Some("gpt".to_owned()), ..Flags::default() };
    let of_flag = Config::merge_sources(None, "", &[], flags).unwrap_err();
    assert!(of_flag.is_flag_error(), "{of_flag}");
}

#[test]
fn a_locale_may_have_a_region_and_a_codeset() {
    for locale in ["en", "DE", "de-AT", "de_CH.UTF-8@euro", "en-Latn-US", "C", "C.UTF-8", "POSIX"] {
        let config = config("", &[("CALLBOARD_LOCALE", locale)], Flags::default()).unwrap();
        assert_eq!(config.locale.unwrap().value, locale);
    }
}

#[test]
fn sessions_are_stored_unless_the_file_or_a_flag_disables_it() {
    let off = "[sessions]\nenabled = false\n";
    for (text, ephemeral, expected) in [("", false, true), (off, false, false), ("", true, false)] {
        let flags = Flags { ephemeral, ..Flags::default() };
        let config = Config::merge_sources(None, text, &[], flags).unwrap();
        assert_eq!(config.stores_sessions.value, expected);
    }
}

#[test]
fn the_file_sets_the_positive_limits_for_stored_sessions() {
    let default = config("", &[], Flags::default()).unwrap();
    assert_eq!(default.session_retention(), SessionRetention::default());
    let text = "[sessions]\nkeep_days = 7\nmax_bytes = 1000\n";
    let set = config(text, &[], Flags::default()).unwrap();
    let keep = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(set.session_retention(), SessionRetention::new(keep, 1000));
    assert_eq!(shown_row(&set, "sessions.keep_days"), Some(pair("7", "/c/config.toml:2")));
    assert_eq!(shown_row(&set, "sessions.max_bytes"), Some(pair("1000", "/c/config.toml:3")));
    for (wrong, expected) in [
        ("keep_days = 0", "/c/config.toml:2: invalid value, expected a whole number"),
        ("max_bytes = -1", "/c/config.toml:2: invalid value, expected a whole number"),
        (
            "max_bytes = '1 GB'",
            "/c/config.toml:2: invalid type, expected a whole number of at least 1",
        ),
        ("keep_day = 1", "/c/config.toml:2: unknown field `keep_day`"),
    ] {
        let error = config(&format!("[sessions]\n{wrong}\n"), &[], Flags::default()).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_environment_determines_the_path_of_the_file() {
    for (variables, expected) in [
        (&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")][..], Some("/x/callboard/config.toml")),
        (&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")], Some("/h/.config/callboard/config.toml")),
        (&[("HOME", "/h")], Some("/h/.config/callboard/config.toml")),
        (&[("HOME", "")], None),
        (&[], None),
    ] {
        assert_eq!(
            config_file_path(&env(variables)).as_deref(),
            expected.map(Path::new),
            "{variables:?}"
        );
    }
}

#[cfg(unix)]
mod files {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{Config, Flags, env};

    #[test]
    fn a_file_that_others_can_write_is_refused_and_a_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let variables = env(&[("HOME", &home.path().to_string_lossy())]);
        let load = || Config::load(&variables, Flags::default());
        assert!(load().unwrap().model.is_none());
        let folder = home.path().join(".config/callboard");
        fs::create_dir_all(&folder).unwrap();
        let (real, path) = (home.path().join("real.toml"), folder.join("config.toml"));
        fs::write(&real, "model = 'direct'").unwrap();
        symlink(&real, &path).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load().unwrap().model.unwrap().value, "direct");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o664)).unwrap();
        let error = load().unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains("others may write it"), "{error}");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&real, [0xff]).unwrap();
        assert!(load().unwrap_err().to_string().ends_with("it is not UTF-8"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(load().unwrap_err().to_string().ends_with("it is no file"));
    }
}

#[test]
fn a_search_service_needs_an_address_and_an_encrypted_key() {
    let key = [("KEY", "k-123")];
    let host = |text: &str| {
        config(text, &key, Flags::default()).map(|it| it.web_search.unwrap().value.host())
    };
    for (section, expected) in [
        ("service = 'brave'\nkey_env = 'KEY'", Ok("api.search.brave.com")),
        ("service = 'tavily'", Ok("api.tavily.com")),
        ("service = 'searxng'\nurl = 'https://s.example/search'", Ok("s.example")),
        ("service = 'brave'\nurl = 'http://127.0.0.1:8/x'\nkey_env = 'KEY'", Ok("127.0.0.1")),
        ("service = 'searxng'", Err("web.search.url is missing")),
        ("service = 'other'", Err("must be `searxng`, `brave` or `tavily`")),
        ("service = 'brave'\nurl = 'http://s.example'\nkey_env = 'KEY'", Err("unencrypted")),
        ("service = 'brave'\nurl = 'file:///x'", Err("web.search: ")),
        ("service = 'brave'\nkey = 'k-123'", Err("unknown field")),
    ] {
        match (host(&format!("[web.search]\n{section}")), expected) {
            (Ok(host), Ok(expected)) => assert_eq!(host, expected),
            (Err(error), Err(part)) => {
                assert!(error.starts_with("/c/config.toml:") && error.contains(part), "{error}");
                assert!(!error.contains("k-123"), "{error}");
            }
            (other, _) => panic!("{section}: {other:?}"),
        }
    }
    assert!(config("", &[], Flags::default()).unwrap().web_search.is_none());
}

#[test]
fn servers_and_the_search_service_are_shown_without_their_secrets() {
    let file = "[mcp]
first_prompt_wait = 5
[mcp_servers.one]
command = 'one-server'
env = { TOKEN = 'k-123' }
[mcp_servers.three]
command = 'three-server'
sandbox = true
[mcp_servers.two]
url = 'https://two.example/mcp'
headers_env = { X-Key = 'KEY' }
[web.search]
service = 'brave'
key_env = 'KEY'
";
    let config = config(file, &[("KEY", "k-123")], Flags::default()).unwrap();
    for (key, value, line) in [
        ("mcp.first_prompt_wait", "5", 2),
        ("mcp_servers.one", "one-server", 3),
        ("mcp_servers.three", "three-server (sandboxed)", 6),
        ("mcp_servers.two", "https://two.example/mcp", 9),
        ("web.search", "api.search.brave.com", 12),
    ] {
        assert_eq!(shown_row(&config, key), Some(pair(value, &format!("{FILE}:{line}"))), "{key}");
    }
    let rows = config.display_rows();
    assert!(!format!("{rows:?}").contains("k-123"), "{rows:?}");
}

#[test]
fn a_relative_path_of_a_server_is_relative_to_the_configuration_folder() {
    for (command, expected) in [
        ("./tools/srv", "/c/./tools/srv"),
        ("tools/srv", "/c/tools/srv"),
        ("../srv", "/c/../srv"),
        ("/opt/srv", "/opt/srv"),
        ("srv", "srv"),
    ] {
        let file = format!("[mcp_servers.a]\ncommand = '{command}'\ncwd = 'work'\n");
        let config = config(&file, &[], Flags::default()).unwrap();
        let McpTransport::Stdio { command, cwd, .. } = &config.mcp_servers[0].value.transport
        else {
            panic!("{config:?}");
        };
        assert_eq!(command, expected);
        assert_eq!(cwd.as_deref(), Some(Path::new("/c/work")));
    }
}

#[test]
fn a_token_of_a_server_is_redacted_without_its_scheme() {
    let file = "[mcp_servers.two]
url = 'https://two.example/mcp'
headers_env = { Authorization = 'LOGIN' }
";
    config(file, &[("LOGIN", "Bearer letters-of-a-header")], Flags::default()).unwrap();
    let shown = process_secrets().redact("It is letters-of-a-header.").into_owned();
    assert_eq!(shown, "It is [redacted].");
}
