//! Restores the old file after a later step of the call has failed.

use std::fs::File;
use std::io;

use super::{StagedFile, StagedState, WriteMethod};
use crate::files::contents::{
    differs_if_readable, equals_without_concurrent_change, overwrite, restore_mode_if_unchanged,
    write_with_progress,
};
use crate::files::system::{Dir, FileVisibility, copy_access, set_mode_bits};
use crate::files::write::exchange::exchange_back;

impl StagedFile<'_> {
    /// Restores the old state of the file. If the file cannot be restored, the error contains its
    /// path.
    pub(in crate::files::write) fn roll_back(&mut self) -> Result<(), String> {
        match self.stage {
            StagedState::Prepared | StagedState::Cleaned => return Ok(()),
            // `commit` has failed, and could not restore the file.
            StagedState::Stranded => return Err(self.change.path.given().to_owned()),
            StagedState::Written => {}
        }
        let done = self.put_back_old_file();
        self.stage = if done.is_ok() { StagedState::Prepared } else { StagedState::Stranded };
        done.map_err(|error| format!("{} ({error})", self.change.path.given()))
    }

    fn put_back_old_file(&self) -> io::Result<()> {
        match (&self.method, self.change.expected) {
            (WriteMethod::InPlace(file), Some(old)) => {
                self.restore_mode_in_place()?;
                match self.old_file_in_place(file.as_ref()) {
                    Ok(file) => self.restore_in_place(&file, old),
                    // Another program replaced the file later.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    Err(error) => Err(error),
                }
            }
            (WriteMethod::Add, _) | (_, None) => {
                self.run_if_still_ours(|dir| dir.remove_file(&self.target.name))
            }
            (WriteMethod::Replace, Some(_)) if self.has_later_write()? => Ok(()),
            (WriteMethod::Replace, Some(old)) => {
                let (temporary, name) = (&self.temporary, &self.target.name);
                let dir = self.target.dir.open()?;
                let back = exchange_back(&dir, temporary, name, self.new_file_id);
                back.or_else(|error| match error.kind() {
                    io::ErrorKind::Unsupported => {
                        self.run_if_still_ours(|dir| dir.rename_over(temporary, name))
                    }
                    io::ErrorKind::NotFound => {
                        self.run_if_still_ours(|dir| self.recreate_old(dir, old))
                    }
                    _ => Err(error),
                })
            }
        }
    }

    /// Creates the old file again from its bytes. Used if no hard link to the old file could be
    /// created.
    fn recreate_old(&self, dir: &Dir, old: &[u8]) -> io::Result<()> {
        let again = dir.create_new_file(&self.temporary, FileVisibility::Owner)?;
        write_with_progress(&again, old, &mut |_| {})?;
        copy_access(&dir.open_file(&self.target.name)?, &again)?;
        if let Some(mode) = self.change.modes.and_then(|modes| modes.before) {
            set_mode_bits(&again, mode)?;
        }
        self.workspace.durability().sync_file(&again)?;
        dir.rename_over(&self.temporary, &self.target.name)
    }

    /// Runs `change` if the file is still the new file. Otherwise, another program replaced or
    /// wrote the file later, and nothing is changed.
    fn run_if_still_ours(&self, change: impl FnOnce(&Dir) -> io::Result<()>) -> io::Result<()> {
        let dir = self.target.dir.open()?;
        let there = dir.entry_id(&self.target.name);
        let is_ours = there.is_ok_and(|there| there == self.new_file_id);
        if is_ours && !self.has_later_write()? { change(&dir) } else { Ok(()) }
    }

    /// Returns whether another program wrote to the new file. A file that this process may not read
    /// is not compared.
    fn has_later_write(&self) -> io::Result<bool> {
        let (dir, name) = (self.target.dir.open()?, &self.target.name);
        Ok(dir.entry_id(name).is_ok_and(|there| there == self.new_file_id)
            && dir.open_file(name).is_ok_and(|file| differs_if_readable(&file, self.change.bytes)))
    }

    /// Restores the old bytes if the file still contains the new bytes. Otherwise, another program
    /// wrote to the file later, and nothing is changed.
    fn restore_in_place(&self, file: &File, old: &[u8]) -> io::Result<()> {
        if !equals_without_concurrent_change(file, &mut &*file, self.change.bytes)? {
            return Ok(());
        }
        overwrite(file, old)
    }

    fn restore_mode_in_place(&self) -> io::Result<()> {
        let (Some(modes), Some(old)) = (self.mode_change_if_in_place(), self.old_metadata) else {
            return Ok(());
        };
        match restore_mode_if_unchanged(
            &*self.target.dir.open()?,
            &self.target.name,
            old.file_id,
            modes,
        ) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}
