//! Secrets: the keys of the admin plane, and the keys that encrypt stored secrets. Each setting that holds one has a second,
//! `…_FILE`, as container platforms mount them.

use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use super::values::{ConfigError, OnOrOff as _, boolish, setting};
use crate::domain::admin_key::AdminKeys;
use crate::domain::seal::{SealingKeys, SealingKeysError};

/// A setting, and the one that names a file with its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretSetting {
    /// The variable of the value.
    pub(crate) value: &'static str,
    /// The variable of the file.
    pub(crate) file: &'static str,
}

impl SecretSetting {
    /// By the names of both variables.
    pub(crate) const fn new(value: &'static str, file: &'static str) -> Self {
        Self { value, file }
    }

    /// The value, or what the file holds, and the variable that it comes from; `None` where there is none, or a blank value.
    ///
    /// # Errors
    /// As for [`SecretSetting::read`].
    pub(super) fn text(
        self,
        given: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> Result<Option<(SecretString, &'static str)>, ConfigError> {
        let given = given.filter(|text| !text.expose_secret().trim().is_empty());
        let in_file = self
            .read(given.is_some(), file)?
            .map(|text| (text, self.file));
        Ok(in_file.or(given.map(|text| (text, self.value))))
    }

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

/// The shortest admin key, in characters: what 128 random bits take in hexadecimal.
const KEY_CHARS_MIN: usize = 32;

const ADMIN_KEYS: SecretSetting = SecretSetting::new("BUDGET_ADMIN_KEYS", "BUDGET_ADMIN_KEYS_FILE");

/// Flags of the [`AdminKeys`].
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admin keys")]
pub struct AdminKeyArgs {
    /// Admin keys, each KEY or NAME=KEY, comma-separated; list two while one replaces the other. `keys generate` prints
    /// one. Audit entries show the name. Without any, no admin key is accepted.
    ///
    /// Change it when a key is replaced, or a person or program gets or loses access
    #[arg(
        long,
        env = "BUDGET_ADMIN_KEYS",
        value_name = "[NAME=]KEY,…",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true,
        value_parser = setting(AdminKeys::parse)
    )]
    admin_keys: AdminKeys,
    /// File with the admin keys, in place of BUDGET_ADMIN_KEYS.
    ///
    /// Set it when the platform mounts secrets as files
    #[arg(long, env = "BUDGET_ADMIN_KEYS_FILE", value_name = "FILE")]
    admin_keys_file: Option<PathBuf>,
}

impl AdminKeyArgs {
    pub(super) fn into_keys(self) -> Result<AdminKeys, ConfigError> {
        let (keys, variable) =
            match ADMIN_KEYS.read(!self.admin_keys.is_empty(), self.admin_keys_file)? {
                Some(list) => {
                    let keys = AdminKeys::parse(list.expose_secret());
                    (
                        keys.map_err(|error| ADMIN_KEYS.refused(error))?,
                        ADMIN_KEYS.file,
                    )
                }
                None => (self.admin_keys, ADMIN_KEYS.value),
            };
        match keys.first_below(KEY_CHARS_MIN) {
            Some((entry, chars)) => Err(ConfigError::value(
                variable,
                format!(
                    "the key of entry {entry} has {chars} characters, but it needs {KEY_CHARS_MIN} so that nobody guesses \
                     it; `budget-authority keys generate` prints one"
                ),
            )),
            None => Ok(keys),
        }
    }
}

const SECRET_KEYS: SecretSetting =
    SecretSetting::new("BUDGET_SECRET_KEYS", "BUDGET_SECRET_KEYS_FILE");

/// Flags of the [`SealingKeys`].
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Secrets")]
pub struct SecretArgs {
    /// Keys that encrypt the secrets of webhooks in Redis, each `<id>:<32 bytes in base64>`, comma-separated: the first
    /// encrypts, all decrypt. To replace a key, put the new one in front. Required unless plaintext secrets are allowed.
    ///
    /// Change it when a key may be known to others
    #[arg(
        long,
        env = "BUDGET_SECRET_KEYS",
        value_name = "ID:KEY,…",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true,
        value_parser = setting(keys)
    )]
    secret_keys: SealingKeys,
    /// File with those keys, in place of BUDGET_SECRET_KEYS.
    ///
    /// Set it when the platform mounts secrets as files
    #[arg(long, env = "BUDGET_SECRET_KEYS_FILE", value_name = "FILE")]
    secret_keys_file: Option<PathBuf>,
    /// Start without such keys: everyone who can read Redis can read the secrets of webhooks.
    ///
    /// Set it when a trial needs no protection of secrets
    #[arg(long, env = "BUDGET_ALLOW_PLAINTEXT_SECRETS", value_parser = boolish(), on_or_off())]
    allow_plaintext_secrets: bool,
}

impl SecretArgs {
    pub(super) fn into_keys(self) -> Result<SealingKeys, ConfigError> {
        let secret_keys = match SECRET_KEYS
            .read(self.secret_keys.is_present(), self.secret_keys_file)?
        {
            Some(list) => keys(list.expose_secret()).map_err(|error| SECRET_KEYS.refused(error))?,
            None => self.secret_keys,
        };
        match (secret_keys.is_present(), self.allow_plaintext_secrets) {
            (false, false) => Err(ConfigError::value(
                "BUDGET_SECRET_KEYS",
                "without a key, Redis would hold the secrets of webhooks in plaintext; give one, such as \
                 k1:$(openssl rand -base64 32), or set BUDGET_ALLOW_PLAINTEXT_SECRETS=true",
            )),
            (true, true) => Err(ConfigError::contradiction(
                "BUDGET_SECRET_KEYS",
                "BUDGET_ALLOW_PLAINTEXT_SECRETS",
                "with a key, no secret is stored in plaintext",
            )),
            (true, false) | (false, true) => Ok(secret_keys),
        }
    }
}

/// Reads a list of keys; blank means none.
fn keys(list: &str) -> Result<SealingKeys, SealingKeysError> {
    match list.trim() {
        "" => Ok(SealingKeys::default()),
        list => SealingKeys::parse(list),
    }
}
