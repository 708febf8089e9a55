//! Calls around midnight: a script takes the keys of a day only on that day of its clock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use budget_authority::domain::ids::TenantId;
use budget_authority::store::runtime::expire::ExpireReply;
use budget_authority::store::{Lane, Store, StoreError};

use tokio::time::Instant;

use crate::harness::resp_server::{serve, text, texts};
use crate::harness::store;

const MIDNIGHT_MS: i64 = 1_709_251_200_000;

/// A server that replies like Redis when its day ends between two calls.
#[derive(Clone)]
struct ServerAtMidnight {
    /// The times of its clock at the next calls; at other calls it shows the day that it is asked for.
    times_ms: Arc<Mutex<VecDeque<i64>>>,
    /// The days that it was asked for.
    days: Arc<Mutex<Vec<String>>>,
}

impl ServerAtMidnight {
    /// A store whose clock has just passed midnight, on a server whose clock shows `times_ms`.
    fn start(times_ms: &[i64]) -> (Self, Store) {
        let server = Self {
            times_ms: Arc::new(Mutex::new(times_ms.iter().copied().collect())),
            days: Arc::default(),
        };
        let serving = server.clone();
        let url = serve(move |words| serving.reply(words));
        (server, store(&url))
    }

    fn reply(&self, words: &[String]) -> String {
        match words[0].as_str() {
            "HGET" => text(&"A".repeat(43)),
            "TIME" => texts(&[&(MIDNIGHT_MS / 1000).to_string(), "0"]),
            "EVALSHA" if words[3].ends_with(":meta") => {
                let secret = "A".repeat(43);
                texts(&["meta", "1", "1024", &secret, "service"])
            }
            "EVALSHA" => {
                let keys: usize = words[2].parse().expect("a number of keys");
                let prefixes = 2;
                self.days
                    .lock()
                    .expect("days")
                    .push(words[3 + keys + prefixes].clone());
                match self.times_ms.lock().expect("times").pop_front() {
                    Some(now_ms) => format!("*2\r\n$5\r\nclock\r\n:{now_ms}\r\n"),
                    None => texts(&["expired", "0", "7", "0", ""]),
                }
            }
            _ => "+OK\r\n".to_owned(),
        }
    }

    fn days(&self) -> Vec<String> {
        self.days.lock().expect("days").clone()
    }
}

async fn expire(store: &Store) -> Result<Option<ExpireReply>, StoreError> {
    let now = Instant::now();
    store.clock().observe(now, now, MIDNIGHT_MS);
    let tenant = TenantId::parse("acme").expect("an id");
    store.expire(Lane::Request, &tenant, "", None, None).await
}

#[tokio::test]
async fn a_day_that_ends_between_two_calls_costs_a_third_call() {
    let (server, store) = ServerAtMidnight::start(&[MIDNIGHT_MS - 1, MIDNIGHT_MS]);
    let expired = expire(&store).await.expect("the day is found");
    assert!(
        matches!(expired, Some(ExpireReply::Expired { count: 7, .. })),
        "{expired:?}"
    );
    assert_eq!(server.days(), ["20240301", "20240229", "20240301"]);
}

#[tokio::test]
async fn a_call_fails_if_the_day_keeps_changing() {
    let (server, store) = ServerAtMidnight::start(&[0; 10]);
    let error = expire(&store).await.expect_err("no day is found");
    assert!(error.to_string().contains("`clock`"), "{error}");
    assert_eq!(server.days().len(), 4);
}
