//! Bounds the rate of deliveries of one tenant's events to one host, so that webhooks cannot flood a stranger. Names are free, so hosts
//! with the same address count as one. Beyond the rate a lane is put off: it holds no permit while it waits.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::bounded::BoundedTable;
use crate::egress::AdmittedUrl;

/// The time whose deliveries may be made at once.
const BURST: Duration = Duration::from_secs(1);

/// For how long a lane is put off. At least so long that a few of its deliveries can follow each other then.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Hosts and addresses that are remembered. For more of them, those that have used least are forgotten.
const HOSTS_MAX: usize = 10_000;

/// The rates of a dispatcher.
pub(super) struct HostRates {
    /// The time of one delivery at the rate; `None` where there is no bound.
    interval: Option<Duration>,
    /// By tenant, and host or address, with a blank between.
    buckets: Mutex<BoundedTable<String, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// When the deliveries that were made are over at the rate.
    made: Instant,
    /// The same of the lanes that were put off, so that they come back one after the other.
    put_off: Instant,
}

impl HostRates {
    /// With this many deliveries in a second; 0 for any number.
    pub fn new(per_second: u32) -> Self {
        Self {
            interval: Duration::from_secs(1).checked_div(per_second),
            buckets: Mutex::new(BoundedTable::new(HOSTS_MAX)),
        }
    }

    /// Takes the right to make a delivery now.
    ///
    /// # Errors
    /// For how long its lane is to be put off.
    pub fn take(&self, tenant: &str, target: &AdmittedUrl) -> Result<(), Duration> {
        let Some(interval) = self.interval else {
            return Ok(());
        };
        let keys = target.destinations().into_iter();
        let keys: Vec<_> = keys.map(|place| format!("{tenant} {place}")).collect();
        let (mut buckets, now) = (self.buckets.lock(), Instant::now());
        let full = Bucket {
            made: now,
            put_off: now,
        };
        let used_until = |bucket: &Bucket| bucket.made.max(bucket.put_off);
        for key in &keys {
            let bucket = buckets.get_or_insert(key, full, used_until);
            if bucket.made.max(now) + interval > now + BURST {
                bucket.put_off = bucket.put_off.max(now) + interval;
                let [least, most] = PAUSES;
                return Err((bucket.put_off - now).clamp(least, most));
            }
        }
        for key in &keys {
            let bucket = buckets.get_or_insert(key, full, used_until);
            bucket.made = bucket.made.max(now) + interval;
        }
        Ok(())
    }
}
