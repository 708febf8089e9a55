//! How long data is kept.

use std::time::Duration;

use clap::Args;

use super::error::ConfigError;
use super::values::days;

/// How long data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionConfig {
    /// Days that a reservation is kept after its end, with its idempotency entries, and a usage event after its charge,
    /// but at least 7. About 1 KB each
    #[arg(long = "reservation-retention-days", env = "BUDGET_RESERVATION_RETENTION_DAYS", value_name = "DAYS",
          default_value = "30", value_parser = days(1..=3_650))]
    pub reservations: Duration,
    /// Days that events are kept
    #[arg(long = "event-retention-days", env = "BUDGET_EVENT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "90", value_parser = days(1..=3_650))]
    pub events: Duration,
    /// Days that audit entries are kept; those of unknown callers at most 30
    #[arg(long = "audit-retention-days", env = "BUDGET_AUDIT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "400", value_parser = days(1..=3_650))]
    pub audit: Duration,
    /// Days that the outbox keeps its pointers to events
    #[arg(long = "outbox-retention-days", env = "BUDGET_OUTBOX_RETENTION_DAYS", value_name = "DAYS",
          default_value = "7", value_parser = days(1..=365))]
    pub outbox: Duration,
}

impl RetentionConfig {
    /// Validates the settings together.
    pub(super) fn check(self) -> Result<Self, ConfigError> {
        // Outbox entries point into the event log.
        if self.events < self.outbox {
            return Err(ConfigError::Contradiction {
                first: "BUDGET_EVENT_RETENTION_DAYS",
                second: "BUDGET_OUTBOX_RETENTION_DAYS",
                reason: "an event must be kept at least as long as its outbox entry",
            });
        }
        Ok(self)
    }
}
