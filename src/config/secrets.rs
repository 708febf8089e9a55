//! Secrets: the keys of the admin plane, and the keys that encrypt stored secrets. Each setting that holds one has a second,
//! `…_FILE`, as container platforms mount them.

use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use super::values::{ConfigError, OnOrOff as _, boolish};
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

    /// The value, or what the file holds, and the variable that it comes from. Blank where neither is given.
    ///
    /// # Errors
    /// As for [`SecretSetting::read`].
    pub(crate) fn text(
        self,
        given: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> Result<(SecretString, &'static str), ConfigError> {
        let given = given.unwrap_or_default();
        let is_given = !given.expose_secret().trim().is_empty();
        let in_file = self.read(is_given, file)?;
        Ok(in_file.map_or((given, self.value), |text| (text, self.file)))
    }

    /// What `parse` makes of that text, and the variable that it comes from. The error of `parse` must not repeat a secret.
    ///
    /// # Errors
    /// As for [`SecretSetting::read`], and where `parse` refuses the text.
    pub(super) fn parsed<T, E: ToString>(
        self,
        given: Option<SecretString>,
        file: Option<PathBuf>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<(T, &'static str), ConfigError> {
        let (text, variable) = self.text(given, file)?;
        let parsed = parse(text.expose_secret());
        let parsed = parsed.map_err(|reason| ConfigError::value(variable, reason))?;
        Ok((parsed, variable))
    }

    /// The content of the file, without the newline at its end; `None` where no file is named.
    ///
    /// # Errors
    /// [`ConfigError`] when the value is given too, or the file cannot be used.
    fn read(
        self,
        is_given: bool,
        file: Option<PathBuf>,
    ) -> Result<Option<SecretString>, ConfigError> {
        let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(None);
        };
        if is_given {
            return Err(ConfigError::Contradiction {
                first: self.value,
                second: self.file,
                reason: "give the value or the file that holds it, not both",
            });
        }
        let refused = |why| ConfigError::value(self.file, format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(refused("the file is empty".to_owned())),
            secret => Ok(Some(secret.into())),
        }
    }
}

/// Flags whose values are secrets, each with a variable of the same name.
const SECRET_FLAGS: [&str; 5] = [
    "--admin-keys",
    "--admin-key",
    "--api-key",
    "--secret-keys",
    "--evidence-seeds",
];

/// A warning for each secret on the command line of this process, which every user of the machine can list.
pub fn exposed_secrets() -> Vec<String> {
    let arguments = std::env::args_os();
    exposed_among(arguments.filter_map(|argument| argument.into_string().ok()))
}

fn exposed_among(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let arguments: Vec<_> = arguments.chain([String::new()]).collect();
    let exposed = arguments.windows(2).filter_map(|pair| {
        let (flag, value) = pair[0].split_once('=').unwrap_or((pair[0].as_str(), pair[1].as_str()));
        let has_password = flag == "--redis-url" && value.contains('@');
        if !has_password && !SECRET_FLAGS.contains(&flag) {
            return None;
        }
        let variable = flag.trim_start_matches('-').to_uppercase().replace('-', "_");
        Some(format!(
            "the list of processes shows the secret of {flag} to every user of this machine: set BUDGET_{variable} instead"
        ))
    });
    exposed.collect()
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
        hide_env_values = true
    )]
    admin_keys: Option<SecretString>,
    /// File with the admin keys, in place of BUDGET_ADMIN_KEYS.
    ///
    /// Set it when the platform mounts secrets as files
    #[arg(long, env = "BUDGET_ADMIN_KEYS_FILE", value_name = "FILE")]
    admin_keys_file: Option<PathBuf>,
}

impl AdminKeyArgs {
    pub(super) fn into_keys(self) -> Result<AdminKeys, ConfigError> {
        let (keys, variable) =
            ADMIN_KEYS.parsed(self.admin_keys, self.admin_keys_file, AdminKeys::parse)?;
        let weakness = match (keys.first_below(KEY_CHARS_MIN), keys.first_uniform()) {
            (Some((entry, chars)), _) => format!(
                "the key of entry {entry} has {chars} characters, but it needs {KEY_CHARS_MIN} so that nobody guesses"
            ),
            (None, Some(entry)) => {
                format!("the key of entry {entry} repeats one character, which anybody guesses")
            }
            (None, None) => return Ok(keys),
        };
        let reason = format!("{weakness} it; `budget-authority keys generate` prints one");
        Err(ConfigError::value(variable, reason))
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
        hide_env_values = true
    )]
    secret_keys: Option<SecretString>,
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
        let (secret_keys, _) = SECRET_KEYS.parsed(self.secret_keys, self.secret_keys_file, keys)?;
        match (secret_keys.is_present(), self.allow_plaintext_secrets) {
            (false, false) => Err(ConfigError::value(
                "BUDGET_SECRET_KEYS",
                "without a key, Redis would hold the secrets of webhooks in plaintext; give one, such as \
                 k1:$(openssl rand -base64 32), or set BUDGET_ALLOW_PLAINTEXT_SECRETS=true",
            )),
            (true, true) => Err(ConfigError::Contradiction {
                first: "BUDGET_SECRET_KEYS",
                second: "BUDGET_ALLOW_PLAINTEXT_SECRETS",
                reason: "with a key, no secret is stored in plaintext",
            }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_on_the_command_line_is_warned_of_without_its_value() {
        for (line, exposed) in [
            ("serve --admin-keys ops=swordfish --listen :1", "ADMIN_KEYS"),
            ("serve --secret-keys=swordfish", "SECRET_KEYS"),
            ("serve --redis-url redis://:swordfish@host", "REDIS_URL"),
            ("admin --api-key swordfish call decide", "API_KEY"),
            ("serve --redis-url redis://host --admin-keys-file f", ""),
            ("admin key create --name --", ""),
        ] {
            let warnings = exposed_among(line.split(' ').map(str::to_owned));
            assert_eq!(warnings.len(), usize::from(!exposed.is_empty()), "{line}");
            let warnings = warnings.concat();
            assert!(warnings.contains(exposed) && !warnings.contains("swordfish"));
        }
    }
}
