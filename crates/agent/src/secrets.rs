//! The secrets that this program knows: values of its own environment that commands do not get.

use std::path::Path;
use std::sync::LazyLock;

use acp_lifecycle::Secrets;

/// Returns the values of variables whose names look like a secret. One that is the path of a file
/// or folder is none: paths are shown everywhere, and what lies there is not in the environment.
pub(crate) fn of_env<'a>(env: impl Iterator<Item = (&'a str, &'a str)>) -> Secrets {
    let is_path = |value: &str| Path::new(value).is_absolute() && Path::new(value).exists();
    let secret = |(name, value): &(&str, &str)| acp_tools::env::is_secret(name) && !is_path(value);
    let secrets = Secrets::new(env.filter(secret).map(|(_, value)| value));
    if secrets.left_out() > 0 {
        tracing::warn!(count = secrets.left_out(), "too many secrets; not all of them are hidden");
    }
    secrets
}

/// Returns those of this process, for what it writes to standard error.
pub(crate) fn of_process() -> &'static Secrets {
    static SECRETS: LazyLock<Secrets> = LazyLock::new(|| {
        let env: Vec<_> = acp_tools::env::parent().collect();
        of_env(env.iter().map(|(name, value)| (&**name, &**value)))
    });
    &SECRETS
}

#[cfg(test)]
mod tests {
    use super::of_env;

    #[test]
    fn values_are_secret_by_the_name_of_their_variable() {
        for (name, value, is_secret) in [
            ("OPENAI_API_KEY", "sk-0123456789", true),
            ("GITHUB_TOKEN", "ghp_0123456789", true),
            ("DB_PASSWORD", "/no such path/", true),
            ("DB_PASSWORD", "short", false),
            ("GNOME_KEYRING_CONTROL", "/", false),
            ("PASSWORD_STORE_DIR", env!("CARGO_MANIFEST_DIR"), false),
            ("EDITOR", "an editor of texts", false),
        ] {
            let secrets = of_env([(name, value)].into_iter());
            assert_eq!(!secrets.is_empty(), is_secret, "{name}={value}");
        }
    }
}
