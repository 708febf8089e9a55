//! The cost of evidence while it is off: no command, no field and no key.

use std::collections::{BTreeMap, BTreeSet};

use budget_authority::domain::caller::Caller;
use budget_authority::domain::fields::Read;
use budget_authority::domain::ids::ReservationId;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::evidence::{Endpoint, Issuing, attested_request};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::harness::evidence_keys::{issuers, listed};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::RedisServer;
use crate::harness::runtime_calls::{ask_body, tokens, with};
use crate::harness::store;

const SCOPE: &str = "tenant:acme/agent:a";

/// How often scripts ran each command.
type Commands = BTreeMap<String, u64>;

/// The same, spelled out.
type Counts = [(&'static str, u64)];

/// A tenant with two ledgers on a server of the test, which does nothing else.
struct MeasuredTenant {
    server: RedisServer,
    fixture: LedgerFixture,
    attests: bool,
}

impl MeasuredTenant {
    async fn new(attests: bool) -> Self {
        let server = block_in_place(RedisServer::start);
        let mut fixture = LedgerFixture::on(store(&server.url())).await;
        for scope in ["tenant:acme", SCOPE] {
            fixture.budget_of(0, scope, 1_000).await;
        }
        if attests {
            let issuing = Issuing::new(issuers(&[listed('a', 0, None)]));
            fixture.ledger = fixture.ledger.clone().attesting(Some(issuing), None);
        }
        Self {
            server,
            fixture,
            attests,
        }
    }

    /// A request as the API hands it over.
    fn hashed<T: Read>(&self, endpoint: Endpoint, body: &Value) -> HashedRequest<T> {
        let text = body.to_string();
        let json = Json::parse(text.as_bytes()).expect("JSON");
        HashedRequest {
            payload_hash: PayloadHash::of_body(&json),
            attested: self.attests.then(|| attested_request(endpoint, &json)),
            request: T::parse_json(&text).expect("a request"),
        }
    }

    async fn reserve(&self, key: &str, more: Value) -> Option<ReservationId> {
        let body = with(ask_body(key, SCOPE, 5), more);
        let body = self.hashed(Endpoint::Reserve, &body);
        let (caller, cause) = (&self.fixture.callers[0], self.fixture.cause(0));
        let reserved = self.fixture.ledger.reserve(caller, &body, &cause).await;
        reserved.expect("allowed").reservation_id
    }

    /// Whether it was committed.
    async fn commit(&self, key: &str, id: &ReservationId) -> bool {
        let body = json!({"idempotency_key": key, "actual": tokens(4)});
        let body = self.hashed(Endpoint::Commit, &body);
        let (caller, cause) = (&self.fixture.callers[0], self.fixture.cause(0));
        let committed = self.fixture.ledger.commit(caller, id, &body, &cause).await;
        committed.is_ok()
    }

    /// One request after the other, each with the commands that it took; and the ids of what was committed and released.
    async fn each(&self, round: &str) -> (Vec<Commands>, [ReservationId; 2]) {
        let key = |name: &str| format!("{name}-{round}");
        let (ledger, cause) = (&self.fixture.ledger, self.fixture.cause(0));
        let caller = &self.fixture.callers[0];
        let mut found = Vec::new();
        let released = self.reserve(&key("r"), json!({})).await.expect("held");
        self.commands();
        let committed = self.reserve(&key("c"), json!({})).await.expect("held");
        found.push(self.commands());
        assert!(self.commit(&key("commit"), &committed).await);
        found.push(self.commands());
        let body = json!({"idempotency_key": key("release")});
        let body = self.hashed(Endpoint::Release, &body);
        let by = Caller::Tenant(caller.clone());
        let done = ledger.release(&by, &released, &body, &cause).await;
        done.expect("released");
        found.push(self.commands());
        let body = self.hashed(Endpoint::Decide, &ask_body(&key("d"), SCOPE, 5));
        let decided = ledger.decide(caller, &body, &cause).await;
        decided.expect("decided");
        found.push(self.commands());
        self.reserve(&key("y"), json!({"dry_run": true})).await;
        found.push(self.commands());
        assert!(!self.commit(&key("late"), &released).await);
        found.push(self.commands());
        (found, [committed, released])
    }

    /// The scripts that ran since the last call.
    fn commands(&self) -> Commands {
        let stats: String = block_in_place(|| self.server.run(&["INFO", "commandstats"]));
        block_in_place(|| self.server.run::<String>(&["CONFIG", "RESETSTAT"]));
        let of = |line: &str| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = figures.split(',').next()?.parse().ok()?;
            let from_outside = ["evalsha", "info", "config|resetstat"].contains(&name);
            (!from_outside).then(|| (name.to_owned(), calls))
        };
        stats.lines().filter_map(of).collect()
    }

    fn record(&self, id: &ReservationId) -> String {
        let partition = self.fixture.callers[0].partition;
        let keys = self.fixture.store.keys();
        keys.reservation(partition, id.as_str())
    }

    async fn fields(&self, id: &ReservationId) -> BTreeSet<String> {
        self.fixture.run(&["HKEYS", &self.record(id)]).await
    }

    async fn bytes(&self, id: &ReservationId) -> usize {
        let record = self.record(id);
        let words = ["MEMORY", "USAGE", &record, "SAMPLES", "0"];
        self.fixture.run(&words).await
    }
}

/// Some commands without others.
fn less(all: &Commands, own: &Commands) -> Commands {
    let left = |(name, count): (&String, &u64)| {
        let rest = count - own.get(name).copied().unwrap_or(0);
        (rest > 0).then(|| (name.clone(), rest))
    };
    all.iter().filter_map(left).collect()
}

fn commands(counts: &Counts) -> Commands {
    let named = counts.iter();
    named
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e18_while_it_is_off_evidence_costs_no_command_no_byte_and_no_key() {
    let (off, on) = (
        MeasuredTenant::new(false).await,
        MeasuredTenant::new(true).await,
    );
    for measured in [&off, &on] {
        // Scripts, the deployment's secret and what else is read once.
        measured.each("first ").await;
    }
    let (own, ids) = off.each("second").await;
    let (all, attested) = on.each("second").await;
    let success = commands(&[("xadd", 1)]);
    let refusal = commands(&[("get", 1), ("set", 1), ("xadd", 1)]);
    let [commit, release, outcome]: [&Counts; 3] = [
        // It counts the usage of the day.
        &[
            ("hget", 1),
            ("hmget", 5),
            ("hset", 4),
            ("time", 1),
            ("zrem", 1),
        ],
        &[("hmget", 5), ("hset", 3), ("time", 1), ("zrem", 1)],
        &[
            ("hget", 1),
            ("hincrby", 1),
            ("hmget", 4),
            ("hset", 1),
            ("memory|usage", 1),
            ("pexpire", 1),
            ("time", 1),
        ],
    ];
    // Commands of scripts for two ledgers, and those of evidence.
    let expected: [(&str, &Counts, &Commands); 6] = [
        (
            "create",
            &[
                ("hget", 2),
                ("hmget", 4),
                ("hset", 3),
                ("time", 1),
                ("zadd", 3),
            ],
            &success,
        ),
        ("commit", commit, &success),
        ("release", release, &success),
        ("decide", outcome, &success),
        ("dry run", outcome, &success),
        ("refused commit", &[("hmget", 3), ("time", 1)], &refusal),
    ];
    for (index, (name, known, added)) in expected.into_iter().enumerate() {
        assert_eq!(own[index], commands(known), "{name}");
        assert_eq!(less(&all[index], &own[index]), *added, "{name}");
    }

    // Without the fields of evidence, a record has the same fields and bytes.
    for (id, attested, more) in [
        (
            &ids[0],
            &attested[0],
            &["actual", "create_inputs", "end_inputs", "end_key"][..],
        ),
        (
            &ids[1],
            &attested[1],
            &["create_inputs", "end_inputs", "end_key"],
        ),
    ] {
        let record = on.record(attested);
        let remove = [&["HDEL", &record], more].concat();
        assert_eq!(on.fixture.run::<usize>(&remove).await, more.len());
        assert_eq!(off.fields(id).await, on.fields(attested).await);
        assert_eq!(off.bytes(id).await, on.bytes(attested).await);
    }
    let keys: Vec<String> = off.fixture.run(&["KEYS", "*"]).await;
    for kind in ["unsigned", "unsignable", "issuers", "evidence"] {
        assert!(!keys.iter().any(|key| key.contains(kind)), "{keys:?}");
    }
}
