//! Deliveries of webhooks.

use std::path::PathBuf;

use clap::Args;

use super::error::ConfigError;
use crate::egress::TrustedRoots;

/// Flags of [`WebhookConfig`].
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookArgs {
    /// PEM file with the authorities that signed the certificates of webhook receivers; replaces the public ones
    #[arg(long, env = "BUDGET_WEBHOOK_CA_FILE", value_name = "FILE")]
    webhook_ca_file: Option<PathBuf>,
}

/// Settings of deliveries.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// `BUDGET_WEBHOOK_CA_FILE`, default the public authorities.
    pub roots: TrustedRoots,
}

impl WebhookArgs {
    pub(super) fn into_config(self) -> Result<WebhookConfig, ConfigError> {
        let roots = match self.webhook_ca_file {
            None => TrustedRoots::public(),
            Some(path) => TrustedRoots::of_file(&path).map_err(|error| ConfigError::Value {
                variable: "BUDGET_WEBHOOK_CA_FILE",
                reason: error.to_string(),
            })?,
        };
        Ok(WebhookConfig { roots })
    }
}
