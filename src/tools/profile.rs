//! Profiles of the operator's tool: a service's URL and an admin key, each in a file of its own that only its owner reads.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::call::CallError;
use super::client::{base_url, printable};

/// The profile that is used where neither a profile nor a service is named.
pub(super) const DEFAULT: &str = "default";

/// A name of at most 64 letters, digits, `.`, `_` and `-`, the first of which is a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileName(String);

impl ProfileName {
    /// Reads a name.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= 64 && text.chars().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err("a profile has up to 64 letters, digits, `.`, `_` and `-`".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a service is, and the key for it. Its debug print shows no key.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    pub url: Url,
    /// The operator's name for the key.
    pub key_name: Option<String>,
    pub key: SecretString,
}

impl Profile {
    /// The profile of this name; `None` where there is no such file.
    ///
    /// # Errors
    /// [`CallError::Usage`] when others may read the file, or it holds something else. The message never repeats the content.
    pub fn read(name: &ProfileName) -> Result<Option<Self>, CallError> {
        let Some(path) = path_of(name) else {
            return Ok(None);
        };
        let refused = |reason: &dyn std::fmt::Display| {
            let path = path.display();
            CallError::Usage(format!("profile `{}` ({path}): {reason}", name.as_str()))
        };
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(|error| refused(&error))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            let reason = format!("others may read it; `chmod 600 {}`", path.display());
            return Err(refused(&reason));
        }
        let text = fs::read_to_string(&path).map_err(|error| refused(&error))?;
        let stored: Value = serde_json::from_str(&text).unwrap_or_default();
        let url = stored["url"].as_str().and_then(|url| base_url(url).ok());
        let damaged = "it is not what `budget-authority login` writes; log in again";
        let (url, key) = url
            .zip(stored["key"].as_str())
            .ok_or_else(|| refused(&damaged))?;
        Ok(Some(Self {
            url,
            key_name: stored["key_name"].as_str().map(str::to_owned),
            key: key.into(),
        }))
    }

    /// Writes the file at once as a whole, with mode 600; where it is.
    ///
    /// # Errors
    /// [`CallError::Usage`] when the folder of the user is unknown or cannot be written.
    pub fn write(&self, name: &ProfileName) -> Result<PathBuf, CallError> {
        let path = path_of(name).ok_or_else(|| {
            CallError::Usage("neither XDG_CONFIG_HOME nor HOME says where profiles are".to_owned())
        })?;
        let (url, key) = (printable(&self.url), self.key.expose_secret());
        let stored = json!({"url": url, "key_name": self.key_name, "key": key});
        let folder = path.parent().unwrap_or(&path);
        let created = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        let written = created.and_then(|()| write_private(&path, &format!("{stored}\n")));
        written.map_err(|error| CallError::Usage(format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    /// Removes the file; whether there was one.
    ///
    /// # Errors
    /// [`CallError::Usage`] when it cannot be removed.
    pub fn remove(name: &ProfileName) -> Result<bool, CallError> {
        let Some(path) = path_of(name) else {
            return Ok(false);
        };
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CallError::Usage(format!("{}: {error}", path.display()))),
        }
    }
}

fn path_of(name: &ProfileName) -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
    let settings = folder("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| folder("HOME").map(|home| Path::new(&home).join(".config")));
    let file = format!("budget-authority/profiles/{}.json", name.as_str());
    Some(settings?.join(file))
}

/// Writes a file at once as a whole, with mode 600. It replaces one that exists, so that the permissions of that do not count.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let written = options.open(&fresh).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    });
    written.inspect_err(|_| drop(fs::remove_file(&fresh)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_the_folder() {
        for name in ["prod", "eu-1.b_2", "0"] {
            assert!(ProfileName::parse(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "-x", " ", &"x".repeat(65)] {
            assert!(ProfileName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_key_is_not_printed() {
        let profile = Profile {
            url: base_url("http://host").expect("a URL"),
            key_name: None,
            key: "hunter2".into(),
        };
        assert!(!format!("{profile:?}").contains("hunter2"));
    }
}
