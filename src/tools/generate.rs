//! `keys generate`: random keys for the settings that need one.

use clap::{Args, ValueEnum};
use secrecy::{ExposeSecret, SecretString};

use crate::domain::admin_key::AdminKeys;
use crate::domain::seal::SealingKeys;
use crate::evidence::SigningKey;

/// Arguments of `keys generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// What the key is for
    #[arg(long, default_value = "admin")]
    kind: KeyKind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyKind {
    /// Opens the admin plane: for BUDGET_ADMIN_KEYS
    Admin,
    /// Encrypts the secrets of webhooks: for BUDGET_SECRET_KEYS
    Secret,
    /// Signs evidence: a seed for BUDGET_EVIDENCE_SEEDS of dispatchers, and the public key for BUDGET_EVIDENCE_PUBLIC_KEY of all
    Evidence,
}

/// A random key.
pub fn generate(args: &GenerateArgs) -> String {
    let key: SecretString = match args.kind {
        KeyKind::Admin => AdminKeys::generate(),
        KeyKind::Secret => SealingKeys::generate().into(),
        KeyKind::Evidence => {
            let (seed, key) = SigningKey::generate();
            let public = key.public().hex();
            let seed = seed.expose_secret();
            format!("BUDGET_EVIDENCE_SEEDS={seed}\nBUDGET_EVIDENCE_PUBLIC_KEY={public}").into()
        }
    };
    key.expose_secret().to_owned()
}
