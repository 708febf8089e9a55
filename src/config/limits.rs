//! Limits of what one tenant may store, so that it cannot hurt others.

use clap::Args;
use clap::builder::TypedValueParser as _;

/// Limits of what one tenant may store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitsConfig {
    /// Largest `metadata` of a request, in bytes of JSON text
    #[arg(long, env = "BUDGET_METADATA_LIMIT_BYTES", value_name = "BYTES", default_value = "16384",
          value_parser = clap::value_parser!(u32).range(64..=1_048_576).map(|bytes| bytes as usize))]
    pub metadata_limit_bytes: usize,
    /// Largest `caps` of a policy, in bytes of JSON text
    #[arg(long, env = "BUDGET_CAPS_LIMIT_BYTES", value_name = "BYTES", default_value = "4096",
          value_parser = clap::value_parser!(u32).range(64..=65_536).map(|bytes| bytes as usize))]
    pub caps_limit_bytes: usize,
}
