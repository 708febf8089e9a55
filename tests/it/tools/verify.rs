//! `ledger verify` finds every difference and reports nothing else, also while the system runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::ids::IdempotencyKey;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::reservation::{
    CommitRequest, ReleaseRequest, ReservationCreateRequest,
};
use budget_authority::domain::scope::Level;
use budget_authority::domain::subject::{Action, Subject};
use budget_authority::ledger::EventCreateRequest;
use budget_authority::store::{Lane, Store};
use budget_authority::tools::keys::sizes;
use budget_authority::tools::verify::{Report, VerifyArgs, run, verify};

use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::past_day::{End, PastDay};
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::store;
use crate::harness::tenant_fixture::TenantFixture;

async fn report(store: &Store) -> Report {
    verify(store, None, |_| {}).await.expect("Redis answers")
}

/// The sentences of all differences.
async fn differences(store: &Store) -> Vec<String> {
    let report = report(store).await;
    report
        .differences
        .iter()
        .map(|d| format!("{} {}: {}", d.what, d.id, d.detail))
        .collect()
}

/// Settings of the command line.
fn args(tenant: &TenantFixture, json: bool) -> VerifyArgs {
    VerifyArgs {
        tenant: Some(tenant.id.clone()),
        json,
        all: false,
    }
}

fn key() -> IdempotencyKey {
    IdempotencyKey::parse(&format!("{:016x}", rand::random::<u64>())).expect("a key")
}

fn hashed<T>(request: T) -> HashedRequest<T> {
    HashedRequest {
        request,
        payload_hash: PayloadHash::of_body(&Json::from("body")),
        attested: None,
    }
}

fn action() -> Action {
    Action {
        kind: "llm.completion".into(),
        name: "model".into(),
        tags: None,
    }
}

fn tokens(value: i64) -> Amount {
    Amount::new(Unit::Tokens, value).expect("not negative")
}

/// One reservation or recorded event from its beginning to some end, chosen by `step`.
async fn act(fixture: &LedgerFixture, tenant: usize, step: usize) {
    let (caller, cause) = (&fixture.callers[tenant], fixture.cause(tenant));
    let name = caller.tenant.as_str().to_owned();
    let values = [(Level::Tenant, name), (Level::Agent, "bot".to_owned())];
    let subject = Subject::from_values(values).expect("a subject");
    if step.is_multiple_of(5) {
        let charge = hashed(EventCreateRequest {
            idempotency_key: key(),
            subject,
            action: action(),
            actual: tokens(3),
            overage_policy: Some(OveragePolicy::AllowWithOverdraft),
            metrics: None,
            client_time_ms: None,
            metadata: None,
        });
        let _ = fixture.ledger.charge(caller, &charge, &cause).await;
        return;
    }
    let reserve = hashed(ReservationCreateRequest {
        idempotency_key: key(),
        subject,
        action: action(),
        estimate: tokens(10),
        ttl_ms: None,
        grace_period_ms: 0,
        overage_policy: Some(OveragePolicy::AllowWithOverdraft),
        dry_run: false,
        metadata: None,
        observe_mode: None,
    });
    let Ok(reserved) = fixture.ledger.reserve(caller, &reserve, &cause).await else {
        return;
    };
    let id = reserved.reservation_id.expect("no dry run");
    match step % 4 {
        0 => {}
        1 => {
            let release = hashed(ReleaseRequest {
                idempotency_key: key(),
                reason: None,
            });
            let caller = budget_authority::domain::caller::Caller::Tenant(caller.clone());
            fixture
                .ledger
                .release(&caller, &id, &release, &cause)
                .await
                .expect("a release");
        }
        _ => {
            let commit = hashed(CommitRequest {
                idempotency_key: key(),
                actual: tokens((step % 7) as i64 * 3),
                metrics: None,
                metadata: None,
            });
            let _ = fixture.ledger.commit(caller, &id, &commit, &cause).await;
        }
    }
}

async fn fixture(allocated: i64) -> LedgerFixture {
    let fixture = LedgerFixture::new().await;
    for tenant in 0..2 {
        let name = fixture.callers[tenant].tenant.as_str().to_owned();
        for scope in [format!("tenant:{name}"), format!("tenant:{name}/agent:bot")] {
            fixture
                .seed(tenant, &scope, Unit::Tokens, allocated, 1_000)
                .await;
        }
    }
    fixture
}

