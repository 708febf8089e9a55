//! Policies that change, begin and end: when each replica applies them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use budget_authority::domain::ids::TenantId;
use budget_authority::domain::moment::Moment;
use budget_authority::store::ExtraRoundTrip;
use serde_json::{Value, json};
use tokio::task::{JoinSet, block_in_place};

use super::policies::{acme, decided, kept};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::http;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;

const ROOT: &str = "tenant:acme";

/// How often this replica had to call again because its policies were outdated.
fn stale_policy_retries(app: &TestApp) -> u64 {
    let trips = &app.store.metrics().extra_round_trips;
    trips
        .with_label_values(&[ExtraRoundTrip::Stale.as_str()])
        .get()
}

/// How often this replica ran a script.
fn reads(app: &TestApp, script: &str) -> u64 {
    let duration = &app.store.metrics().script_duration;
    duration.with_label_values(&[script]).get_sample_count()
}

#[tokio::test]
async fn a_policy_change_applies_to_the_next_request_on_every_replica() {
    let app = acme().await;
    let other = app.replica(&[]).await;
    let cooldown = |ms: i64| json!({"caps": {"cooldown_ms": ms}});
    let policy = app.policy("p", ROOT, cooldown(0)).await;
    for round in 1..=20 {
        let (changes, decides) = if round % 2 == 0 {
            (&app, &other)
        } else {
            (&other, &app)
        };
        changes.amend(&policy, cooldown(round)).await;
        let before = stale_policy_retries(decides);
        let held = decides
            .create(&format!("r{round}"), ROOT, 1, json!({}))
            .await;
        assert_eq!(held.at("/caps/cooldown_ms"), &json!(round), "{round}");
        assert_eq!(
            stale_policy_retries(decides) - before,
            1,
            "it asked once more"
        );
        let decision = decides.decide(&format!("d{round}"), ROOT, 1).await;
        assert_eq!(decision.at("/caps/cooldown_ms"), &json!(round), "{round}");
        assert_eq!(stale_policy_retries(decides) - before, 1, "now it knows");
        changes
            .post_event(&format!("e{round}"), ROOT, 1, json!({}))
            .await
            .expect(201);
    }
    // A new policy counts as soon, and so does the end of one.
    let high = app.policy("high", ROOT, json!({"priority": 1})).await;
    let held = other.create("high", ROOT, 1, json!({})).await;
    assert_eq!(decided(&held), ("ALLOW", &Value::Null));
    app.amend(&high, json!({"status": "DISABLED"})).await;
    let held = other.create("disabled", ROOT, 1, json!({})).await;
    assert_eq!(held.at("/caps/cooldown_ms"), &json!(20));
}

#[tokio::test]
async fn no_policy_change_is_missed_under_load() {
    let app = acme().await;
    let other = app.replica(&[]).await;
    let policy = app
        .policy("p", ROOT, json!({"caps": {"cooldown_ms": 0}}))
        .await;
    let (addresses, key) = ([app.address, other.address], app.keys[0].clone());
    let changed = Arc::new(AtomicI64::new(0));
    let responses = Arc::new(AtomicI64::new(0));
    let mut clients = JoinSet::new();
    for client in 0..6 {
        let (changed, key, address) = (changed.clone(), key.clone(), addresses[client % 2]);
        let responses = responses.clone();
        clients.spawn(async move {
            let http = http::client();
            for number in 0.. {
                let least = changed.load(Ordering::SeqCst);
                if least < 0 {
                    return number;
                }
                let body = reserve_body(&format!("c{client}-{number}"), 1);
                let sent = http
                    .post(format!("http://{address}/v1/reservations"))
                    .header("X-Service-API-Key", &key);
                let response: Value = sent
                    .json(&body)
                    .send()
                    .await
                    .expect("an answer")
                    .json()
                    .await
                    .expect("JSON");
                let seen = response["caps"]["cooldown_ms"]
                    .as_i64()
                    .unwrap_or_else(|| panic!("{response}"));
                assert!(
                    seen >= least,
                    "{least} was in force, and {seen} was applied"
                );
                responses.fetch_add(1, Ordering::SeqCst);
            }
            0
        });
    }
    // A busy machine may be slow to respond.
    let mut version = 0;
    while version < 40 || responses.load(Ordering::SeqCst) <= 20 {
        version += 1;
        app.amend(&policy, json!({"caps": {"cooldown_ms": version}}))
            .await;
        changed.store(version, Ordering::SeqCst);
    }
    changed.store(-1, Ordering::SeqCst);
    let requests: Vec<usize> = clients.join_all().await;
    assert!(requests.iter().sum::<usize>() > 20, "{requests:?}");
}

