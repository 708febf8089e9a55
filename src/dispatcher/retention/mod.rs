//! Retention: removes what is over, so that no key grows without bound.
//!
//! Scripts register each tenant and day that they write for. Retention looks at a registered day when something of it can
//! be over: ended reservations and booked events first (their charges move into the base of the ledgers, so that these
//! can still be recomputed), then the day's event log, then its audit log, which only goes sealed; a day of which nothing is
//! left leaves the registry. Each step is one short script or command.

mod metrics;

use std::time::Duration;

use tracing::{error, info};

pub use metrics::RetentionMetrics;

use crate::dispatcher::sweep::ClockWatch;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::{NO_TENANT, SYSTEM, UNKNOWN_CALLER};
use crate::store::dispatcher::purge::{
    DropAudit, Look, PAGE_ROWS, Purged, Records, Retired, TRIM_ENTRIES,
};
use crate::store::{Day, Lease, Store, StoreError};

/// How long to wait when nothing is due.
pub const IDLE: Duration = Duration::from_secs(10);

/// Days looked at in each partition in one pass.
const ROWS: usize = 8;

/// Pages of one kind of records that one look removes; the rest waits for the next pass.
const PAGES_PER_LOOK: usize = 50;

/// Booked events are kept at least so long: whoever posts what a lost reservation had cost may retry for days, and is to be
/// known again.
const POSTS_KEPT_MIN: Duration = Duration::from_secs(7 * 86_400);
/// How long audit entries of unknown callers are kept at most: anybody can cause them.
const UNKNOWN_CALLERS: Duration = Duration::from_secs(30 * 86_400);

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// After how long past its time an audit log goes although older entries of its chain are missing.
const OUT_OF_TURN_MS: i64 = 7 * DAY_MS;

/// After how long what is over is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Reservations and booked events, from their end; the latter at least a week.
    pub records: Duration,
    /// The event log, from the end of its day.
    pub events: Duration,
    /// The audit log, from the end of its day.
    pub audit: Duration,
    /// Entries of the outbox.
    pub outbox: Duration,
}

/// What one pass came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// Days looked at.
    pub looks: usize,
    /// Reservations removed.
    pub reservations: i64,
    /// Records of booked events removed.
    pub posts: i64,
    /// Entries of event logs removed.
    pub events: i64,
    /// Entries of audit logs removed.
    pub audit: i64,
    /// Entries of outboxes removed.
    pub outbox: i64,
    /// Days of which nothing is left.
    pub days: usize,
    /// Looks that failed; they are repeated in an hour.
    pub failed: usize,
    /// Whether something due was left: go on at once.
    pub more: bool,
    /// Whether nothing was done because Redis's clock cannot be believed.
    pub halted: bool,
    /// Partitions whose node is out of reach; they are left for a later pass.
    pub unreachable: usize,
}

impl Pass {
    /// How long to wait before the next pass.
    pub fn pause(&self) -> Duration {
        if self.more { Duration::ZERO } else { IDLE }
    }
}

/// Removes what is over, under the leases that it is given.
pub struct Retention {
    store: Store,
    clock: ClockWatch,
    periods: Periods,
    metrics: RetentionMetrics,
}

/// How the look at one kind of records ended.
enum Walk {
    /// Nothing is left to do before this time, in milliseconds.
    Done { removed: i64, next_ms: i64 },
    /// The limit of a pass was reached.
    More { removed: i64 },
    /// The lease is another's.
    Fenced,
}

impl Retention {
    /// A worker that has done nothing yet.
    pub fn new(
        store: Store,
        clock: ClockWatch,
        periods: Periods,
        metrics: RetentionMetrics,
    ) -> Self {
        Self {
            store,
            clock,
            periods,
            metrics,
        }
    }