#[tokio::test]
async fn a_history_with_debt_verifies_and_a_changed_figure_is_found() {
    // So little that commits run into debt.
    let fixture = fixture(330).await;
    for step in 0..200 {
        act(&fixture, step % 2, step / 2).await;
    }
    let found = report(&fixture.store).await;
    assert!(found.is_right(), "{}", found.table(true));
    assert_eq!((found.tenants, found.ledgers.len()), (2, 4));
    assert!(
        found.reservations > 20
            && found.usage_events > 5
            && found.ledgers.iter().any(|l| l.debt > 0),
        "{found:?}"
    );

    let caller = &fixture.callers[0];
    let ledger = fixture
        .store
        .keys()
        .budget(caller.partition, "acme", "TOKENS", "tenant:acme");
    for (field, words) in [
        ("reserved", vec!["reserved is", "remaining is not"]),
        ("spent", vec!["spent is", "remaining is not"]),
        (
            "debt",
            vec![
                "debt is",
                "remaining is not",
                "the index of ledgers over limit or in debt",
            ],
        ),
        ("base_spent", vec!["spent is"]),
        ("remaining", vec!["remaining is not"]),
    ] {
        fixture.run::<()>(&["HINCRBY", &ledger, field, "1"]).await;
        let found = differences(&fixture.store).await;
        assert_eq!(found.len(), words.len(), "{field}: {found:?}");
        for (sentence, word) in found.iter().zip(words) {
            assert!(
                sentence.contains("ledger tenant:acme TOKENS") && sentence.contains(word),
                "{field}: {sentence}"
            );
        }
        fixture.run::<()>(&["HINCRBY", &ledger, field, "-1"]).await;
    }
    assert_eq!(differences(&fixture.store).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_system_is_verified_without_a_false_alarm() {
    let fixture = Arc::new(fixture(1_000_000_000).await);
    let (stop, acts) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..8 {
        let (fixture, stop, acts) = (Arc::clone(&fixture), Arc::clone(&stop), Arc::clone(&acts));
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let step = acts.fetch_add(1, Ordering::Relaxed);
                act(&fixture, client % 2, step).await;
            }
        });
    }
    let mut verified = 0;
    while verified < 5 || acts.load(Ordering::Relaxed) < 500 {
        assert!(
            acts.load(Ordering::Relaxed) < 200_000,
            "{verified} verifications settled"
        );
        let report = report(&fixture.store).await;
        assert!(report.differences.is_empty(), "{}", report.table(true));
        verified += usize::from(report.is_right());
    }
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let report = report(&fixture.store).await;
    assert!(report.is_right(), "{}", report.table(true));
}

#[tokio::test]
async fn holds_that_would_never_expire_are_found() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let ids = tenant.write_holds(5, now_ms(&store).await + 60_000).await;
    assert_eq!(differences(&store).await, [""; 0]);

    tenant
        .run::<i64>(&["ZREM", &tenant.due_key(), &ids[0]])
        .await;
    tenant
        .run::<i64>(&["ZINCRBY", &tenant.due_key(), "5", &ids[1]])
        .await;
    tenant
        .run::<i64>(&[
            "HSET",
            &tenant.reservation_key(&ids[2]),
            "status",
            "RELEASED",
            "finalized_at_ms",
            "1",
        ])
        .await;
    tenant
        .run::<i64>(&[
            "ZREM",
            &store.keys().due_tenants(tenant.id.partition()),
            "acme",
        ])
        .await;
    tenant
        .run::<i64>(&["DEL", &store.keys().days(tenant.id.partition())])
        .await;
    let found = differences(&store).await;
    for (id, words) in [
        (ids[0].as_str(), "not in the due index"),
        (ids[1].as_str(), "but indexed at"),
        (ids[2].as_str(), "has ended, but is in the due index"),
        (ids[2].as_str(), "its record is RELEASED"),
        (ids[2].as_str(), "the index of other graces has it at Some"),
        ("acme", "its first reservation is due at"),
        ("acme:", "is not registered for retention"),
        ("tenant:acme TOKENS", "reserved is 50, its records give 40"),
    ] {
        assert!(
            found
                .iter()
                .any(|line| line.contains(id) && line.contains(words)),
            "{id} {words}: {found:#?}"
        );
    }
    assert_eq!(found.len(), 8, "{found:#?}");
}

