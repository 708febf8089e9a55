//! Limits how many rows the lists of a tenant examine in vain, so that no tenant keeps Redis busy with filters that match little.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::ListLimits;
use crate::domain::ids::TenantId;
use crate::domain::refusal::TooManyScanned;

/// Rows per second of each tenant at each replica: a tenth of what one Redis reads, or less.
const ROWS_PER_SECOND: u32 = 20_000;

/// The rows of so much time may be examined at once: as many as one list sorts at most.
const BURST: Duration = Duration::from_millis(500);

/// Until when each tenant has used its rows at this replica. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ScanBudget(Arc<Mutex<HashMap<TenantId, Instant>>>);

impl ScanBudget {
    /// How long the next step of a tenant's list must wait.
    fn wait(&self, tenant: &TenantId, now: Instant) -> Duration {
        let used = self.0.lock();
        let until = used.get(tenant).copied().unwrap_or(now);
        until.duration_since(now).saturating_sub(BURST)
    }

    /// Charges rows that a step has examined.
    pub(super) fn charge(&self, tenant: &TenantId, rows: usize, now: Instant) {
        let mut used = self.0.lock();
        used.retain(|_, until| *until > now);
        let until = used.entry(tenant.clone()).or_insert(now);
        *until += Duration::from_secs(rows as u64) / ROWS_PER_SECOND;
    }
}

/// The steps of one list.
pub(super) struct Scan<'q> {
    limits: Option<&'q (ListLimits, TenantId)>,
    /// How long they may still wait.
    wait_max: Duration,
}

impl<'q> Scan<'q> {
    /// Steps that wait no longer than `wait_max` in all; without limits they never wait.
    pub fn new(limits: Option<&'q (ListLimits, TenantId)>, wait_max: Duration) -> Self {
        Self { limits, wait_max }
    }

    /// Waits until the next step may begin.
    ///
    /// # Errors
    /// [`TooManyScanned`], at once, if that takes too long.
    pub async fn wait(&mut self) -> Result<(), TooManyScanned> {
        let Some((limits, tenant)) = self.limits else {
            return Ok(());
        };
        let wait = limits.scans.wait(tenant, Instant::now());
        let left = self.wait_max.checked_sub(wait);
        self.wait_max = left.ok_or_else(|| TooManyScanned {
            tenant: tenant.clone(),
            limit: ROWS_PER_SECOND,
            present: ((wait + BURST) * ROWS_PER_SECOND).as_secs() as i64,
        })?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// Charges what a step has examined in vain.
    pub fn charge(&self, rows: usize) {
        if let Some((limits, tenant)) = self.limits.filter(|_| rows > 0) {
            limits.scans.charge(tenant, rows, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_waits_for_its_rows_beyond_a_burst_and_others_do_not() {
        let (budget, now) = (ScanBudget::default(), Instant::now());
        let [acme, bolt] = ["acme", "bolt"].map(|id| TenantId::parse(id).expect("an id"));
        let wait_ms = |tenant, after_ms| {
            let at = now + Duration::from_millis(after_ms);
            budget.wait(tenant, at).as_millis()
        };
        budget.charge(&acme, 10_000, now);
        assert_eq!(wait_ms(&acme, 0), 0);
        budget.charge(&acme, 6_000, now);
        assert_eq!(wait_ms(&acme, 0), 300);
        assert_eq!(wait_ms(&acme, 200), 100);
        assert_eq!(wait_ms(&acme, 300), 0);
        assert_eq!(wait_ms(&bolt, 0), 0);
        budget.charge(&bolt, 1, now + Duration::from_secs(1));
        assert_eq!(
            budget.0.lock().len(),
            1,
            "those that owe nothing are forgotten"
        );
    }
}
