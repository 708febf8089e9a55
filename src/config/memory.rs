//! From which shares of Redis's memory on it counts as short.

use clap::Args;

use super::error::ConfigError;
use super::limits::LIMITS_HEADING;
use crate::store::MemorySteps;

/// Flags of [`MemorySteps`].
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = LIMITS_HEADING)]
pub struct MemoryArgs {
    /// Share of maxmemory, in percent, from which on readiness and the log warn
    #[arg(long, env = "BUDGET_MEMORY_WARN_PERCENT", value_name = "PERCENT",
          default_value_t = MemorySteps::DEFAULT.warn, value_parser = clap::value_parser!(u32).range(1..=100))]
    memory_warn_percent: u32,
    /// Share of maxmemory, in percent, from which on denials are only counted, as beyond BUDGET_DENIED_EVENTS_PER_MINUTE
    #[arg(long, env = "BUDGET_MEMORY_COUNT_DENIALS_PERCENT", value_name = "PERCENT",
          default_value_t = MemorySteps::DEFAULT.count_denials, value_parser = clap::value_parser!(u32).range(1..=100))]
    memory_count_denials_percent: u32,
    /// Share of maxmemory, in percent, from which on creates, usage events and decisions are refused
    #[arg(long, env = "BUDGET_MEMORY_REFUSE_PERCENT", value_name = "PERCENT",
          default_value_t = MemorySteps::DEFAULT.refuse, value_parser = clap::value_parser!(u32).range(1..=100))]
    memory_refuse_percent: u32,
}

impl MemoryArgs {
    /// Validates the settings together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub(super) fn into_steps(self) -> Result<MemorySteps, ConfigError> {
        let steps = MemorySteps {
            warn: self.memory_warn_percent,
            count_denials: self.memory_count_denials_percent,
            refuse: self.memory_refuse_percent,
        };
        let (warn, count) = (
            "BUDGET_MEMORY_WARN_PERCENT",
            "BUDGET_MEMORY_COUNT_DENIALS_PERCENT",
        );
        let misplaced = [
            (steps.warn > steps.count_denials).then_some((warn, count)),
            (steps.count_denials > steps.refuse).then_some((count, "BUDGET_MEMORY_REFUSE_PERCENT")),
        ];
        match misplaced.into_iter().flatten().next() {
            None => Ok(steps),
            Some((first, second)) => Err(ConfigError::Contradiction {
                first,
                second,
                reason: "the former must not be above the latter",
            }),
        }
    }
}
