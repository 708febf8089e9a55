//! The keys that encrypt stored secrets.

use std::path::PathBuf;

use clap::Args;
use secrecy::ExposeSecret;

use super::error::ConfigError;
use super::secret_file::SecretSetting;
use super::values::{OnOrOff as _, boolish, setting};
use crate::domain::seal::{SealingKeys, SealingKeysError};

const SETTING: SecretSetting = SecretSetting {
    value: "BUDGET_SECRET_KEYS",
    file: "BUDGET_SECRET_KEYS_FILE",
};

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
        let secret_keys =
            match SETTING.read(self.secret_keys.is_present(), self.secret_keys_file)? {
                Some(list) => keys(list.expose_secret()).map_err(|error| SETTING.refused(error))?,
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
