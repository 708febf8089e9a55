//! The memory of an attempt in flight.

use std::process::Stdio;
use std::time::Duration;

use budget_authority::egress::Limits;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{arrived, deliver_within, here};
use crate::harness::receiver::{Receiver, Reply};

/// Set in the process that delivers.
const URL: &str = "TEST_EGRESS_URL";

/// Attempts that allocate what is allocated once.
const BEFORE: usize = 100;

const MEASURED: usize = 1_000;

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(50),
    total: Duration::from_secs(60),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_waits_for_its_response_takes_less_than_48_kb() {
    if let Ok(url) = std::env::var(URL) {
        return wait_for_responses(&url).await;
    }
    let plain = Receiver::start(Reply::Silence).await;
    let taken = taken(&plain, &plain.url("/")).await;
    println!("{taken} bytes per attempt without TLS");
    assert!(taken < 48_000, "{taken}");
    let secured = Receiver::start_with_tls(Reply::Silence).await;
    let url = format!("https://localhost:{}/", secured.address.port());
    let taken = self::taken(&secured, &url).await;
    println!("{taken} bytes per attempt with TLS");
    assert!(taken < 48_000, "{taken}");
}

/// The memory per attempt of a process that delivers to a receiver.
async fn taken(receiver: &Receiver, url: &str) -> usize {
    let name = "egress::memory::an_attempt_that_waits_for_its_response_takes_less_than_48_kb";
    let mut process = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env(URL, url)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the tests run again");
    let statm = format!("/proc/{}/statm", process.id().expect("it runs"));
    let resident = || {
        let pages = std::fs::read_to_string(&statm).expect("it runs");
        let pages: Option<usize> = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        4096 * pages.expect("a number of pages")
    };
    arrived(receiver, BEFORE).await;
    let before = resident();
    let mut input = process.stdin.take().expect("it is piped");
    input.write_all(b"go\n").await.expect("it runs");
    arrived(receiver, BEFORE + MEASURED).await;
    (resident() - before) / MEASURED
}

async fn wait_for_responses(url: &str) {
    let egress = here();
    let mut under_way = tokio::task::JoinSet::new();
    let mut deliver = |attempts: usize| {
        for number in 0..attempts {
            let (egress, url) = (egress.clone(), url.to_owned());
            let to = format!("subscription {number}");
            under_way.spawn(async move { deliver_within(&egress, &to, &url, LIMITS).await });
        }
    };
    deliver(BEFORE);
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    line.await
        .expect("no panic")
        .expect("a line")
        .expect("text");
    deliver(MEASURED);
    while under_way.join_next().await.is_some() {}
}
