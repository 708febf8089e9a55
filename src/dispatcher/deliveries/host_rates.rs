//! Bounds the rate of deliveries of one tenant's events to one host, so that webhooks cannot flood a stranger. Beyond it a lane is put
//! off: it holds no permit while it waits.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::bounded::BoundedTable;

/// The time whose deliveries may be made at once.
const BURST: Duration = Duration::from_secs(1);

/// For how long a lane is put off. At least so long that a few of its deliveries can follow each other then.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Hosts that are remembered. For more of them, those that have used least are forgotten.
const HOSTS_MAX: usize = 10_000;

/// The rates of a dispatcher.
pub(super) struct HostRates {
    /// The time of one delivery at the rate; `None` where there is no bound.
    interval: Option<Duration>,
    /// By tenant and host, with a blank between.
    buckets: Mutex<BoundedTable<String, Bucket>>,
}

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
    pub fn take(&self, tenant: &str, host: &str) -> Result<(), Duration> {
        let Some(interval) = self.interval else {
            return Ok(());
        };
        let (mut buckets, now) = (self.buckets.lock(), Instant::now());
        let full = Bucket {
            made: now,
            put_off: now,
        };
        let used_until = |bucket: &Bucket| bucket.made.max(bucket.put_off);
        let bucket = buckets.get_or_insert(&format!("{tenant} {host}"), full, used_until);
        let made = bucket.made.max(now) + interval;
        if made <= now + BURST {
            bucket.made = made;
            return Ok(());
        }
        bucket.put_off = bucket.put_off.max(now) + interval;
        let [least, most] = PAUSES;
        Err((bucket.put_off - now).clamp(least, most))
    }
}
