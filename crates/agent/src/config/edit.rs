//! Adds and removes MCP servers in the configuration file of the user.

use std::path::{Path, PathBuf};

use callboard_runtime::private_files as private;
use toml::{Table, Value};

use super::file::ConfigFileLineIndex;
use super::mcp::McpServerSection;
use super::server_text::{TextEditError, add_server, key_text, remove_server};
use super::{ConfigError, ValueSource, config_file_path, read_config_text};
use crate::limits::MAX_CONFIG_FILE_BYTES;

/// Adds a server with these keys and values, e.g. `command`. Returns the path of the file, which is
/// created if it does not exist.
///
/// # Errors
///
/// Returns an error if the configuration would refuse the server, if there is a server with this
/// name, or if the file is not TOML or cannot be written. The file is unchanged then.
pub(crate) fn add_mcp_server(
    env: &[(String, String)],
    name: &str,
    fields: &[(&str, Value)],
) -> Result<PathBuf, ConfigError> {
    let path = require_config_file_path(env)?;
    check_server(&path, name, fields, env)?;
    edit_file(&path, name, |text| add_server(text, name, fields))?;
    Ok(path)
}

/// Removes a server, with the comments directly above it. Returns the path of the file.
///
/// # Errors
///
/// Returns an error if there is no server with this name, or if the file is not TOML or cannot be
/// written. The file is unchanged then.
pub(crate) fn remove_mcp_server(
    env: &[(String, String)],
    name: &str,
) -> Result<PathBuf, ConfigError> {
    let path = require_config_file_path(env)?;
    if read_config_text(&path)?.is_none() {
        return Err(edit_error(&path, "", name, TextEditError::Missing));
    }
    edit_file(&path, name, |text| remove_server(text, name))?;
    Ok(path)
}

fn require_config_file_path(env: &[(String, String)]) -> Result<PathBuf, ConfigError> {
    config_file_path(env).ok_or_else(|| {
        let what = "set HOME or XDG_CONFIG_HOME".to_owned();
        ConfigError::new_at_place("no folder for the configuration file".to_owned(), what)
    })
}

/// Checks a server in the same way as when the configuration is read.
fn check_server(
    path: &Path,
    name: &str,
    fields: &[(&str, Value)],
    env: &[(String, String)],
) -> Result<(), ConfigError> {
    let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let section: Result<McpServerSection, _> = Table::from_iter(fields).try_into();
    let checked = section.map_err(|error| error.message().to_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    let checked = checked.and_then(|section| section.to_server_config(name, folder, env));
    let refused = |what| ConfigError::new_at_place("the server is not added".to_owned(), what);
    checked.map(drop).map_err(refused)
}

fn edit_file(
    path: &Path,
    name: &str,
    edit: impl FnOnce(&str) -> Result<String, TextEditError>,
) -> Result<(), ConfigError> {
    let failed = |error: std::io::Error| ConfigError::new_in_file(path, error.to_string());
    let folder = path.parent().unwrap_or(Path::new(""));
    let _lock = private::lock_folder_without_lock_file(folder).map_err(failed)?;
    let text = read_config_text(path)?.unwrap_or_default();
    let edited = edit(&text).map_err(|error| edit_error(path, &text, name, error))?;
    if edited.len() as u64 > MAX_CONFIG_FILE_BYTES {
        let what = format!("it would be over {MAX_CONFIG_FILE_BYTES} bytes");
        return Err(ConfigError::new_in_file(path, what));
    }
    private::replace_following_links(path, edited.as_bytes()).map_err(failed)
}

fn edit_error(path: &Path, text: &str, name: &str, error: TextEditError) -> ConfigError {
    let (place, what) = match error {
        TextEditError::Syntax { place, what } => {
            (Some(place), format!("{what}; correct the file first, nothing is changed"))
        }
        TextEditError::Exists { place } => {
            let remove = format!("`callboard mcp remove {}` removes it", key_text(name));
            let what = format!("there is already a server `{name}`; {remove}");
            (Some(place), what)
        }
        TextEditError::Missing => {
            let list = "`callboard mcp list` lists the servers";
            (None, format!("there is no server `{name}`; {list}"))
        }
        TextEditError::Form { place } => {
            let what = "`mcp_servers` has a form that only you can edit; nothing is changed";
            (Some(place), what.to_owned())
        }
    };
    match place {
        Some(place) => {
            let file = ConfigFileLineIndex::new(Some(path.to_owned()), text);
            file.error_at_source(&ValueSource::File(place), what)
        }
        None => ConfigError::new_in_file(path, what),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pretty_assertions::assert_eq;

    use super::*;

    type EnvVars = Vec<(String, String)>;

    fn home() -> (tempfile::TempDir, EnvVars, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let env = vec![("HOME".to_owned(), home.path().to_string_lossy().into_owned())];
        let path = home.path().join(".config/callboard/config.toml");
        (home, env, path)
    }

    fn add(env: &EnvVars, name: &str) -> Result<PathBuf, String> {
        add_mcp_server(env, name, &[("command", "x".into())]).map_err(|error| error.to_string())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_private_and_an_existing_one_keeps_its_permissions_and_links() {
        let (home, env, path) = home();
        assert!(remove_mcp_server(&env, "a").is_err());
        assert!(!home.path().join(".config").exists());
        assert_eq!(add(&env, "a").unwrap(), path);
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let real = home.path().join("real.toml");
        fs::rename(&path, &real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        symlink("../../real.toml", &path).unwrap();
        add(&env, "b").unwrap();
        assert!(path.is_symlink());
        assert_eq!(mode(&real), 0o644);
        let text = "[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.b]\ncommand = \"x\"\n";
        assert_eq!(fs::read_to_string(&real).unwrap(), text);
        remove_mcp_server(&env, "a").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "[mcp_servers.b]\ncommand = \"x\"\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_file(&real).unwrap();
        assert!(add(&env, "a").unwrap_err().starts_with(&path.display().to_string()));
        assert!(path.is_symlink() && !real.exists());
    }

    #[test]
    fn a_refused_edit_changes_nothing_and_names_the_place() {
        let (_home, env, path) = home();
        add(&env, "a").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let shown = path.display();
        for (text, error) in [
            ("x = 1\n[mcp_servers.a]\n", format!("{shown}:2: there is already a server `a`")),
            ("x = 1\ny = \n", format!("{shown}:2: ")),
            ("\nmcp_servers = 3\n", format!("{shown}:2: `mcp_servers` has a form")),
        ] {
            fs::write(&path, text).unwrap();
            let refused = add(&env, "a").unwrap_err();
            assert!(refused.starts_with(&error), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(add(&env, "b").unwrap_err().contains("others may write it"));
        let text = "[mcp_servers.a]\ncommand = \"x\"\n";
        fs::remove_file(&path).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(add(&env, "b").unwrap_err().starts_with(&format!("{shown}: it is read-only")));
        assert!(remove_mcp_server(&env, "a").is_err());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (text, 0o444));
        fs::remove_file(&path).unwrap();
        let url = [("url", Value::from("ftp://x"))];
        let refused = add_mcp_server(&env, "b", &url).unwrap_err().to_string();
        assert!(refused.contains("mcp_servers.b.url must be an http or https URL"), "{refused}");
        assert!(!path.exists());
    }

    #[test]
    fn servers_that_are_added_at_the_same_time_are_all_kept() {
        let (_home, env, path) = home();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let env = &env;
                scope.spawn(move || add(env, &format!("s{number}")).unwrap());
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap().matches("[mcp_servers.s").count(), 8);
    }
}
