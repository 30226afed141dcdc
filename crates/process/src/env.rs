//! The environment of a command: an allow list of variables and a few fixed values.
//!
//! Only [`own_env`] and [`hide_env_from_other_processes`] access the environment of this process;
//! all other functions use only their arguments.

use std::collections::BTreeMap;

#[cfg_attr(target_os = "linux", path = "env/hidden_linux.rs")]
mod hidden;

/// Names of the variables that commands receive. All other variables are withheld, so that commands
/// do not receive keys and tokens of our own environment. Variables that change how programs start
/// (`LD_*`, `BASH_ENV`, `GIT_*`, …) are withheld too.
const ALLOWED_VARIABLES: &[&str] = &[
    // User and shell.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "USER",
    // User and shell on Windows, and the variables that Windows programs need to start.
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
    // Language and time.
    "LANG",
    "TZ",
    // Proxies; `is_allowed` and `is_secret_name_or_value` withhold proxy URLs that contain a
    // password.
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    // Build settings of the user.
    "AR",
    "CC",
    "CFLAGS",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "GOFLAGS",
    "GOPRIVATE",
    "GOPROXY",
    "GRADLE_OPTS",
    "LDFLAGS",
    "MAVEN_OPTS",
    "NODE_ENV",
    "NODE_PATH",
    "PYTHONPATH",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    // Service locations.
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "CLOUDSDK_CORE_PROJECT",
    "DOCKER_HOST",
    "KUBECONFIG",
    // Toolchain locations.
    "ANDROID_HOME",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "MAVEN_HOME",
    "NIX_PATH",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    // Trusted certificates.
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // The socket of a signing agent, which `git push` needs; the socket is not a key.
    "SSH_AUTH_SOCK",
];

/// Name prefixes of variables that commands receive, except variables that look like secrets (see
/// [`is_secret_name_or_value`]).
const ALLOWED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// A variable is a secret if its name contains one of these words, in upper or lower case.
const SECRET_WORDS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"];

/// A variable is a secret if its name has one of these endings. It is also a secret if its whole
/// name is an ending without the leading `_`, e.g. `AUTH`.
const SECRET_ENDS: &[&str] = &["_AUTH", "_DSN", "_PAT"];

/// Variables that every command receives with these values, regardless of the parent's environment.
/// They ensure that no pager, prompt or editor waits for user input.
pub const FIXED_VARIABLES: &[(&str, &str)] = &[
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("TERM", "xterm-256color"),
];

/// Value of a command's `PATH` if the parent has no `PATH`. An editor may start an agent with an
/// empty environment.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the environment of a command: the allowed variables of `parent` and the
/// [`FIXED_VARIABLES`].
///
/// Use [`base_env_with_allowed_names`] to pass additional variables.
///
/// ```
/// use callboard_process::env::base_env;
/// let parent = [("HOME", "/home/ada"), ("OPENAI_API_KEY", "sk-1")];
/// let env = base_env(parent.map(|(n, v)| (n.into(), v.into())).into_iter());
/// assert_eq!(env["HOME"], "/home/ada");
/// assert_eq!(env["PAGER"], "cat");
/// assert!(!env.contains_key("OPENAI_API_KEY"));
/// ```
pub fn base_env(parent: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    base_env_with_allowed_names(parent, &[])
}

