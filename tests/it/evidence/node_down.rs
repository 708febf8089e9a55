//! One master of a cluster is out of reach: what lies on the others is signed all the same.

use std::time::{Duration, Instant};

use budget_authority::domain::ids::{EvidenceId, Partition};
use budget_authority::store::RedisOptions;
use serde_json::json;

use super::fixture::{ON, signer};
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::evidence_keys::{key, seed};
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::ask_body;
use crate::harness::{eventually, store_with};
use crate::redis::node_down::{cluster, place_of};

const SCOPE: &str = "tenant:acme";

/// Partitions of which the signer reads the streams in one go.
const READ_AT_ONCE: usize = 64;

/// The node that is lost. Clients are given another one first.
const DOWN: usize = 2;

/// An entry of a decision, and the key of its envelope.
struct QueuedDecision {
    entry: Vec<String>,
    envelope: String,
}

/// Decides until the key of the envelope is right, and takes the decisions from the queue.
async fn decided(app: &TestApp, name: &str, is_there: impl Fn(&str) -> bool) -> QueuedDecision {
    let keys = app.store.keys();
    let stream = keys.unsigned(app.callers[0].partition);
    for number in 0..100 {
        let body = ask_body(&format!("{name}-{number}"), SCOPE, 1);
        let reply = app.post("/v1/decide", body).await.expect(200);
        let id = reply.body["evidence"]["evidence_id"]
            .as_str()
            .expect("an id");
        let id = EvidenceId::parse(id).expect("an id");
        let envelope = keys.evidence(id.partition(), id.as_str());
        let rows: Vec<(String, Vec<String>)> = app.run(&["XRANGE", &stream, "-", "+"]).await;
        app.run::<i64>(&["DEL", &stream]).await;
        if is_there(&envelope) {
            let entry = rows[0].1.clone();
            return QueuedDecision { entry, envelope };
        }
    }
    panic!("no envelope there");
}

/// Queues an entry in a partition.
async fn queue(app: &TestApp, partition: Partition, decided: &QueuedDecision) {
    let stream = app.store.keys().unsigned(partition);
    let words = ["XADD", &stream, "*"].into_iter();
    let entry: Vec<&str> = words
        .chain(decided.entry.iter().map(String::as_str))
        .collect();
    app.run::<String>(&entry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e17_an_unreachable_envelope_delays_no_other_partition() {
    let mut cluster = cluster();
    let store = store_with(RedisOptions::new(cluster.url()));
    let ends_ms = now_ms(&store).await + 12_000;
    let (ends, next) = (ends_ms.to_string(), key('b').public().hex());
    let keys = json!([{"public_key": next, "nbf_ms": ends_ms}]).to_string();
    let settings = [ON, &["--evidence-exp-ms", &ends, "--evidence-keys", &keys]].concat();
    let app = TestApp::spawn_on(&cluster.url(), &settings).await;
    // Once the node is lost, nobody can know whether another dispatcher signed this one.
    let left = decided(&app, "left", |key| place_of(&cluster, key) == DOWN).await;
    eventually("the next key signs", || async {
        now_ms(&store).await > ends_ms
    })
    .await;
    let ours = decided(&app, "ours", |key| place_of(&cluster, key) != DOWN).await;
    let stream = |partition: &Partition| app.store.keys().unsigned(*partition);
    let reachable: Vec<Partition> = Partition::all()
        .filter(|partition| place_of(&cluster, &stream(partition)) != DOWN)
        .take(READ_AT_ONCE + 1)
        .collect();
    let (last, first) = reachable.split_last().expect("some");
    for partition in first {
        queue(&app, *partition, &left).await;
    }
    queue(&app, *last, &ours).await;
    let seed = seed('b');
    let own = [&settings[..], &["--evidence-seeds", &seed]].concat();
    let mut signer = signer(&app, &own);
    // It has read who issues, and nothing else.
    signer.run_once(&[]).await.expect("all nodes respond");
    cluster.masters[DOWN].kill();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(90) {
        // It fails as long as that node's own streams cannot be read.
        let _ = signer.run_once(&leases()).await;
        if app.run(&["EXISTS", &ours.envelope]).await {
            return;
        }
        // Until the others have found out that the node is gone.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the last one is not signed");
}
