//! Settings of requests to webhook receivers.

use std::path::Path;

use clap::Args;
use clap::builder::TypedValueParser as _;

use super::values::setting;
use crate::egress::{Egress, Resolver, TrustedRoots};

/// Settings of requests to webhook receivers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookConfig {
    /// PEM file with the authorities that signed the certificates of webhook receivers; replaces the public ones
    #[arg(long = "webhook-ca-file", env = "BUDGET_WEBHOOK_CA_FILE", value_name = "FILE",
          value_parser = setting(|path: &str| TrustedRoots::of_file(Path::new(path))))]
    roots: Option<TrustedRoots>,
}

/// Settings of deliveries.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct DeliveryConfig {
    /// First attempts of the events of one tenant to one subscription that may overlap; they start in order. 1 waits for the end
    /// of each, so a receiver that takes 50 ms gets 20 events a second of one tenant
    #[arg(long = "webhook-lane-concurrency", env = "BUDGET_WEBHOOK_LANE_CONCURRENCY", value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub lane_concurrency: u32,
    /// Delays a retry by up to so many percent more, at random, so that the retries of one outage do not come all at once
    #[arg(long = "webhook-retry-jitter", env = "BUDGET_WEBHOOK_RETRY_JITTER", value_name = "PERCENT", default_value = "0",
          value_parser = clap::value_parser!(u32).range(0..=10))]
    pub retry_jitter: u32,
    /// Most names of webhook receivers that a dispatcher resolves at the same time; further ones wait
    #[arg(long = "webhook-delivery-lookup-limit", env = "BUDGET_WEBHOOK_DELIVERY_LOOKUP_LIMIT", value_name = "N", default_value = "32",
          value_parser = clap::value_parser!(u16).range(1..=400).map(usize::from))]
    pub look_ups: usize,
}

impl WebhookConfig {
    /// The way to receivers, with at most so many look-ups of names at a time.
    pub fn egress(&self, look_ups: usize) -> Egress {
        let roots = self.roots.clone().unwrap_or_else(TrustedRoots::public);
        Egress::new(Resolver::system().limited(look_ups), &roots)
    }
}
