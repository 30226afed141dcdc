//! The environment a command is given: a list of what may pass, never what happens to be there.
//!
//! Pure: reads nothing but its argument, except [`parent`], which is for callers that have no
//! other source, and [`conceal`], which hides from commands what they are not given.

use std::collections::BTreeMap;

use crate::sys::environment;

/// The variables that pass. Nothing else does, so that keys and tokens in our own environment
/// do not reach commands, nor what changes how programs start (`LD_*`, `BASH_ENV`, `GIT_*`, …).
pub const PASSED: &[&str] = &[
    // Who and where.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "USER",
    // Language and time.
    "LANG",
    "TZ",
    // Where toolchains are.
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
    // Whom they trust.
    "NIX_SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // The socket of an agent that signs, not a key: `git push` needs it.
    "SSH_AUTH_SOCK",
];

/// Variables that pass if they begin so and are not shaped like a [secret](SECRET_WORDS).
pub const PASSED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// A variable with one of these in its name, in any case, never passes.
pub const SECRET_WORDS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"];

/// What is set whatever the parent has: output goes to where nobody types, and no editor opens.
pub const SET: &[(&str, &str)] = &[
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("TERM", "xterm-256color"),
];

/// Where programs are looked for if the parent does not say: editors may start agents with an
/// empty environment.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment for a command: what may pass of `parent`, and what is always [`SET`].
///
/// See [`env_passing`] for more.
///
/// ```
/// let parent = [("HOME", "/home/ada"), ("OPENAI_API_KEY", "sk-1")];
/// let env = acp_tools::env::base_env(parent.map(|(n, v)| (n.into(), v.into())).into_iter());
/// assert_eq!(env["HOME"], "/home/ada");
/// assert_eq!(env["PAGER"], "cat");
/// assert!(!env.contains_key("OPENAI_API_KEY"));
/// ```
pub fn base_env(parent: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    env_passing(parent, &[])
}

/// The same as [`base_env`], and of `parent` also the variables that the user names, `more`, unless
/// they are shaped like a [secret](SECRET_WORDS) or always [`SET`].
pub fn env_passing(
    parent: impl Iterator<Item = (String, String)>,
    more: &[String],
) -> BTreeMap<String, String> {
    let is_named = |name: &String| more.contains(name) && !is_secret(name);
    let passes = |(name, _): &(String, String)| passes(name) || is_named(name);
    let mut env: BTreeMap<_, _> = parent.filter(passes).collect();
    env.extend(SET.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let path = env.entry("PATH".to_owned()).or_default();
    if path.is_empty() {
        DEFAULT_PATH.clone_into(path);
    }
    env
}

/// Our own environment, without what is not Unicode (which `std::env::vars` panics on).
pub fn parent() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Hides from other processes what commands are not given of our own environment: all but what is
/// [`PASSED`]. Returns whether that was done.
///
/// To be called first of all in `main`, behind [`helper_main`](crate::exec::helper_main), before
/// there is any thread. This process keeps all of its variables; but on Linux `/proc/PID/environ`,
/// in which whoever runs as the same user could read them, has only those left that pass. Besides,
/// only root can look into the memory of this process from then on, or debug it, and it leaves no
/// core dump. Does nothing once there are several threads, and nothing outside Linux.
pub fn conceal() -> bool {
    environment::hide(|name| str::from_utf8(name).is_ok_and(passes))
}

fn passes(name: &str) -> bool {
    let listed = PASSED.contains(&name);
    let prefixed = PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    (listed || prefixed) && !is_secret(name)
}

/// Whether a variable of this name never passes, because its value is shaped like a
/// [secret](SECRET_WORDS).
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(parent: &[(&str, &str)]) -> BTreeMap<String, String> {
        base_env(parent.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    #[test]
    fn only_what_is_listed_and_no_secret_passes() {
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
            ("NODE_OPTIONS", false),
            ("COLORTERM", false),
            ("ACP_TOOLS_COMMAND", false),
        ] {
            assert_eq!(env(&[(name, "x")]).contains_key(name), passes, "{name}");
        }
    }

    #[test]
    fn what_is_set_wins_over_the_parent() {
        let env = env(&[("TERM", "dumb"), ("PAGER", "less"), ("GIT_TERMINAL_PROMPT", "1")]);
        for (name, value) in SET {
            assert_eq!(env[*name], *value);
        }
    }

    #[test]
    fn what_the_user_names_passes_unless_it_is_a_secret() {
        let parent =
            ["HTTPS_PROXY", "NPM_TOKEN", "TERM", "OTHER"].map(|name| (name.into(), "x".into()));
        let more = ["HTTPS_PROXY", "NPM_TOKEN", "TERM", "NOT_THERE"].map(String::from);
        let env = env_passing(parent.into_iter(), &more);
        assert_eq!((&*env["HTTPS_PROXY"], &*env["TERM"]), ("x", "xterm-256color"));
        assert_eq!(env.len(), SET.len() + 2, "{env:?}");
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
