//! Retention: deletes old records and logs, so that no key grows without bound.
//!
//! Scripts register each tenant and day that they write for. When data of a registered day may be old enough, retention purges
//! ended reservations and usage events, whose charges move into the base of the ledgers, merges the day's usage into its month, and
//! deletes the day's event log and its audit log, once that is sealed. Each step is one short script or command.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{error, info};

use super::due::{DueRows, UNBOUNDED_MS, partitions};
use super::sweep::ClockWatch;
use super::unknown_callers::{self, KEPT_MAX};
use super::usage_merging;
use super::workers::lease_worker;
use crate::config::RetentionConfig;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::reservation::USAGE_EVENT_DAYS_MIN;
use crate::domain::tenant::{NO_TENANT, SYSTEM, UNKNOWN_CALLER};
use crate::metrics::metrics;
use crate::store::dispatcher::poll::{Due, unreadable};
use crate::store::dispatcher::retention::{
    DropIdempotency, DropIdempotencyReply, PAGE_ROWS, PurgeReply, Records, Retire, RetireReply,
    TRIM_ENTRIES, Walk,
};
use crate::store::{Day, Keys, Lane, Lease, Store, StoreError, unless_fenced};

/// Days processed, and idempotency entries deleted, in each partition in one pass.
const ROWS: usize = 8;
const IDEMPOTENCY_ROWS: usize = 100;

/// Pages of one kind of records that one pass examines of a day; the next pass resumes there.
const PAGES_PER_DAY: usize = 50;

const USAGE_EVENTS_KEPT_MIN: Duration =
    Duration::from_secs(USAGE_EVENT_DAYS_MIN.unsigned_abs() * 86_400);
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// An audit log this long overdue is deleted even when older entries of its chain are missing.
const OUT_OF_ORDER_MS: i64 = 7 * DAY_MS;

metrics! {
    /// Metrics of retention.
    pub struct RetentionMetrics {
        /// Reservations, usage events, idempotency entries, and entries of event logs, audit logs and outboxes removed.
        removed: IntCounterVec["kind"] = "budget_retention_removed_total",
        /// Days of a tenant that retention failed to process.
        failures: IntCounter = "budget_retention_failures_total",
        /// By how much the earliest due day was overdue at the last pass.
        lag_seconds: Gauge = "budget_retention_lag_seconds",
    }
}

impl RetentionMetrics {
    fn count(&self, kind: &str, removed: i64) {
        let of_kind = self.removed.with_label_values(&[kind]);
        of_kind.inc_by(removed.unsigned_abs());
    }
}

/// Result of one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPass {
    /// Days processed.
    pub processed: usize,
    /// Reservations removed.
    pub reservations: i64,
    /// Records of usage events removed.
    pub usage_events: i64,
    /// Entries of event logs removed.
    pub events: i64,
    /// Entries of audit logs removed.
    pub audit: i64,
    /// Entries of outboxes removed.
    pub outbox: i64,
    /// Idempotency entries of fundings and bulk actions removed.
    pub idempotency: i64,
    /// Days with nothing left.
    pub days: usize,
    /// Days that failed; they are retried in an hour.
    pub failed: usize,
    /// Whether something due is left.
    pub more: bool,
    /// Whether the pass did nothing because Redis's clock is in doubt.
    pub halted: bool,
    /// Partitions whose node is out of reach; they wait for a later pass.
    pub unreachable: usize,
}

/// Deletes old data.
pub struct Retention {
    store: Store,
    clock: ClockWatch,
    periods: RetentionConfig,
    metrics: RetentionMetrics,
    walks: Mutex<HashMap<WalkOf, Walk>>,
    unknown_callers_max: u64,
}

/// A day of a tenant that several passes walk through, and the kind of records.
type WalkOf = (Partition, String, Records);

impl Retention {
    /// A worker that halts while `clock` is in doubt.
    pub fn new(
        store: Store,
        clock: ClockWatch,
        periods: RetentionConfig,
        metrics: RetentionMetrics,
    ) -> Self {
        Self {
            store,
            clock,
            periods,
            metrics,
            walks: Mutex::default(),
            unknown_callers_max: unknown_callers::ENTRIES_MAX,
        }
    }

