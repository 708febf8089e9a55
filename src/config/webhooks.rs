//! Settings of requests to webhook receivers.

use std::path::Path;

use clap::Args;

use super::values::setting;
use crate::egress::{Egress, Resolver, TrustedRoots};

/// Names of receivers that a process resolves at the same time. Each takes a thread of the runtime, which has 512.
const LOOK_UPS_MAX: usize = 32;

/// Settings of requests to webhook receivers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookConfig {
    /// PEM file with the authorities that signed the certificates of webhook receivers; replaces the public ones.
    ///
    /// Set it when an authority of your own signed the certificates of receivers
    #[arg(long = "webhook-ca-file", env = "BUDGET_WEBHOOK_CA_FILE", value_name = "FILE",
          value_parser = setting(|path: &str| TrustedRoots::of_file(Path::new(path))))]
    roots: Option<TrustedRoots>,
}

/// Settings of deliveries.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct DeliveryConfig {
    /// First attempts of the events of one tenant to one subscription that may overlap; they start in order. 1 waits for the end
    /// of each, so a receiver that takes 50 ms gets 20 events a second of one tenant.
    ///
    /// Raise it when a receiver is too slow for the events of one tenant, and tolerates that they overlap
    #[arg(long = "webhook-lane-concurrency", env = "BUDGET_WEBHOOK_LANE_CONCURRENCY", value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub lane_concurrency: u32,
}

impl WebhookConfig {
    /// A client for requests to receivers.
    pub fn egress(&self) -> Egress {
        let roots = self.roots.clone().unwrap_or_else(TrustedRoots::public);
        Egress::new(Resolver::system().limited(LOOK_UPS_MAX), &roots)
    }
}
