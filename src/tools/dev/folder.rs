//! The data folder: used by one process at a time, with secrets that only its owner can read.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::tools::profile::write_private;

/// A folder that this process has to itself until it is dropped.
#[derive(Debug)]
pub(in crate::tools) struct Folder {
    path: PathBuf,
    ephemeral: bool,
    _lock: File,
}

impl Folder {
    /// Opens or creates `path`, or a temporary folder that is removed when it is dropped.
    pub(in crate::tools) fn open(path: &Path, ephemeral: bool) -> io::Result<Self> {
        let name = format!("budget-authority-{:08x}", rand::random::<u32>());
        let path = match ephemeral {
            true => std::env::temp_dir().join(name),
            false => path.to_owned(),
        };
        let open = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)?;
            let path = path.canonicalize()?;
            // An earlier start may have left it open to others, and the folder itself may be.
            let data = path.join("appendonlydir");
            if data.is_dir() {
                fs::set_permissions(&data, Permissions::from_mode(0o700))?;
            }
            let lock = File::create(path.join("lock"))?;
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => io::Error::other(
                    "another development stack uses it; stop that one, or choose another folder",
                ),
                TryLockError::Error(error) => error,
            })?;
            Ok(Self {
                path,
                ephemeral,
                _lock: lock,
            })
        };
        open().map_err(|error| data_error(&path, &error))
    }

    pub(in crate::tools) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// The secret that an earlier start kept under `name`, or a new one.
    pub(super) fn secret(
        &self,
        name: &str,
        new: impl FnOnce() -> SecretString,
    ) -> io::Result<SecretString> {
        if let Some(secret) = self.read(name) {
            return Ok(secret);
        }
        let secret = new();
        self.write(name, &secret)?;
        Ok(secret)
    }

    /// The secret kept under `name`.
    pub(super) fn read(&self, name: &str) -> Option<SecretString> {
        let text = fs::read_to_string(self.path.join(name)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.into())
    }

    /// Keeps a secret under `name`, readable by the owner alone; the file is replaced atomically.
    pub(super) fn write(&self, name: &str, secret: &SecretString) -> io::Result<()> {
        let file = self.path.join(name);
        let written = write_private(&file, secret.expose_secret());
        written.map_err(|error| data_error(&file, &error))
    }
}

/// Names the file or folder that cannot be used.
fn data_error(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("--data {}: {error}", path.display()))
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.ephemeral {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::admin_key::AdminKeys;

    fn temporary() -> Folder {
        Folder::open(Path::new("unused"), true).expect("a temporary folder")
    }

    #[test]
    fn a_secret_is_readable_only_by_its_owner() {
        let folder = temporary();
        let admin_key = || folder.secret("admin-key", AdminKeys::generate);
        let key = admin_key().expect("a key");
        let same = admin_key().expect("the same");
        assert_eq!(same.expose_secret(), key.expose_secret());
        let mode = fs::metadata(folder.path().join("admin-key"))
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(folder.read("demo-key").is_none());
    }

    #[test]
    fn one_process_at_a_time_and_an_ephemeral_folder_is_deleted() {
        let folder = temporary();
        let path = folder.path().to_owned();
        let second = Folder::open(&path, false)
            .expect_err("it is in use")
            .to_string();
        assert!(second.contains("another development stack"), "{second}");
        drop(folder);
        assert!(!path.exists());
    }
}