    /// The same, with this many audit entries of unknown callers at most.
    #[must_use]
    pub fn with_unknown_callers(mut self, max: u64) -> Self {
        self.unknown_callers_max = max;
        self
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one day alone is counted, logged and postponed.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<RetentionPass, StoreError> {
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(RetentionPass {
                halted: true,
                ..RetentionPass::default()
            });
        };
        let due =
            DueRows::poll(&self.store, Keys::days, leases, now_ms, ROWS, UNBOUNDED_MS).await?;
        let mut pass = RetentionPass {
            more: due.more(),
            unreachable: due.unreachable,
            ..RetentionPass::default()
        };
        self.metrics.lag_seconds.set(due.lag_seconds);
        self.walks
            .lock()
            .retain(|(partition, ..), _| leases.iter().any(|lease| lease.partition == *partition));
        for (lease, members) in due.by_lease {
            for Due { member, .. } in members {
                match self.process(lease, &member, now_ms, &mut pass).await {
                    Ok(true) => {}
                    Ok(false) => {
                        lost(lease);
                        break;
                    }
                    Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                    // Postponed, so that it does not delay the others.
                    Err(failure) => {
                        pass.failed += 1;
                        self.metrics.failures.inc();
                        error!(
                            partition = %lease.partition, day = member, error = %failure,
                            "retention of `{member}` failed and is retried in an hour: {failure}"
                        );
                        let days = self.store.keys().days(lease.partition);
                        let again_ms = now_ms + HOUR_MS;
                        self.store.postpone(days, &member, again_ms).await?;
                    }
                }
            }
        }
        self.drop_idempotency(leases, now_ms, &mut lost, &mut pass)
            .await?;
        let first = |lease: &&Lease| lease.partition == Partition::FIRST;
        if let Some(&lease) = leases.iter().find(first) {
            match unknown_callers::bound(&self.store, lease, self.unknown_callers_max).await? {
                Some(dropped) => {
                    pass.audit += dropped;
                    self.metrics.count("audit", dropped);
                }
                None => lost(lease),
            }
        }
        self.trim(&partitions(leases), now_ms, &mut pass).await?;
        let RetentionPass {
            reservations,
            usage_events,
            events,
            audit,
            ..
        } = pass;
        if reservations + usage_events + events + audit > 0 {
            info!(
                reservations,
                usage_events,
                events,
                audit,
                "removed {reservations} reservations, {usage_events} usage events, {events} events and {audit} audit entries"
            );
        }
        Ok(pass)
    }

    /// Deletes what is old enough of one day of a tenant; false when another dispatcher holds the lease.
    async fn process(
        &self,
        lease: Lease,
        member: &str,
        now_ms: i64,
        pass: &mut RetentionPass,
    ) -> Result<bool, StoreError> {
        pass.processed += 1;
        let Some((tenant, day)) = parse(member) else {
            return Err(unreadable(member));
        };
        let mut again_ms = [now_ms; 2];
        for (again_ms, &records) in again_ms.iter_mut().zip(Records::ALL) {
            let purged = self.purge(lease, tenant, day, records, now_ms).await?;
            let Some((removed, next_ms)) = purged else {
                return Ok(false);
            };
            // What is left stays due, for the next pass.
            pass.more |= next_ms.is_none();
            *again_ms = next_ms.unwrap_or(now_ms);
            match records {
                Records::Reservations => pass.reservations += removed,
                Records::UsageEvents => pass.usage_events += removed,
            }
            self.metrics.count(records.as_str(), removed);
        }
        let over_ms = day.plus(1).start_ms();
        let usage_again_ms = over_ms + i64::from(self.periods.usage_days) * DAY_MS;
        if usage_again_ms <= now_ms {
            let of = (tenant, day, self.periods.usage_months);
            let Some(is_done) = usage_merging::merge(&self.store, lease, of).await? else {
                return Ok(false);
            };
            pass.more |= !is_done;
        }
        let events_again_ms = over_ms + millis(self.periods.events);
        let audit_again_ms = over_ms
            + millis(match tenant {
                UNKNOWN_CALLER => self.periods.audit.min(KEPT_MAX),
                _ => self.periods.audit,
            });
        let call = Retire {
            tenant,
            of_day: day,
            member: member.to_owned(),
            of_day_start_ms: day.start_ms(),
            fencing_token: lease,
            drop_events: events_again_ms <= now_ms,
            // From its time on if the log is the oldest of its chain, later in any case.
            drop_audit: match now_ms - audit_again_ms {
                ..0 => 0,
                late if late < OUT_OF_ORDER_MS => 1,
                _ => 2,
            },
            reservations_again_ms: again_ms[0],
            usage_events_again_ms: again_ms[1],
            usage_again_ms,
            events_again_ms,
            audit_again_ms,
        };
        let retired = unless_fenced(self.store.run(Lane::Background, &call).await)?;
        let (events, audit) = match retired {
            Some(RetireReply::Retired { events, audit }) => {
                pass.days += 1;
                (events, audit)
            }
            Some(RetireReply::Kept { events, audit, .. }) => (events, audit),
            None => return Ok(false),
        };
        if audit > 0 && tenant == UNKNOWN_CALLER {
            self.store.drop_audit_rows(tenant, day).await?;
        }
        pass.events += events;
        pass.audit += audit;
        self.metrics.count("events", events);
        self.metrics.count("audit", audit);
        Ok(true)
    }

