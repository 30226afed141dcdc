//! A temporary folder for each measured agent. The folder is removed when the measurement ends.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::process::TaskError;

/// A temporary home folder and working folder for one agent.
pub(super) struct ScratchFolders {
    root: PathBuf,
}

impl ScratchFolders {
    pub(super) fn new(name: &str) -> Result<Self, TaskError> {
        let scratch =
            Self { root: env::temp_dir().join(format!("callboard-{name}-{}", process::id())) };
        for folder in [scratch.home(), scratch.cwd()] {
            fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
        }
        Ok(scratch)
    }

    /// Returns the home folder, which contains the agent's configuration and state.
    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the working folder of the agent.
    pub(super) fn cwd(&self) -> PathBuf {
        self.root.join("cwd")
    }

    /// Writes the configuration file of the user to the home folder.
    pub(super) fn write_user_config(&self, text: &str) -> Result<(), TaskError> {
        self.write_file("home/.config/callboard/config.toml", text).map(drop)
    }

    /// Copies a program to the temporary folder, and returns the path of the copy.
    pub(super) fn copy_program(&self, program: &Path) -> Result<PathBuf, TaskError> {
        let path = self.root.join(program.file_name().unwrap_or_default());
        fs::copy(program, &path).map_err(|error| cannot_write(&path, &error))?;
        Ok(path)
    }

    /// Writes a file whose name is relative to the temporary folder, and creates the folders above
    /// it. Returns the path of the file.
    pub(super) fn write_file(&self, name: &str, text: &str) -> Result<PathBuf, TaskError> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        fs::write(&path, text).map_err(|error| cannot_write(&path, &error))?;
        Ok(path)
    }
}

impl Drop for ScratchFolders {
    fn drop(&mut self) {
        // If the removal fails, the remaining files stay in the folder for temporary files.
        fs::remove_dir_all(&self.root).ok();
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> TaskError {
    TaskError::Failed(format!("cannot write {}: {error}", path.display()))
}
