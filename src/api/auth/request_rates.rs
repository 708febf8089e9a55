//! Bounds how many requests the keys of one tenant make to this replica: a burst, and then a rate per second.
//!
//! A request is counted when its key has proved valid, or anybody could use up what belongs to a tenant. So requests at the
//! same time may go beyond the bound; the ones after them wait for that.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::api::errors::ApiError;
use crate::api::operation::Plane;
use crate::domain::bounded::BoundedTable;
use crate::domain::ids::TenantId;

/// Tenants that are counted, about 100 bytes each. For more of them, those that have used least are forgotten.
const TENANTS_MAX: usize = 65_536;

/// Bytes of a stored response that count as one request.
const STORED_BYTES: u64 = 4_096;

/// The bound of each plane.
#[derive(Debug)]
pub struct RequestRates {
    admin: Bound,
    runtime: Bound,
}

#[derive(Debug)]
struct Bound {
    setting: &'static str,
    /// 0: without a bound.
    per_second: u32,
    /// At least one.
    burst: u32,
    /// When all that a tenant has used will be there again.
    used_until: Mutex<BoundedTable<TenantId, Instant>>,
}

impl RequestRates {
    /// With so many requests per second on each plane, 0 for no bound, and at least one at once.
    pub fn new(admin: u32, runtime: u32, burst: u32) -> Self {
        Self {
            admin: Bound::new("BUDGET_REQUESTS_PER_SECOND", admin, burst),
            runtime: Bound::new("BUDGET_RUNTIME_REQUESTS_PER_SECOND", runtime, burst),
        }
    }

    /// Whether a tenant may make one more request.
    ///
    /// # Errors
    /// 429.
    pub fn check(&self, plane: Plane, tenant: &TenantId) -> Result<(), ApiError> {
        self.of(plane).check(tenant, Instant::now())
    }

    /// Counts a request, and once more for each 4 KiB that are stored of its response.
    pub fn count(&self, plane: Plane, tenant: &TenantId, stored_bytes: u64) {
        let more = u32::try_from(stored_bytes / STORED_BYTES).unwrap_or(u32::MAX);
        let count = more.saturating_add(1);
        self.of(plane).count(tenant, count, Instant::now());
    }

    fn of(&self, plane: Plane) -> &Bound {
        match plane {
            Plane::Admin => &self.admin,
            Plane::Runtime => &self.runtime,
        }
    }
}

impl Bound {
    fn new(setting: &'static str, per_second: u32, burst: u32) -> Self {
        Self {
            setting,
            per_second,
            burst,
            used_until: Mutex::new(BoundedTable::new(TENANTS_MAX)),
        }
    }

    /// How long it takes until one more request is possible; `None` without a bound.
    fn each(&self) -> Option<Duration> {
        Duration::from_secs(1).checked_div(self.per_second)
    }

    fn check(&self, tenant: &TenantId, now: Instant) -> Result<(), ApiError> {
        let Some(each) = self.each() else {
            return Ok(());
        };
        let until = self.used_until.lock().get(tenant).copied();
        let used = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        match (used + each).checked_sub(each * self.burst) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(wait) => {
                Err(self.refusal(tenant, used.div_duration_f64(each).ceil() as i64, wait))
            }
        }
    }

    fn refusal(&self, tenant: &TenantId, present: i64, wait: Duration) -> ApiError {
        let (setting, per_second, burst) = (self.setting, self.per_second, self.burst);
        let seconds = (wait.as_millis() as u64).div_ceil(1000).max(1);
        let message = format!(
            "Too many requests of the tenant {tenant}: {present} are used of {burst} at once, and {per_second} are added per \
             second ({setting}); try again in {seconds} s"
        );
        ApiError::limited(message, wait).beyond(setting, burst.into(), present)
    }

    fn count(&self, tenant: &TenantId, count: u32, now: Instant) {
        let Some(each) = self.each() else { return };
        let each = each * count;
        let mut used_until = self.used_until.lock();
        let until = used_until.get_or_insert(tenant, now, |until| *until);
        *until = (*until).max(now) + each;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(per_second: u32, burst: u32) -> Bound {
        Bound::new("S", per_second, burst)
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).expect("a tenant id")
    }

    /// How many of 100 requests at one time are let through.
    fn admitted(bound: &Bound, tenant: &TenantId, now: Instant) -> usize {
        let admit = |_: &usize| {
            let admitted = bound.check(tenant, now).is_ok();
            if admitted {
                bound.count(tenant, 1, now);
            }
            admitted
        };
        (0..100).filter(admit).count()
    }

    #[test]
    fn a_tenant_has_its_burst_and_then_its_rate() {
        let (bound, acme, start) = (bound(10, 20), tenant("acme"), Instant::now());
        assert_eq!(admitted(&bound, &acme, start), 20);
        let refused = bound.check(&acme, start).expect_err("all are used");
        assert!(
            refused.message().ends_with(
                "20 are used of 20 at once, and 10 are added per second (S); try again in 1 s"
            ),
            "{}",
            refused.message()
        );
        assert_eq!(admitted(&bound, &tenant("bolt"), start), 20);
        let later = start + Duration::from_millis(500);
        assert_eq!(admitted(&bound, &acme, later), 5);
        let much_later = later + Duration::from_secs(60);
        assert_eq!(admitted(&bound, &acme, much_later), 20);
    }

    #[test]
    fn without_a_rate_there_is_no_bound() {
        let (bound, acme, now) = (bound(0, 1), tenant("acme"), Instant::now());
        assert_eq!(admitted(&bound, &acme, now), 100);
        assert!(bound.used_until.lock().len() == 0);
    }

    #[test]
    fn memory_is_bounded_and_who_used_most_is_remembered() {
        let (bound, now) = (bound(1, 5), Instant::now());
        bound.count(&tenant("busy"), 5, now);
        for number in 0..TENANTS_MAX + 10 {
            bound.count(&tenant(&format!("tenant-{number}")), 1, now);
        }
        assert!(bound.used_until.lock().len() <= TENANTS_MAX);
        assert!(bound.check(&tenant("busy"), now).is_err());
        assert!(bound.check(&tenant("late"), now).is_ok());
    }
}
