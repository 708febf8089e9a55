//! Bounds how often one client reads what is public, so that strangers do not take what tenants pay for. It counts per replica and
//! UTC minute.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use parking_lot::Mutex;

use crate::api::auth::client_address::network_of;
use crate::api::dialect::headers::{RATE_LIMIT_REMAINING, RATE_LIMIT_RESET};
use crate::api::errors::ApiError;
use crate::domain::bounded::BoundedTable;

/// Clients that are counted in a minute, about 50 bytes each. For more of them, those with the fewest requests are forgotten.
const CLIENTS_MAX: usize = 65_536;
const MINUTE_S: u64 = 60;

/// Counts requests by client.
#[derive(Debug)]
pub struct PublicLimiter {
    /// Requests of a client in a minute; 0: as many as it likes.
    limit: u32,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// Since the epoch.
    minute: u64,
    clients: BoundedTable<IpAddr, u32>,
}

impl PublicLimiter {
    /// With a limit of requests per client and minute; 0 for no limit.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            counts: Mutex::new(Counts {
                minute: 0,
                clients: BoundedTable::new(CLIENTS_MAX),
            }),
        }
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    /// 429 beyond the limit, until the end of the minute.
    pub fn admit(&self, address: IpAddr, now: SystemTime) -> Result<(), ApiError> {
        if self.limit == 0 {
            return Ok(());
        }
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let minute = now.as_secs() / MINUTE_S;
        let count = self.count(network_of(address), minute);
        match count > self.limit {
            false => Ok(()),
            true => Err(self.refusal(count, (minute + 1) * MINUTE_S, now)),
        }
    }

    /// How many there were in this minute, this one included.
    fn count(&self, client: IpAddr, minute: u64) -> u32 {
        // Nothing is left half-done by a panic under the lock.
        let mut counts = self.counts.lock();
        if counts.minute != minute {
            counts.minute = minute;
            counts.clients.clear();
        }
        let count = counts.clients.get_or_insert(&client, 0, |count| *count);
        *count = count.saturating_add(1);
        *count
    }

    fn refusal(&self, count: u32, end_s: u64, now: Duration) -> ApiError {
        let wait = Duration::from_secs(end_s).saturating_sub(now);
        let limit = self.limit;
        let message = format!(
            "Too many requests from this address in this minute: {count}, and {limit} are served; try again in the next one"
        );
        ApiError::limited(message, wait)
            .with_header(RATE_LIMIT_RESET, HeaderValue::from(end_s))
            .with_header(RATE_LIMIT_REMAINING, HeaderValue::from(0))
            .beyond(
                "BUDGET_EVIDENCE_REQUESTS_PER_MINUTE",
                limit.into(),
                count.into(),
            )
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use axum::http::header;
    use axum::response::IntoResponse;

    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    /// How many of ten requests are served.
    fn served(limiter: &PublicLimiter, address: IpAddr, ms: u64) -> usize {
        let is_served = |_: &i32| limiter.admit(address, at(ms)).is_ok();
        (0..10).filter(is_served).count()
    }

    #[test]
    fn e26_a_client_has_its_requests_per_minute_of_the_clock() {
        let limiter = PublicLimiter::new(3);
        for (client, ms, count) in [
            (1, 59_000, 3),
            (1, 59_999, 0),
            (2, 59_999, 3),
            (1, 60_000, 3),
            (1, 119_999, 0),
        ] {
            assert_eq!(
                served(&limiter, address(client), ms),
                count,
                "{client} {ms}"
            );
        }
        let network = |host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host));
        assert_eq!(served(&limiter, network(1), 0), 3);
        assert_eq!(served(&limiter, network(2), 0), 0, "of the same network");
        assert_eq!(served(&PublicLimiter::new(0), address(1), 0), 10);
    }

    #[test]
    fn e26_a_refusal_says_when_the_minute_ends() {
        let limiter = PublicLimiter::new(1);
        for (ms, wait) in [(60_001, "60"), (118_999, "2"), (119_999, "1")] {
            served(&limiter, address(1), ms);
            let refused = limiter.admit(address(1), at(ms)).expect_err("a refusal");
            let headers = refused.into_response().headers().clone();
            assert_eq!(headers[header::RETRY_AFTER], wait, "{ms}");
            assert_eq!(headers[&RATE_LIMIT_RESET], "120", "{ms}");
            assert_eq!(headers[&RATE_LIMIT_REMAINING], "0", "{ms}");
        }
    }

    #[test]
    fn memory_is_bounded_and_every_newcomer_is_served() {
        let limiter = PublicLimiter::new(3);
        served(&limiter, address(0), 0);
        let others = 1..2 * u32::try_from(CLIENTS_MAX).expect("a number");
        for number in others {
            assert!(limiter.admit(address(number), at(0)).is_ok(), "{number}");
        }
        assert!(limiter.counts.lock().clients.len() <= CLIENTS_MAX);
        assert!(
            limiter.admit(address(0), at(0)).is_err(),
            "it had its requests"
        );
    }
}
