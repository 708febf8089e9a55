//! Settings of signed evidence. It is off unless a server id and a key are configured; half of that stops the process.

mod keys;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};

use super::limits::RetentionConfig;
use super::secrets::SecretSetting;
use super::values::{ConfigError, days};
use crate::domain::dialect::Dialect;
use crate::evidence::{Issuers, ListedKey, ServerId, SignerForm, SigningKey};
use keys::{listed, listed_keys, pair, signing_keys};

const SERVER_ID: &str = "BUDGET_EVIDENCE_SERVER_ID";
const PUBLIC_KEY: &str = "BUDGET_EVIDENCE_PUBLIC_KEY";
const NBF_MS: &str = "BUDGET_EVIDENCE_NBF_MS";
const KEYS: SecretSetting = SecretSetting::new("BUDGET_EVIDENCE_KEYS", "BUDGET_EVIDENCE_KEYS_FILE");
const SEEDS: SecretSetting =
    SecretSetting::new("BUDGET_EVIDENCE_SEEDS", "BUDGET_EVIDENCE_SEEDS_FILE");

/// Keys of a deployment, retired ones included; several rotations a year for decades.
const KEYS_MAX: usize = 256;

/// Flags of the keys and the retention of evidence.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Evidence")]
pub struct EvidenceArgs {
    /// Public base URL of the API, ending in /v1, under which signed evidence names this deployment; the same for all its processes.
    /// Evidence is off without it.
    ///
    /// Set it when others must be able to verify what the service decided
    #[arg(long, env = "BUDGET_EVIDENCE_SERVER_ID", value_name = "URL")]
    evidence_server_id: Option<String>,
    /// How envelopes name a key that is new: `raw` by itself, so that the signature can be checked offline; `did` by its id in the
    /// published key set. A key that is registered keeps its form.
    ///
    /// Change it when verifiers expect a DID as the signer
    #[arg(
        long,
        env = "BUDGET_EVIDENCE_SIGNER",
        value_name = "FORM",
        default_value = "raw"
    )]
    evidence_signer: SignerForm,
    /// Public key that signs evidence, 64 hexadecimal digits; `keys generate --kind evidence` prints one with its seed.
    ///
    /// Change it when another key takes over
    #[arg(long, env = "BUDGET_EVIDENCE_PUBLIC_KEY", value_name = "HEX")]
    evidence_public_key: Option<String>,
    /// Time from which that key signs, in milliseconds since 1970. Required with the key, and never changed.
    ///
    /// Set it when BUDGET_EVIDENCE_PUBLIC_KEY is set
    #[arg(long, env = "BUDGET_EVIDENCE_NBF_MS", value_name = "MS")]
    evidence_nbf_ms: Option<i64>,
    /// Time at which that key stops signing, at least 10 minutes ahead when it is added.
    ///
    /// Set it when another key is to take over
    #[arg(long, env = "BUDGET_EVIDENCE_EXP_MS", value_name = "MS")]
    evidence_exp_ms: Option<i64>,
    /// Further keys, retired and future ones: a JSON array of {"public_key", "kid", "nbf_ms", "exp_ms"}. The id `kid` is the first
    /// 16 digits of the key by default.
    ///
    /// Set it when a key is to take over or has been retired
    #[arg(long, env = "BUDGET_EVIDENCE_KEYS", value_name = "JSON")]
    evidence_keys: Option<SecretString>,
    /// File with those keys, in place of BUDGET_EVIDENCE_KEYS.
    ///
    /// Set it when the list of keys is a file that processes share
    #[arg(long, env = "BUDGET_EVIDENCE_KEYS_FILE", value_name = "FILE")]
    evidence_keys_file: Option<PathBuf>,
    /// Days that signed evidence can be read, 0 for ever. At least as long as a reservation is kept.
    ///
    /// Raise it when evidence is fetched later than this
    #[arg(long = "evidence-retention-days", env = "BUDGET_EVIDENCE_RETENTION_DAYS", value_name = "DAYS",
          default_value = "30", value_parser = days(0..=36_500))]
    evidence_retention: Duration,
}

/// Flags of the secret halves, for processes that sign.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Evidence")]
pub struct EvidenceSeedArgs {
    /// Seeds of the keys that sign evidence, 64 hexadecimal digits each, comma-separated: one for each key that has not ended.
    ///
    /// Change it when a key is added or its time is over
    #[arg(
        long,
        env = "BUDGET_EVIDENCE_SEEDS",
        value_name = "HEX,…",
        hide_env_values = true
    )]
    evidence_seeds: Option<SecretString>,
    /// File with those seeds, in place of BUDGET_EVIDENCE_SEEDS.
    ///
    /// Set it when the platform mounts secrets as files
    #[arg(long, env = "BUDGET_EVIDENCE_SEEDS_FILE", value_name = "FILE")]
    evidence_seeds_file: Option<PathBuf>,
}

