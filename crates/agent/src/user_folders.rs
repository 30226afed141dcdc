//! The folders of a user, derived from the environment.

use std::path::PathBuf;

/// Returns the folder for a user's state: `$XDG_STATE_HOME/callboard`, or else the same folder
/// below `~/.local/state`. Returns `None` if neither of these paths is absolute.
pub(crate) fn state_folder(env: &[(String, String)]) -> Option<PathBuf> {
    user_folder(env, "XDG_STATE_HOME", ".local/state")
}

/// Returns the folder `callboard` in the folder that the variable `name` contains. If the variable
/// does not contain an absolute path, uses the folder `in_home` in the user's home instead.
pub(crate) fn user_folder(env: &[(String, String)], name: &str, in_home: &str) -> Option<PathBuf> {
    let named = |name: &str| {
        let value = env.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        value.map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    Some(named(name).or_else(|| Some(named("HOME")?.join(in_home)))?.join("callboard"))
}

#[cfg(test)]
mod tests {
    use super::state_folder;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_environment_determines_the_state_folder() {
        let of = |env: &[(&str, &str)]| {
            let env: Vec<_> =
                env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            state_folder(&env)
        };
        let (state, home) = (("XDG_STATE_HOME", "/s"), ("HOME", "/h"));
        assert_eq!(of(&[home, state]), Some("/s/callboard".into()));
        let below_home = Some("/h/.local/state/callboard".into());
        assert_eq!(of(&[home]), below_home);
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "relative")]), below_home);
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "")]), below_home);
        assert_eq!(of(&[("HOME", "")]), None);
        assert_eq!(of(&[]), None);
    }
}
