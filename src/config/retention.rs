//! How long data is kept.

use std::time::Duration;

use clap::Args;

use super::values::days;

/// How long data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionConfig {
    /// Days that a reservation is kept after its end, with its idempotency entries, and a usage event after its charge,
    /// but at least 7. About 1 KB each.
    ///
    /// Raise it when reservations are read, or requests repeated, later than this; lower it when Redis lacks memory
    #[arg(long = "reservation-retention-days", env = "BUDGET_RESERVATION_RETENTION_DAYS", value_name = "DAYS",
          default_value = "30", value_parser = days(1..=3_650))]
    pub reservations: Duration,
    /// Days that events are kept.
    ///
    /// Raise it when events are read, or replayed to a webhook, later than this
    #[arg(long = "event-retention-days", env = "BUDGET_EVENT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "90", value_parser = days(1..=3_650))]
    pub events: Duration,
    /// Days that audit entries are kept; those of unknown callers at most 30.
    ///
    /// Raise it when auditors ask for a longer time
    #[arg(long = "audit-retention-days", env = "BUDGET_AUDIT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "400", value_parser = days(1..=3_650))]
    pub audit: Duration,
}

/// Longer than dispatchers are ever down: an event whose pointer is gone before it was queued for webhooks is not delivered.
const OUTBOX: Duration = Duration::from_secs(7 * 86_400);

impl RetentionConfig {
    /// How long the outbox keeps its pointers to events: never longer than the events.
    pub fn outbox(&self) -> Duration {
        OUTBOX.min(self.events)
    }
}