/// Returns the result of [`base_env`], plus the variables of `parent` whose names are in `more`.
/// Variables whose names look like [secrets](is_secret_name_or_value) are never included.
/// [`FIXED_VARIABLES`] keep their values.
pub fn base_env_with_allowed_names(
    parent: impl Iterator<Item = (String, String)>,
    more: &[String],
) -> BTreeMap<String, String> {
    let parent: BTreeMap<_, _> = parent.collect();
    let is_named =
        |name: &str| more.iter().any(|other| other == name) && !is_secret_name_or_value(name, "");
    let passes = |name: &str, value: &str| {
        is_allowed(name) && !is_secret_name_or_value(name, value)
            || is_named(name) && !is_secret_name_or_value(name, "")
    };
    let passed = parent.iter().filter(|(name, value)| passes(name, value));
    let mut env: BTreeMap<_, _> =
        passed.map(|(name, value)| (name.clone(), value.clone())).collect();
    env.extend(
        FIXED_VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    forbid_git_bare_repositories(&mut env, &parent);
    let path = env.entry("PATH".to_owned()).or_default();
    if path.is_empty() {
        DEFAULT_PATH.clone_into(path);
    }
    env
}

/// Sets git's `safe.bareRepository` to `explicit`. Otherwise a model could write files that git
/// accepts as a bare repository, and the configuration of such a repository can run commands. If
/// the command receives `GIT_CONFIG_COUNT`, the setting is appended to the user's own settings.
fn forbid_git_bare_repositories(
    env: &mut BTreeMap<String, String>,
    parent: &BTreeMap<String, String>,
) {
    let pair = |number: usize| {
        let names = [format!("GIT_CONFIG_KEY_{number}"), format!("GIT_CONFIG_VALUE_{number}")];
        names.map(|name| Some((name.clone(), parent.get(&name)?.clone())))
    };
    let count = env.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
    let pairs: Option<Vec<_>> = (0..count.min(MAX_GIT_CONFIG_ENTRIES)).flat_map(pair).collect();
    let pairs = pairs.unwrap_or_default();
    let count = pairs.len() / 2;
    env.extend(pairs);
    env.insert(format!("GIT_CONFIG_KEY_{count}"), "safe.bareRepository".to_owned());
    env.insert(format!("GIT_CONFIG_VALUE_{count}"), "explicit".to_owned());
    env.insert("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string());
}

/// Maximum number of git settings that are copied from the parent.
const MAX_GIT_CONFIG_ENTRIES: usize = 256;

/// Returns the variables of this process whose names and values are valid Unicode.
/// (`std::env::vars` panics on other variables.)
pub fn own_env() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Hides the variables of this process that commands do not receive, so that other processes cannot
/// read them. Returns whether hiding succeeded.
///
/// Call this function at the start of `main`, after
/// [`run_if_command_helper`](crate::run_if_command_helper) and before any thread is started. This
/// process itself keeps all of its variables. On Linux, every process of the same user can read
/// `/proc/PID/environ`. After the call, this file contains only the allowed variables. Moreover,
/// only root can read or debug the memory of this process, and a crash writes no core dump. The
/// function does nothing outside Linux, or if the process has several threads.
pub fn hide_env_from_other_processes() -> bool {
    hidden::hide_from_other_processes(|name| str::from_utf8(name).is_ok_and(is_allowed))
}

fn is_allowed(name: &str) -> bool {
    let is_one = |listed: &&str| match cfg!(windows) {
        true => listed.eq_ignore_ascii_case(name),
        false => *listed == name,
    };
    let prefixed = ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    (ALLOWED_VARIABLES.iter().any(is_one) || prefixed) && !is_secret_name_or_value(name, "")
}

/// Returns whether a variable is a secret: its name looks like a secret, e.g. `OPENAI_API_KEY`, or
/// its value is a URL with a password. [`base_env`] never passes a secret.
/// [`base_env_with_allowed_names`] passes a listed variable whose value is a URL with a password,
/// but never a variable whose name looks like a secret.
#[must_use]
pub fn is_secret_name_or_value(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
        || SECRET_ENDS.iter().any(|end| upper.ends_with(end) || upper == end[1..])
        || url_password(value).is_some()
}

/// Returns the password of a URL of the form `scheme://user:password@host`.
#[must_use]
pub fn url_password(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme =
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let (authority, _) = rest.split_once(['/', '?', '#']).unwrap_or((rest, ""));
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (is_scheme && !password.is_empty()).then_some(password)
}

/// Returns the secrets in the value of an HTTP header: the value, and the credentials without their
/// scheme if the value has the form `SCHEME CREDENTIALS` (RFC 9110, section 11.4), e.g. `Bearer
/// TOKEN`. A program may show the credentials alone.
pub fn secrets_in_http_header_value(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.trim().split_once(char::is_whitespace);
    let credentials = parts.map(|(_scheme, credentials)| credentials.trim_start());
    std::iter::once(value).chain(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(parent: &[(&str, &str)]) -> BTreeMap<String, String> {
        base_env(parent.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    #[test]
    fn only_listed_variables_without_secrets_pass() {
        for (name, passes) in [
            ("HOME", true),
            ("CARGO_HOME", true),
            ("SSH_AUTH_SOCK", true),
            ("LC_ALL", true),
            ("XDG_RUNTIME_DIR", true),
            ("XDG_API_TOKEN", false),
            ("LC_secret", false),
            ("XDG_SESSION_COOKIE", false),
            ("home", false),
            ("HOME2", false),
            ("", false),
            ("OPENAI_API_KEY", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("LD_PRELOAD", false),
            ("BASH_ENV", false),
            ("ENV", false),
            ("GIT_DIR", false),
            ("GIT_CONFIG_KEY_0", true),
            ("NODE_OPTIONS", false),
            ("HTTP_PROXY", true),
            ("https_proxy", true),
            ("RUSTFLAGS", true),
            ("KUBECONFIG", true),
            ("XDG_AUTH", false),
            ("LC_DSN", false),
            ("XDG_X_PAT", false),
            ("COLORTERM", false),
            ("ACP_TOOLS_COMMAND", false),
        ] {
            assert_eq!(env(&[(name, "x")]).contains_key(name), passes, "{name}");
        }
    }

    #[test]
    fn a_url_with_a_password_never_passes() {
        for (url, is_secret) in [
            ("http://proxy:3128", false),
            ("http://ada@proxy:3128", false),
            ("http://ada:pw@proxy:3128", true),
            ("socks5h://ada:p@w@proxy", true),
            ("http://proxy/a:b@c", false),
            ("proxy:3128", false),
        ] {
            assert_eq!(env(&[("HTTP_PROXY", url)]).contains_key("HTTP_PROXY"), !is_secret, "{url}");
            assert_eq!(is_secret_name_or_value("X", url), is_secret, "{url}");
        }
        assert_eq!(url_password("http://ada:p@w@proxy/x"), Some("p@w"));
    }

    #[test]
    fn git_trusts_no_bare_repository_and_keeps_the_users_settings() {
        let parent = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "Ada"),
        ];
        let own = |env: &BTreeMap<String, String>, number: &str| {
            let of = |name: &str| env[&format!("GIT_CONFIG_{name}_{number}")].clone();
            (env["GIT_CONFIG_COUNT"].clone(), of("KEY"), of("VALUE"))
        };
        let expected = |count: &str| {
            (count.to_owned(), "safe.bareRepository".to_owned(), "explicit".to_owned())
        };
        assert_eq!(own(&env(&parent), "0"), expected("1"));
        let parent = parent.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = base_env_with_allowed_names(parent.into_iter(), &["GIT_CONFIG_COUNT".to_owned()]);
        assert_eq!(own(&env, "1"), expected("2"));
        assert_eq!((&*env["GIT_CONFIG_KEY_0"], &*env["GIT_CONFIG_VALUE_0"]), ("user.name", "Ada"));
    }

    #[test]
    fn fixed_variables_override_the_parent() {
        let env = env(&[("TERM", "dumb"), ("PAGER", "less"), ("GIT_TERMINAL_PROMPT", "1")]);
        for (name, value) in FIXED_VARIABLES {
            assert_eq!(env[*name], *value);
        }
    }

    #[test]
    fn variables_named_by_the_user_pass_unless_they_are_secrets() {
        let parent =
            ["HTTPS_PROXY", "NPM_TOKEN", "TERM", "OTHER"].map(|name| (name.into(), "x".into()));
        let more = ["HTTPS_PROXY", "NPM_TOKEN", "TERM", "NOT_THERE"].map(String::from);
        let env = base_env_with_allowed_names(parent.into_iter(), &more);
        assert_eq!((&*env["HTTPS_PROXY"], &*env["TERM"]), ("x", "xterm-256color"));
        // `PATH`, and the settings for git.
        assert_eq!(env.len(), FIXED_VARIABLES.len() + 2 + 3, "{env:?}");
    }

    #[test]
    fn the_credentials_of_a_header_are_a_secret_without_their_scheme() {
        for (value, expected) in [
            ("hunter2hunter2", &["hunter2hunter2"][..]),
            ("Bearer hunter2", &["Bearer hunter2", "hunter2"]),
            (" Basic  aHVudGVyMg== ", &[" Basic  aHVudGVyMg== ", "aHVudGVyMg=="]),
            ("Digest a=1, b=2", &["Digest a=1, b=2", "a=1, b=2"]),
            ("", &[""]),
        ] {
            assert_eq!(secrets_in_http_header_value(value).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_missing_or_empty_path_gets_a_default() {
        for (parent, path) in [
            (&[][..], DEFAULT_PATH),
            (&[("PATH", "")][..], DEFAULT_PATH),
            (&[("PATH", "/opt/bin")][..], "/opt/bin"),
        ] {
            assert_eq!(env(parent)["PATH"], path);
        }
    }
}
