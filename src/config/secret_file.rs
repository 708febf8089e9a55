//! A secret in a file, as container platforms mount them: each setting that holds one has a second, `…_FILE`.

use std::path::PathBuf;

use secrecy::SecretString;

use super::error::ConfigError;

/// A setting, and the one that names a file with its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretSetting {
    pub(crate) value: &'static str,
    pub(crate) file: &'static str,
}

impl SecretSetting {
    /// The content of the file, without the newline at its end; `None` where no file is named.
    ///
    /// # Errors
    /// [`ConfigError`] when the value is given too, or the file cannot be used.
    pub(crate) fn read(
        self,
        is_given: bool,
        file: Option<PathBuf>,
    ) -> Result<Option<SecretString>, ConfigError> {
        let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(None);
        };
        if is_given {
            return Err(ConfigError::contradiction(
                self.value,
                self.file,
                "give the value or the file that holds it, not both",
            ));
        }
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| self.refused(format!("{}: {error}", path.display())))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(self.refused(format!("{}: the file is empty", path.display()))),
            secret => Ok(Some(secret.into())),
        }
    }

    /// The content of the file is refused. The reason must not repeat it.
    pub(super) fn refused(self, reason: impl ToString) -> ConfigError {
        ConfigError::value(self.file, reason)
    }
}
