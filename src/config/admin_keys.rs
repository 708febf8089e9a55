//! The keys of the admin plane.

use std::path::PathBuf;

use clap::Args;
use secrecy::ExposeSecret;

use super::error::ConfigError;
use super::secret_file::SecretSetting;
use super::values::setting;
use crate::domain::admin_key::AdminKeys;

/// The shortest admin key, in characters: what 128 random bits take in hexadecimal.
const KEY_CHARS_MIN: usize = 32;

const SETTING: SecretSetting = SecretSetting {
    value: "BUDGET_ADMIN_KEYS",
    file: "BUDGET_ADMIN_KEYS_FILE",
};

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
            match SETTING.read(!self.admin_keys.is_empty(), self.admin_keys_file)? {
                Some(list) => {
                    let keys = AdminKeys::parse(list.expose_secret());
                    (keys.map_err(|error| SETTING.refused(error))?, SETTING.file)
                }
                None => (self.admin_keys, SETTING.value),
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