    /// Removes the records of a day that ended long enough ago. Returns how many, and until when nothing more is due, `None` where
    /// the pass reached its limit; or `None` where another dispatcher holds the lease.
    async fn purge(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        records: Records,
        now_ms: i64,
    ) -> Result<Option<(i64, Option<i64>)>, StoreError> {
        let period_ms = millis(match records {
            Records::Reservations => self.periods.reservations,
            Records::UsageEvents => self.periods.reservations.max(USAGE_EVENTS_KEPT_MIN),
        });
        let ended_before_ms = now_ms - period_ms;
        // No record ends before its day begins.
        if day.start_ms() >= ended_before_ms {
            return Ok(Some((0, Some(day.start_ms() + period_ms + 1))));
        }
        let walk_of = (lease.partition, format!("{tenant}:{day}"), records);
        let mut walk = self.walks.lock().remove(&walk_of).unwrap_or_default();
        let mut removed_sum = 0;
        for _ in 0..PAGES_PER_DAY {
            let page = self
                .store
                .purge(lease, tenant, day, records, ended_before_ms, &mut walk);
            let Some(PurgeReply::Purged {
                examined,
                removed,
                next_created_ms,
                ..
            }) = page.await?
            else {
                return Ok(None);
            };
            removed_sum += removed;
            if examined < PAGE_ROWS {
                // Rows that stay for another reason than their recent end are examined daily.
                let other = walk.last_kept.map(|_| now_ms - period_ms + DAY_MS);
                let candidates = [walk.first_ended_ms, next_created_ms, other];
                let first_ms = candidates.into_iter().flatten().min().unwrap_or(now_ms);
                let next_ms = (first_ms + period_ms + 1).max(now_ms + HOUR_MS);
                return Ok(Some((removed_sum, Some(next_ms))));
            }
        }
        self.walks.lock().insert(walk_of, walk);
        Ok(Some((removed_sum, None)))
    }

    /// Deletes idempotency entries of fundings and bulk actions whose time is over. They have no TTL, because a jump of the clock would
    /// end it, and a retry would move money again.
    async fn drop_idempotency(
        &self,
        leases: &[Lease],
        now_ms: i64,
        lost: &mut impl FnMut(Lease),
        pass: &mut RetentionPass,
    ) -> Result<(), StoreError> {
        let (index, rows) = (Keys::idempotency_due, IDEMPOTENCY_ROWS);
        let due = DueRows::poll(&self.store, index, leases, now_ms, rows, UNBOUNDED_MS).await?;
        pass.more |= due.more();
        for (lease, members) in due.by_lease {
            if members.is_empty() {
                continue;
            }
            let call = DropIdempotency {
                entries: members.into_iter().map(|due| due.member).collect(),
                due_until_ms: now_ms,
                fencing_token: &lease,
            };
            match unless_fenced(self.store.run(Lane::Background, &call).await)? {
                Some(DropIdempotencyReply::Dropped { count }) => pass.idempotency += count,
                None => lost(lease),
            }
        }
        self.metrics.count("idempotency", pass.idempotency);
        Ok(())
    }

    /// Trims the outboxes by age.
    async fn trim(
        &self,
        partitions: &[Partition],
        now_ms: i64,
        pass: &mut RetentionPass,
    ) -> Result<(), StoreError> {
        let before_ms = now_ms - millis(self.periods.outbox());
        let trimmed = self.store.trim_outboxes(partitions, before_ms).await?;
        // Redis trims whole blocks, so a full step may fall short of the limit by one block of 100 entries.
        pass.more |= trimmed.iter().any(|count| *count > TRIM_ENTRIES - 200);
        pass.outbox = trimmed.iter().sum();
        self.metrics.count("outbox", pass.outbox);
        Ok(())
    }
}

lease_worker!(Retention: "retention", Duration::from_secs(10));

/// Reads `<tenant>:<yyyymmdd>`. Each partition logs what belongs to no tenant under a name between underscores.
fn parse(member: &str) -> Option<(&str, Day)> {
    let (tenant, day) = member.rsplit_once(':')?;
    let of_no_tenant = [NO_TENANT, UNKNOWN_CALLER, SYSTEM].contains(&tenant);
    let known = of_no_tenant || TenantId::parse(tenant).is_some();
    Some((tenant, Day::parse(day)?)).filter(|_| known)
}

fn millis(period: Duration) -> i64 {
    period.as_millis().try_into().unwrap_or(i64::MAX / 4)
}