#[tokio::test]
async fn the_quarantine_is_listed_and_exit_codes_report_the_result() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    let ids = tenant.write_holds(2, now - 10).await;
    tenant
        .run::<i64>(&["HSET", &tenant.reservation_key(&ids[0]), "budgeted", ""])
        .await;
    let lease = tenant.lease("d", Duration::from_secs(60)).await;
    store
        .expire(Lane::Background, &tenant.id, "source t", None, Some(lease))
        .await
        .expect("Redis answers");

    let mut text = Vec::new();
    // The hold of the quarantined record remains, although the record can no longer be read.
    assert_eq!(run(&store, &args(&tenant, false), &mut text).await, 1);
    let text = String::from_utf8(text).expect("a text");
    assert!(
        text.contains(&format!("quarantine: reservation `{}` of acme", ids[0])),
        "{text}"
    );
    assert!(text.contains("10 (records: 0)"), "{text}");

    tenant
        .run::<i64>(&["HSET", &tenant.reservation_key(&ids[0]), "budgeted", "1"])
        .await;
    let mut json = Vec::new();
    assert_eq!(run(&store, &args(&tenant, true), &mut json).await, 0);
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["quarantine"][0]["reservation_id"], ids[0]);
    assert_eq!(json["ledgers"][0]["reserved"], 10);
    assert_eq!(json["differences"], serde_json::json!([]));
}

/// A day that retention finishes while it is verified has no records any more, so it is no finding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_retired_meanwhile_is_no_difference() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    past.record(End::Released, past.now_ms - 40 * 86_400_000)
        .await;
    let keys = store.keys().clone();
    let (index, days) = (past.index(), keys.days(past.lease.partition));
    let (member, elsewhere) = (past.member(), format!("{index}:elsewhere"));
    for gone in [true, false] {
        let redis = redis::Client::open(shared().url()).expect("a url");
        // After the first record was read, and before the registry is.
        let retire = |_: &Report| {
            let mut connection = redis.get_connection().expect("it runs");
            let mut run = |words: [&str; 3]| {
                let mut command = redis::cmd(words[0]);
                let last = (!words[2].is_empty()).then_some(words[2]);
                command.arg(words[1]).arg(last).exec(&mut connection)
            };
            run(["ZREM", &days, &member]).expect("it answers");
            if gone {
                run(["RENAME", &index, &elsewhere]).ok();
            }
        };
        let found = verify(&store, None, retire).await.expect("Redis answers");
        let reported = found.differences.iter().filter(|d| d.what == "day").count();
        assert_eq!(reported, usize::from(!gone), "{:?}", found.differences);
        if gone {
            past.tenant.run::<()>(&["RENAME", &elsewhere, &index]).await;
        }
    }
}

#[tokio::test]
async fn the_keys_of_a_tenant_are_listed_with_their_sizes() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    tenant.write_holds(7, now_ms(&store).await + 60_000).await;
    let found = sizes(&store, &tenant.id).await.expect("Redis answers");
    let size = |key: &str| {
        let found = found.keys.iter().find(|size| size.key == key);
        found.map(|size| (size.kind.as_str(), size.entries, size.memory_bytes > 0))
    };
    assert_eq!(size(&tenant.due_key()), Some(("zset", 7, true)));
    assert_eq!(size(&tenant.ledger_key()), Some(("hash", 8, true)));
    assert_eq!(found.keys.len(), 6, "{}", found.text(false));
    let slot = format!("\"slot\":{}", found.slot);
    assert!(found.text(true).contains(&slot));
}

#[tokio::test]
async fn without_redis_the_exit_code_means_unknown() {
    let url = format!("redis://127.0.0.1:{}", crate::harness::redis::free_port());
    let mut options = budget_authority::store::RedisOptions::new(url);
    options.timeout = Duration::from_millis(100);
    let store = crate::harness::store_with(options);
    let args = VerifyArgs {
        tenant: None,
        json: false,
        all: false,
    };
    assert_eq!(run(&store, &args, &mut Vec::new()).await, 2);
}
