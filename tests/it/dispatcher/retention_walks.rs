//! Retention walks through a day of many records in bounded passes.

use budget_authority::store::dispatcher::retention::{PAGE_ROWS, PurgeReply, Records, Walk};

use crate::dispatcher::retention::retention;
use crate::harness::past_day::PastDay;
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::command;
use crate::harness::store;

const DAY_MS: i64 = 86_400_000;

/// Calls of a command, and its time in all, in microseconds.
fn statistics(server: &RedisServer, name: &str) -> (f64, f64) {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
    let figure = |what: &str| {
        let figures = line.unwrap_or_default().split(',');
        let mut figures = figures.filter_map(|figure| figure.strip_prefix(what)?.strip_prefix('='));
        figures
            .next()
            .map_or(0.0, |figure| figure.parse().expect("a number"))
    };
    (figure("calls"), figure("usec"))
}

#[tokio::test]
async fn a_day_of_retained_records_is_examined_once_in_bounded_passes() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let past = PastDay::new(&store, 40).await;
    let keys = store.keys().of(past.lease.partition);
    // Three passes of kept records at few times, and a removable one behind them.
    let count = 6_000;
    let mut rows = Vec::new();
    for number in 0..count {
        let id = format!("r{}_{number:024}", past.lease.partition);
        let created = (past.day.start_ms() + number / 1_000).to_string();
        rows.push(command(&["ZADD", &past.index(), &created, &id]));
        let record = keys.reservation(&id);
        rows.push(command(&["HSET", &record, "status", "ACTIVE"]));
    }
    let late = (past.day.start_ms() + 60_000).to_string();
    rows.push(command(&[
        "ZADD",
        &past.index(),
        &late,
        "r_without_a_record",
    ]));
    let days = keys.days();
    rows.push(command(&["ZADD", &days, "1", &past.member()]));
    past.tenant.run_all(&rows).await;

    let retention = retention(&store);
    let mut passes = Vec::new();
    loop {
        let before = statistics(&server, "hmget").0;
        let pass = retention.run_once(&[past.lease], |_| {}).await;
        let pass = pass.expect("Redis answers");
        passes.push((statistics(&server, "hmget").0 - before, pass.reservations));
        if !pass.more {
            break;
        }
    }
    assert_eq!(passes.len(), 3, "{passes:?}");
    assert!(
        passes.iter().all(|(records, _)| *records < 2_600.0),
        "{passes:?}"
    );
    let examined: f64 = passes.iter().map(|(records, _)| records).sum();
    assert!(
        (f64::from(count as i32)..6_100.0).contains(&examined),
        "{passes:?}"
    );
    assert_eq!(passes[2].1, 1);
    assert_eq!(
        past.tenant.run::<i64>(&["ZCARD", &past.index()]).await,
        count
    );
}

#[tokio::test]
async fn a_page_far_into_a_day_costs_no_more_than_the_first() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let past = PastDay::new(&store, 40).await;
    let start = past.day.start_ms();
    let id = |number: i64| format!("r{}_{number:024}", past.lease.partition);
    for batch in 0..200 {
        let mut words = vec!["ZADD".to_owned(), past.index()];
        for number in batch * 1_000..(batch + 1) * 1_000 {
            words.extend([(start + number).to_string(), id(number)]);
        }
        past.tenant.run::<i64>(&words).await;
    }
    let purge = async |last: i64, name: String| {
        let mut walk = Walk {
            last_kept: Some((start + last, name)),
            first_ended_ms: None,
        };
        let before = past.now_ms - 30 * DAY_MS;
        let of = Records::Reservations;
        let page = store.purge(past.lease, "acme", past.day, of, before, &mut walk);
        let Some(PurgeReply::Purged { removed, .. }) = page.await.expect("Redis answers") else {
            panic!("it holds the lease");
        };
        removed
    };
    // By a row that is there, and by the time of one that is gone.
    // Now and then something else takes the CPU, so the fastest of several rounds counts.
    let mut fastest = [f64::MAX; 3];
    for _ in 0..4 {
        server.run::<()>(&["CONFIG", "RESETSTAT"]);
        for (last, name) in [(199_000, id(199_000)), (198_000, "gone".to_owned())] {
            assert_eq!(purge(last, name).await, PAGE_ROWS);
        }
        for (step, fastest) in ["zrange", "zrank", "zcount"].iter().zip(&mut fastest) {
            let (calls, us) = statistics(&server, step);
            assert!(calls >= 1.0, "{step}");
            *fastest = fastest.min(us / calls);
        }
    }
    assert!(fastest.iter().all(|us| *us < 500.0), "{fastest:?} µs");
}