    /// One pass over the partitions of `leases`. Those that turn out to be another dispatcher's are told to `lost`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one day alone is counted, logged and put off instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(Pass {
                halted: true,
                ..Pass::default()
            });
        };
        let mut pass = Pass::default();
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_days(&partitions, ROWS).await?;
        let mut lag_ms = 0;
        for (lease, found) in leases.iter().zip(polled) {
            let Some(found) = found else {
                pass.unreachable += 1;
                continue;
            };
            let due: Vec<_> = found
                .into_iter()
                .filter(|due| due.at_ms <= now_ms)
                .collect();
            lag_ms = due
                .iter()
                .map(|due| now_ms - due.at_ms)
                .fold(lag_ms, i64::max);
            pass.more |= due.len() == ROWS;
            for due in due {
                match self.look(*lease, &due.member, now_ms, &mut pass).await {
                    Ok(true) => {}
                    Ok(false) => {
                        lost(*lease);
                        break;
                    }
                    Err(StoreError::Unavailable(error)) => return Err(error.into()),
                    Err(failure) => {
                        self.put_off(*lease, &due.member, now_ms, &failure, &mut pass)
                            .await?
                    }
                }
            }
        }
        self.metrics.lag_seconds.set(lag_ms as f64 / 1_000.0);
        self.trim(&partitions, now_ms, &mut pass).await?;
        if pass.reservations + pass.posts + pass.events + pass.audit > 0 {
            info!(
                reservations = pass.reservations,
                posts = pass.posts,
                events = pass.events,
                audit = pass.audit,
                "removed {} reservations, {} booked events, {} events and {} audit entries whose time was over",
                pass.reservations,
                pass.posts,
                pass.events,
                pass.audit
            );
        }
        Ok(pass)
    }

    /// Looks at one day of a tenant; false when the lease is another's.
    async fn look(
        &self,
        lease: Lease,
        member: &str,
        now_ms: i64,
        pass: &mut Pass,
    ) -> Result<bool, StoreError> {
        pass.looks += 1;
        let Some((tenant, day)) = parse(member) else {
            let unreadable = format!("`{member}` is no tenant and day");
            let (code, detail) = ("MEMBER".to_owned(), unreadable);
            return Err(StoreError::Refused { code, detail });
        };
        let mut next_ms = [0; 4];
        for (slot, records) in [Records::Reservations, Records::Posts]
            .into_iter()
            .enumerate()
        {
            let (removed, outcome) = match self.walk(lease, tenant, day, records, now_ms).await? {
                Walk::Done { removed, next_ms } => (removed, Some(next_ms)),
                Walk::More { removed } => (removed, None),
                Walk::Fenced => return Ok(false),
            };
            match records {
                Records::Reservations => pass.reservations += removed,
                Records::Posts => pass.posts += removed,
            }
            self.metrics.count(records.as_str(), removed);
            // What is left stays due, and is seen again in the next pass.
            pass.more |= outcome.is_none();
            next_ms[slot] = outcome.unwrap_or(now_ms);
        }
        let over_ms = day.plus(1).start_ms();
        next_ms[2] = over_ms + millis(self.periods.events);
        let audit = match tenant {
            UNKNOWN_CALLER => self.periods.audit.min(UNKNOWN_CALLERS),
            _ => self.periods.audit,
        };
        next_ms[3] = over_ms + millis(audit);
        let look = Look {
            drop_events: next_ms[2] <= now_ms,
            drop_audit: match now_ms - next_ms[3] {
                ..0 => DropAudit::No,
                late if late < OUT_OF_TURN_MS => DropAudit::Oldest,
                _ => DropAudit::Any,
            },
            next_ms,
        };
        match self.store.retire(lease, tenant, day, look).await? {
            Retired::Done {
                events,
                audit,
                gone,
            } => {
                pass.events += events;
                pass.audit += audit;
                pass.days += usize::from(gone);
                self.metrics.count("events", events);
                self.metrics.count("audit", audit);
                Ok(true)
            }
            Retired::Fenced => Ok(false),
        }
    }

    /// Removes the records of a day that ended long enough ago.
    async fn walk(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        records: Records,
        now_ms: i64,
    ) -> Result<Walk, StoreError> {
        let period_ms = millis(match records {
            Records::Reservations => self.periods.records,
            Records::Posts => self.periods.records.max(POSTS_KEPT_MIN),
        });
        let ended_before_ms = now_ms - period_ms;
        // Nothing ends before it begins.
        if day.start_ms() >= ended_before_ms {
            return Ok(Walk::Done {
                removed: 0,
                next_ms: day.start_ms() + period_ms + 1,
            });
        }
        let (mut removed_sum, mut kept_sum, mut earliest_ms) = (0, 0, None::<i64>);
        let mut pages = 0;
        // A page of which nothing goes does not count: the next pass would only walk over it again.
        while pages < PAGES_PER_LOOK {
            let page = self
                .store
                .purge(lease, tenant, day, records, ended_before_ms, kept_sum);
            let Purged::Page {
                examined,
                removed,
                kept,
                first_ended_ms,
                next_created_ms,
            } = page.await?
            else {
                return Ok(Walk::Fenced);
            };
            removed_sum += removed;
            kept_sum += kept;
            pages += usize::from(removed > 0);
            earliest_ms = [earliest_ms, first_ended_ms].into_iter().flatten().min();
            if examined < PAGE_ROWS {
                // Rows that stay for another reason than their recent end are looked at daily.
                let other = (kept_sum > 0).then_some(now_ms - period_ms + DAY_MS);
                let candidates = [earliest_ms, next_created_ms, other];
                let first_ms = candidates.into_iter().flatten().min().unwrap_or(now_ms);
                return Ok(Walk::Done {
                    removed: removed_sum,
                    next_ms: (first_ms + period_ms + 1).max(now_ms + HOUR_MS),
                });
            }
        }
        Ok(Walk::More {
            removed: removed_sum,
        })
    }

    /// A day that cannot be looked at must not keep the others waiting.
    async fn put_off(
        &self,
        lease: Lease,
        member: &str,
        now_ms: i64,
        failure: &StoreError,
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        pass.failed += 1;
        self.metrics.failures.inc();
        error!(
            partition = %lease.partition, day = member, error = %failure,
            "retention cannot look at `{member}`, and tries again in an hour: {failure}"
        );
        self.store
            .postpone_day(lease.partition, member, now_ms + HOUR_MS)
            .await
    }

    /// Trims the outboxes by age.
    async fn trim(
        &self,
        partitions: &[Partition],
        now_ms: i64,
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        let before_ms = now_ms - millis(self.periods.outbox);
        let trimmed = self.store.trim_outboxes(partitions, before_ms).await?;
        // Whole blocks go, so a full step may fall short of the limit by one block of 100 entries.
        pass.more |= trimmed.iter().any(|count| *count > TRIM_ENTRIES - 200);
        pass.outbox = trimmed.iter().sum();
        self.metrics.count("outbox", pass.outbox);
        Ok(())
    }
}

/// Reads `<tenant>:<yyyymmdd>`. What belongs to no tenant is logged under a name between underscores, once in each
/// partition.
fn parse(member: &str) -> Option<(&str, Day)> {
    let (tenant, day) = member.rsplit_once(':')?;
    let of_no_tenant = [NO_TENANT, UNKNOWN_CALLER, SYSTEM].contains(&tenant);
    let known = of_no_tenant || TenantId::parse(tenant).is_some();
    Some((tenant, Day::parse(day)?)).filter(|_| known)
}

fn millis(period: Duration) -> i64 {
    period.as_millis().try_into().unwrap_or(i64::MAX / 4)
}
