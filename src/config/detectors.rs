//! Settings of what dispatchers watch.

use std::time::Duration;

use clap::Args;

use super::values::ms;

/// Settings of what dispatchers watch.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Detectors")]
pub struct DetectorConfig {
    /// Samples in a window below which no rate of denials, expiries or refused API keys counts as unusual
    #[arg(long = "spike-samples", env = "BUDGET_SPIKE_SAMPLES", value_name = "N", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub spike_samples: u32,
    /// 99th percentile of round trips to Redis within a minute, in milliseconds, above which `system.high_latency` is emitted; 0 never
    #[arg(long = "store-latency-limit-ms", env = "BUDGET_STORE_LATENCY_LIMIT_MS", value_name = "MS", default_value = "250",
          value_parser = ms(0..=10_000))]
    pub store_latency_limit: Duration,
}

impl Default for DetectorConfig {
    fn default() -> Self {
        Self {
            spike_samples: 10,
            store_latency_limit: Duration::from_millis(250),
        }
    }
}