/// Evidence in every process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceConfig {
    /// The keys of the deployment, and when each signs.
    pub issuers: Issuers,
    /// How long an envelope can be read after its signing; `None` for ever.
    pub retention: Option<Duration>,
}

/// Evidence in a process that signs.
#[derive(Debug, Clone)]
pub struct SigningConfig {
    /// As in every process.
    pub evidence: EvidenceConfig,
    /// Its key pairs.
    pub keys: Vec<SigningKey>,
}

impl EvidenceArgs {
    /// Validates the settings together; `None` while evidence is off.
    pub(super) fn into_config(
        self,
        dialect: Dialect,
        retention: &RetentionConfig,
    ) -> Result<Option<EvidenceConfig>, ConfigError> {
        let mut keys: Vec<_> = self.own_key()?.into_iter().collect();
        let (further, _) = KEYS.parsed(self.evidence_keys, self.evidence_keys_file, listed_keys)?;
        keys.extend(further);
        let Some(server_id) = self.evidence_server_id.filter(|text| !text.is_empty()) else {
            return match keys.is_empty() {
                true => Ok(None),
                false => Err(ConfigError::value(
                    SERVER_ID,
                    "evidence has keys but no server id: give the public base URL of the API, such as \
                     https://authority.example.com/v1, or remove the keys",
                )),
            };
        };
        let server_id =
            ServerId::parse(&server_id).map_err(|error| ConfigError::value(SERVER_ID, error))?;
        if keys.is_empty() {
            return Err(ConfigError::value(
                PUBLIC_KEY,
                "evidence has a server id but no key: give the public key that signs (`budget-authority keys generate --kind \
                 evidence` prints one), or remove BUDGET_EVIDENCE_SERVER_ID",
            ));
        }
        if keys.len() > KEYS_MAX {
            return Err(ConfigError::value(
                KEYS.value,
                format!("there are more than {KEYS_MAX} keys"),
            ));
        }
        let kept = (!self.evidence_retention.is_zero()).then_some(self.evidence_retention);
        // A record must not reference evidence that is gone.
        if kept.is_some_and(|kept| kept < retention.reservations) {
            return Err(ConfigError::Contradiction {
                first: "BUDGET_EVIDENCE_RETENTION_DAYS",
                second: "BUDGET_RESERVATION_RETENTION_DAYS",
                reason: "evidence must be kept at least as long as a reservation, or for ever (0)",
            });
        }
        let issuers = Issuers::new(dialect, server_id, self.evidence_signer, keys);
        let issuers = issuers.map_err(|error| ConfigError::value(KEYS.value, error))?;
        Ok(Some(EvidenceConfig {
            issuers,
            retention: kept,
        }))
    }

    /// The key that the single settings describe.
    fn own_key(&self) -> Result<Option<ListedKey>, ConfigError> {
        let given = self.evidence_public_key.as_deref();
        let Some(digits) = given.filter(|digits| !digits.is_empty()) else {
            let others = [
                (NBF_MS, self.evidence_nbf_ms.is_some()),
                ("BUDGET_EVIDENCE_EXP_MS", self.evidence_exp_ms.is_some()),
            ];
            return match others.iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((other, _)) => Err(ConfigError::value(
                    PUBLIC_KEY,
                    format!("it is missing, but {other} is set"),
                )),
            };
        };
        let Some(from_ms) = self.evidence_nbf_ms else {
            return Err(ConfigError::value(
                NBF_MS,
                "set the time from which the key signs, in milliseconds since 1970; for the first key, such as $(date +%s000)",
            ));
        };
        let key = listed(digits, None, Some(from_ms), self.evidence_exp_ms);
        key.map(Some)
            .map_err(|reason| ConfigError::value(PUBLIC_KEY, reason))
    }
}

impl EvidenceSeedArgs {
    /// Validates the seeds against the keys: each signs once, and its key must verify that.
    pub(super) fn into_config(
        self,
        evidence: Option<EvidenceConfig>,
    ) -> Result<Option<SigningConfig>, ConfigError> {
        let (seeds, variable) = SEEDS.text(self.evidence_seeds, self.evidence_seeds_file)?;
        let Some(evidence) = evidence else {
            return match seeds.expose_secret().trim().is_empty() {
                true => Ok(None),
                false => Err(ConfigError::value(
                    SERVER_ID,
                    "evidence has seeds but neither a server id nor keys: give both as the API has them, or remove the seeds",
                )),
            };
        };
        let refused = |reason| ConfigError::value(variable, reason);
        let keys = signing_keys(seeds.expose_secret()).map_err(refused)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        pair(&evidence.issuers.key_set().keys, &keys, now_ms).map_err(refused)?;
        Ok(Some(SigningConfig { evidence, keys }))
    }
}

#[cfg(test)]
mod tests;
