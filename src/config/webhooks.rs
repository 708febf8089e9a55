//! Settings of requests to webhook receivers.

use std::path::Path;

use clap::Args;

use super::values::setting;
use crate::egress::TrustedRoots;

/// Settings of requests to webhook receivers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookConfig {
    /// PEM file with the authorities that signed the certificates of webhook receivers; replaces the public ones
    #[arg(long = "webhook-ca-file", env = "BUDGET_WEBHOOK_CA_FILE", value_name = "FILE",
          value_parser = setting(|path: &str| TrustedRoots::of_file(Path::new(path))))]
    roots: Option<TrustedRoots>,
}

impl WebhookConfig {
    /// The authorities that receivers may have certificates of.
    pub fn roots(&self) -> TrustedRoots {
        self.roots.clone().unwrap_or_else(TrustedRoots::public)
    }
}