#[tokio::test]
async fn many_requests_on_a_cold_replica_read_the_policies_once() {
    let app = acme().await;
    app.policy("p", ROOT, json!({"caps": {"cooldown_ms": 1}}))
        .await;
    let cold = Arc::new(app.replica(&[]).await);
    let mut asking = JoinSet::new();
    for number in 0..30 {
        let cold = Arc::clone(&cold);
        asking.spawn(async move { cold.create(&format!("k{number}"), ROOT, 1, json!({})).await });
    }
    for held in asking.join_all().await {
        assert_eq!(held.at("/caps/cooldown_ms"), &json!(1));
    }
    assert_eq!(reads(&cold, "load_policies"), 1);
}

#[tokio::test]
async fn a_replica_reads_only_the_policies_that_changed() {
    let app = acme().await;
    let other = app.replica(&[]).await;
    for number in 0..90 {
        app.policy(
            &format!("p{number}"),
            &format!("{ROOT}/agent:a{number}"),
            json!({}),
        )
        .await;
    }
    let policy = app.policy("p", ROOT, json!({"priority": 1})).await;
    let cooldown = async |replica: &TestApp, name: &str| {
        let held = replica.create(name, ROOT, 1, json!({})).await;
        held.at("/caps/cooldown_ms").clone()
    };
    assert_eq!(cooldown(&other, "cold").await, Value::Null);
    let all = reads(&other, "load_policies");
    assert_eq!(reads(&other, "changed_policies"), 0);
    // Several changes, of one policy and of others: read at once.
    for round in 1..=10 {
        app.amend(&policy, json!({"caps": {"cooldown_ms": round}}))
            .await;
        app.policy(&format!("n{round}"), ROOT, json!({})).await;
    }
    assert_eq!(cooldown(&other, "changed").await, json!(10));
    assert_eq!(reads(&other, "changed_policies"), 1);
    // Long ones in several steps.
    let tool = "t".repeat(250);
    for round in 0..30 {
        let caps = json!({"tool_allowlist": vec![&tool; 15]});
        app.policy(&format!("long{round}"), ROOT, json!({"caps": caps}))
            .await;
    }
    app.amend(&policy, json!({"caps": {"cooldown_ms": 11}}))
        .await;
    assert_eq!(cooldown(&other, "long").await, json!(11));
    assert_eq!(reads(&other, "changed_policies"), 3);
    assert_eq!(reads(&other, "load_policies"), all);
    // After more changes than are kept, all are read.
    for round in 100..=200 {
        app.amend(&policy, json!({"caps": {"cooldown_ms": round}}))
            .await;
    }
    assert_eq!(cooldown(&other, "all").await, json!(200));
    assert_eq!(reads(&other, "changed_policies"), 4);
    assert!(reads(&other, "load_policies") > all);
    // So they are where a release that keeps no changes has made one between others.
    app.amend(&policy, json!({"caps": {"cooldown_ms": 201}}))
        .await;
    assert_eq!(cooldown(&other, "known").await, json!(201));
    let record = app.store.keys().policy(app.callers[0].partition, &policy);
    app.run::<u64>(&["HSET", &record, "caps", r#"{"cooldown_ms":202}"#])
        .await;
    app.set_tenant(&[("policies", "another release")]).await;
    app.policy("last", ROOT, json!({})).await;
    let before = reads(&other, "load_policies");
    assert_eq!(cooldown(&other, "between").await, json!(202));
    assert!(reads(&other, "load_policies") > before);
    // And so they are where the list of changes is lost.
    app.amend(&policy, json!({"caps": {"cooldown_ms": 203}}))
        .await;
    let tenant = TenantId::parse("acme").expect("a tenant");
    let changes = app
        .store
        .keys()
        .policy_changes(tenant.partition(), tenant.as_str());
    let removed: u64 = app.run(&["DEL", &changes]).await;
    assert_eq!(removed, 1);
    let before = reads(&other, "load_policies");
    assert_eq!(cooldown(&other, "lost").await, json!(203));
    assert!(reads(&other, "load_policies") > before);
}

#[tokio::test]
async fn a_window_opens_and_closes_to_the_millisecond_of_redis_clock() {
    let app = acme().await;
    let now = app.now_ms().await;
    // On a busy machine there are some requests in each part all the same.
    let (opens, closes) = (now + 4_000, now + 8_000);
    let moment = |ms: i64| Moment::from_ms(ms).expect("a time").to_string();
    app.policy(
        "always",
        ROOT,
        json!({"reservation_ttl_override": {"default_ttl_ms": 11_000}}),
    )
    .await;
    app.policy(
        "timed",
        ROOT,
        json!({"priority": 1, "effective_from": moment(opens), "effective_until": moment(closes),
        "reservation_ttl_override": {"default_ttl_ms": 22_000}}),
    )
    .await;
    let (mut seen, mut number) = ([0; 3], 0);
    while app.now_ms().await < closes + 200 || seen[2] <= 3 {
        number += 1;
        let held = app.create(&format!("k{number}"), ROOT, 1, json!({})).await;
        let id = held.text("/reservation_id");
        let created: i64 = kept(&app, id, "created_at_ms")
            .await
            .parse()
            .expect("a time");
        let expires: i64 = kept(&app, id, "expires_at_ms")
            .await
            .parse()
            .expect("a time");
        let open = opens <= created && created < closes;
        assert_eq!(
            expires - created,
            if open { 22_000 } else { 11_000 },
            "{created} in {opens}..{closes}"
        );
        seen[usize::from(created >= opens) + usize::from(created >= closes)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
    // Few requests had to be repeated: at the first, and at each edge.
    assert!(
        stale_policy_retries(&app) <= 12,
        "{}",
        stale_policy_retries(&app)
    );
}

#[tokio::test]
async fn policies_that_a_failover_lost_or_restored_are_noticed() {
    let app = acme().await;
    app.policy("p", ROOT, json!({"caps": {"cooldown_ms": 1}}))
        .await;
    let held = app.create("a", ROOT, 1, json!({})).await;
    assert_eq!(held.at("/caps/cooldown_ms"), &json!(1));
    // The record as it was before the policy was made, then again as it was after.
    let key = app.tenant_key();
    let version: String = app.run(&["HGET", &key, "policies"]).await;
    assert_eq!(version.len(), 16, "96 bits");
    let caller = &app.callers[0];
    let index = app.store.keys().policies(caller.partition, "acme");
    app.run::<()>(&["HDEL", &key, "policies"]).await;
    app.run::<()>(&["RENAME", &index, &format!("{index}-lost")])
        .await;
    let held = app.create("b", ROOT, 1, json!({})).await;
    assert_eq!(decided(&held), ("ALLOW", &Value::Null));
    app.run::<()>(&["RENAME", &format!("{index}-lost"), &index])
        .await;
    app.set_tenant(&[("policies", &version)]).await;
    let held = app.create("c", ROOT, 1, json!({})).await;
    assert_eq!(held.at("/caps/cooldown_ms"), &json!(1));
}

#[tokio::test]
async fn an_unreadable_policy_refuses_the_requests_that_it_may_apply_to() {
    let app = acme().await;
    let id = app
        .policy("p", ROOT, json!({"caps": {"cooldown_ms": 1}}))
        .await;
    let record = app.store.keys().policy(app.callers[0].partition, &id);
    app.set(&record, &[("caps", "{\"cooldown_ms\":\"soon\"}")])
        .await;
    let before = app.stored_ledger(ROOT).await;
    let cold = app.replica(&[]).await;
    cold.reserve("k", 1).await.refused(500, "INTERNAL_ERROR");
    assert_eq!(app.stored_ledger(ROOT).await, before);
}

#[tokio::test]
async fn policies_are_complete_when_they_take_several_reads() {
    let app = acme().await;
    let (caller, keys) = (&app.callers[0], app.store.keys());
    let index = keys.policies(caller.partition, "acme");
    for number in 0..450 {
        let id = format!("pol_{}_{number:012}", caller.partition);
        let pattern = format!("tenant:acme/agent:a{number}");
        let (name, caps) = (number.to_string(), format!("{{\"max_tokens\":{number}}}"));
        let fields = [
            ("policy_id", id.as_str()),
            ("tenant", "acme"),
            ("name", &name),
            ("scope_pattern", &pattern),
            ("status", "ACTIVE"),
            ("priority", "0"),
            ("created_at_ms", "1"),
            ("caps", &caps),
        ];
        app.set(&keys.policy(caller.partition, &id), &fields).await;
        app.run::<()>(&["ZADD", &index, "0", &id]).await;
    }
    app.set_tenant(&[("policies", "v")]).await;
    for number in [0, 199, 200, 399, 400, 449] {
        let scope = format!("tenant:acme/agent:a{number}");
        let held = app
            .post("/v1/reservations", ask_body(&scope, &scope, 1))
            .await;
        assert_eq!(held.at("/caps/max_tokens"), &json!(number));
    }
    assert_eq!(stale_policy_retries(&app), 1);
}

/// The cost is the commands inside the script, which do not depend on the number of policies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_policies_add_no_command_to_a_reserve_and_rate_limits_two() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    app.budget(ROOT, 1_000_000, 1_000).await;
    let run = async |key: &str| -> BTreeMap<String, u64> {
        // The first one registers the day and reads the policies, and the minute begins with it.
        let warm = format!("{key}-warm");
        app.reserve(&warm, 1).await.expect(200);
        let mut least: Option<BTreeMap<String, u64>> = None;
        // The replica has calls of its own now and then: the least of five reserves is without them.
        for round in 0..5 {
            app.store.reset_statistics().await.expect("Redis answers");
            app.reserve(&format!("{key}-{round}"), 1).await.expect(200);
            let statistics = app.store.statistics().await;
            let commands = statistics.expect("Redis answers").commands.into_iter();
            // So are the settings of Redis that it reads.
            let others = ["info", "config|get", "config|resetstat"];
            let commands: BTreeMap<String, u64> = commands
                .filter(|(name, _)| !others.contains(&name.as_str()))
                .map(|(name, command)| (name, command.calls))
                .collect();
            let sum = |commands: &BTreeMap<String, u64>| commands.values().sum::<u64>();
            if least
                .as_ref()
                .is_none_or(|least| sum(&commands) < sum(least))
            {
                least = Some(commands);
            }
        }
        least.expect("there were five")
    };
    let none = run("none").await;
    assert_eq!(none.get("evalsha"), Some(&1), "{none:?}");
    for number in 0..99 {
        let priority = json!({"priority": number, "caps": {"max_tokens": number}});
        app.policy(&number.to_string(), ROOT, priority).await;
    }
    assert_eq!(run("ninety-nine").await, none);
    let limits = json!({"priority": 100, "rate_limits": {"max_reservations_per_minute": 1_000}});
    app.policy("limits", ROOT, limits).await;
    app.with_left_in_minute(Duration::from_secs(25)).await;
    let mut limited = none;
    for name in ["hmget", "hset"] {
        *limited.entry(name.to_owned()).or_default() += 1;
    }
    assert_eq!(run("limited").await, limited);
}
