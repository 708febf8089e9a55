//! An append-only file with a torn end, as a loss of power leaves it: of the last transaction all or nothing is there, also after
//! further restarts of Redis.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use tokio::task::block_in_place;

use super::durability::service;
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::redis::{RedisServer, SentinelTrio};

/// Everything is on disk before its response.
const SETTINGS: [&str; 4] = ["--appendfsync", "always", "--hz", "100"];

/// The append-only files of a server, and their contents.
struct Files(Vec<(PathBuf, Vec<u8>)>);

impl Files {
    fn of(server: &RedisServer) -> Self {
        let folder = fs::read_dir(server.folder().join("appendonlydir")).expect("a folder");
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.expect("an entry");
            (
                PathBuf::from(entry.file_name()),
                fs::read(entry.path()).expect("a file"),
            )
        };
        Self(folder.map(read).collect())
    }

    /// The one that Redis appends to.
    fn last(&self) -> &[u8] {
        let appended = self.0.iter().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.ends_with(".incr.aof")
        });
        &appended.max().expect("a file").1
    }

    /// Where the transaction with this text ends in the last one. Redis may have written more since.
    fn end_of(&self, text: &str) -> usize {
        const END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
        let find = |part: &[u8], from: usize| {
            let rest = &self.last()[from..];
            let at = rest.windows(part.len()).position(|it| it == part);
            from + at.expect("it was written")
        };
        find(END, find(text.as_bytes(), 0)) + END.len()
    }

    /// Starts a server with these files, the last one cut to a length.
    fn start(&self, server: &mut RedisServer, length: usize) {
        server.kill();
        let folder = server.folder().join("appendonlydir");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        for (name, bytes) in &self.0 {
            let is_last = bytes.as_slice() == self.last();
            let bytes = if is_last { &bytes[..length] } else { bytes };
            fs::write(folder.join(name), bytes).expect("it can be written");
        }
        server.restart();
        server.run::<()>(&["PING"]);
    }
}

/// Waits until the processes have had the file rewritten.
async fn rewritten(app: &TestApp, server: &RedisServer) {
    eventually("the file is rewritten", || async {
        app.store.look_at_memory(Duration::from_secs(2)).await;
        block_in_place(|| server.has_rewritten())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_append_only_file_brings_no_half_transaction_back() {
    let mut redis = block_in_place(|| RedisServer::start_with(&SETTINGS));
    let app = service(&redis.url(), &[]).await;
    rewritten(&app, &redis).await;
    app.reserve("kept", 1).await.expect(200);
    let before = block_in_place(|| Files::of(&redis).last().len());
    let made = app.reserve("lost", 300).await.expect(200);
    let files = block_in_place(|| Files::of(&redis));
    let whole = files.end_of(made.text("reservation_id"));

    // What Redis makes of a file that ends at a byte: the transactions before it, or more of this one.
    let mut ends = block_in_place(|| {
        let mut loader = RedisServer::start_with(&SETTINGS);
        let left = |length: usize| {
            files.start(&mut loader, length);
            (Files::of(&loader).last().len(), length)
        };
        (before..=whole).map(left).collect::<Vec<_>>()
    });
    ends.dedup_by_key(|(left, _)| *left);
    assert!(
        ends.len() > 5,
        "it leaves parts of the transaction: {ends:?}"
    );

    for (left, length) in ends {
        println!("of {whole} bytes, {length} are there and {left} are left");
        block_in_place(|| files.start(&mut redis, length));
        rewritten(&app, &redis).await;
        eventually("it serves", || async {
            app.reserve("next", 5).await.status == 200
        })
        .await;
        block_in_place(|| {
            redis.restart();
            redis.run::<()>(&["PING"]);
        });
        rewritten(&app, &redis).await;
        let audit = LedgerAudit::run(&app, 0).await;
        let lost = if length == whole { 300 } else { 0 };
        assert_eq!(audit.figure("tenant:acme", "reserved"), 1 + lost + 5);
    }
}

/// Forbids the rewrite.
const FORBID: [&str; 4] = ["ACL", "SETUSER", "default", "-bgrewriteaof"];

/// Waits until readiness warns; its status and body.
async fn warned(app: &TestApp) -> (u16, String) {
    eventually("it warns", || async {
        let (status, body) = readiness(app).await;
        body.contains("warning").then_some((status, body))
    })
    .await
}

/// Waits until it warns no more.
async fn warns_no_more(app: &TestApp) {
    eventually("the warning is over", || async {
        readiness(app).await.1 == r#"{"status":"UP"}"#
    })
    .await;
}

async fn readiness(app: &TestApp) -> (u16, String) {
    let response = app.request(Method::GET, "/ready").send().await;
    let response = response.expect("a response");
    let status = response.status().as_u16();
    (status, response.text().await.expect("a body"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_warns_while_redis_may_not_rewrite_its_file() {
    let redis = block_in_place(|| RedisServer::start_with(&SETTINGS));
    block_in_place(|| redis.run::<()>(&FORBID));
    let app = service(&redis.url(), &[]).await;
    let (status, body) = warned(&app).await;
    assert_eq!(status, 200);
    assert!(body.contains("allow BGREWRITEAOF, or run it"), "{body}");
    block_in_place(|| {
        redis.run::<()>(&["ACL", "SETUSER", "default", "+bgrewriteaof"]);
        redis.run::<()>(&["BGREWRITEAOF"]);
    });
    warns_no_more(&app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_warns_no_more_of_a_master_that_another_has_replaced() {
    let mut trio = block_in_place(SentinelTrio::start);
    block_in_place(|| trio.master.run::<()>(&FORBID));
    let app = service(&trio.url(), &[]).await;
    warned(&app).await;
    block_in_place(|| trio.master.kill());
    warns_no_more(&app).await;
}
