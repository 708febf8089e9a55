//! `audit verify` finds what was altered, dropped or inserted, and reports nothing else, also while the system runs.

use budget_authority::store::Day;
use budget_authority::tools::verify::audit::{AuditVerifyArgs, Finding, run_audit};

use crate::harness::days::Entry;
use crate::harness::redis_fixture::facts_of;
use crate::harness::store;
use crate::harness::tenant_fixture::TenantFixture;

/// Six sealed entries, and two that are not.
async fn sealed_chain() -> TenantFixture {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(6).await;
    tenant.seal().await;
    tenant.record_failures(2).await;
    tenant
}

/// Replaces the log, as an attacker could who can write every key.
fn rewrite(tenant: &TenantFixture, change: impl FnOnce(&mut Vec<Entry>)) {
    let mut entries = tenant.audit_log();
    change(&mut entries);
    for log in tenant.log_keys() {
        tenant.redis().run::<i64>(&["DEL", &log]);
    }
    for (id, fields) in entries {
        let at_ms = facts_of(fields.clone())["at_ms"].parse().expect("a time");
        let key = tenant.log_key(Day::of_ms(at_ms));
        let mut words = vec!["XADD", key.as_str(), &id];
        words.extend(fields.iter().map(String::as_str));
        tenant.redis().run::<String>(&words);
    }
}

fn set(fields: &mut [String], name: &str, value: &str) {
    let at = fields
        .iter()
        .position(|field| field == name)
        .expect("a field");
    fields[at + 1] = value.to_owned();
}

async fn found(tenant: &TenantFixture) -> Vec<(&'static str, Option<u64>)> {
    let findings: Vec<Finding> = tenant.audit_report().await.findings;
    findings
        .iter()
        .map(|found| (found.kind, found.sequence))
        .collect()
}

#[tokio::test]
async fn an_unchanged_log_verifies_and_its_unsealed_tail_is_reported() {
    let tenant = sealed_chain().await;
    let report = tenant.audit_report().await;
    assert_eq!(report.findings, []);
    let row = &report.chains[0];
    assert_eq!((row.verified, row.unsealed, row.sealed_sequence), (6, 2, 6));
    rewrite(&tenant, |_| {});
    assert_eq!(found(&tenant).await, []);
}

#[tokio::test]
async fn an_altered_field_is_found_wherever_it_is() {
    for (at, name, value) in [
        (0, "operation", "fundBudget"),
        (2, "status", "200"),
        (3, "request_id", "req_other"),
        (5, "source_ip", "192.0.2.8"),
    ] {
        let tenant = sealed_chain().await;
        rewrite(&tenant, |log| set(&mut log[at].1, name, value));
        assert_eq!(
            found(&tenant).await,
            [("altered", Some(at as u64 + 1))],
            "{name}"
        );
    }
    let tenant = sealed_chain().await;
    rewrite(&tenant, |log| {
        log[1].1.extend(["x", "y"].map(str::to_owned))
    });
    assert_eq!(
        found(&tenant).await,
        [("altered", Some(2))],
        "one more field"
    );
}

#[tokio::test]
async fn a_dropped_entry_is_found_at_the_beginning_in_the_middle_and_at_the_end() {
    for at in [0, 2, 5, 7] {
        let tenant = sealed_chain().await;
        tenant.drop_entry(&tenant.audit_log()[at].0);
        assert_eq!(
            found(&tenant).await,
            [("dropped", Some(at as u64 + 1))],
            "{at}"
        );
    }
    let tenant = sealed_chain().await;
    rewrite(&tenant, |log| log.truncate(4));
    assert_eq!(found(&tenant).await, [("dropped", Some(5))], "a cut tail");
    let tenant = sealed_chain().await;
    for key in [tenant.log_keys(), tenant.seals_keys()].as_flattened() {
        tenant.redis().run::<i64>(&["DEL", key]);
    }
    assert_eq!(found(&tenant).await, [("dropped", Some(1))], "all of a day");
}

#[tokio::test]
async fn an_inserted_entry_is_found() {
    for (number, kind) in [("3", "inserted"), ("99", "inserted"), ("x", "inserted")] {
        let tenant = sealed_chain().await;
        rewrite(&tenant, |log| {
            let (id, mut fields) = log[2].clone();
            set(&mut fields, "sequence", number);
            let (ms, of_ms) = id.split_once('-').expect("an id");
            let of_ms: u64 = of_ms.parse().expect("a number");
            // Behind it, in front of what follows in the same millisecond.
            for (id, _) in &mut log[3..] {
                let (later, number) = id.split_once('-').expect("an id");
                let number: u64 = number.parse().expect("a number");
                if later == ms {
                    *id = format!("{ms}-{}", number + 1);
                }
            }
            log.insert(3, (format!("{ms}-{}", of_ms + 1), fields));
        });
        let kinds = found(&tenant).await;
        assert!(
            kinds.iter().any(|(found, _)| *found == kind),
            "{number}: {kinds:?}"
        );
    }
    // Renumbered, so that all numbers are there.
    let tenant = sealed_chain().await;
    rewrite(&tenant, |log| {
        let copy = log[7].1.clone();
        log.push(("9999999999999-0".to_owned(), copy));
        set(&mut log[8].1, "sequence", "9");
    });
    assert_eq!(
        found(&tenant).await,
        [("inserted", Some(9))],
        "beyond the last number"
    );
    let tenant = sealed_chain().await;
    let other_day = tenant.store.today().plus(-40);
    let key = tenant
        .store
        .keys()
        .audit(tenant.partition(), tenant.name(), other_day);
    tenant.redis().run::<String>(&[
        "XADD",
        &key,
        "*",
        "operation",
        "fundBudget",
        "status",
        "200",
    ]);
    assert_eq!(
        found(&tenant).await,
        [("inserted", None)],
        "in a log that nobody looks into"
    );
}

#[tokio::test]
async fn a_changed_seal_and_a_changed_head_are_found() {
    let zeros = "0".repeat(64);
    for (number, expected) in [
        ("1", &[("seal", Some(1)), ("altered", Some(1))][..]),
        ("4", &[("altered", Some(3)), ("altered", Some(4))]),
    ] {
        let tenant = sealed_chain().await;
        let other = "1".repeat(64);
        let seals = tenant.seals_with(number);
        tenant.redis().run::<i64>(&["HSET", &seals, number, &other]);
        assert_eq!(found(&tenant).await, expected, "{number}");
    }
    let tenant = sealed_chain().await;
    let seals = tenant.seals_with("3");
    tenant.redis().run::<i64>(&["HDEL", &seals, "3"]);
    assert!(found(&tenant).await.contains(&("seal", Some(3))));
    let tenant = sealed_chain().await;
    tenant
        .redis()
        .run::<i64>(&["HSET", &tenant.chain_key(), "sealed_hash", &zeros]);
    assert_eq!(found(&tenant).await, [("altered", Some(6))]);
    let tenant = sealed_chain().await;
    let (seals, head) = (tenant.seals_with("last"), format!("6 {zeros}"));
    tenant.redis().run::<i64>(&["HSET", &seals, "last", &head]);
    assert_eq!(found(&tenant).await, [("seal", Some(6))]);
    let tenant = sealed_chain().await;
    tenant.redis().run::<i64>(&["DEL", &tenant.chain_key()]);
    assert!(found(&tenant).await.contains(&("inserted", Some(8))));
    let tenant = sealed_chain().await;
    let first = tenant.log_keys().into_iter().find(|log| {
        let length: i64 = tenant.redis().run(&["XLEN", log]);
        length > 0
    });
    let first = first.expect("a log");
    tenant.redis().run::<()>(&["SET", &first, "no log"]);
    assert!(found(&tenant).await.contains(&("altered", None)));
}

#[tokio::test]
async fn a_running_system_is_verified_without_a_false_alarm() {
    let tenant = sealed_chain().await;
    let booking = async {
        for _ in 0..20 {
            tenant.record_failures(10).await;
            tenant.seal().await;
        }
    };
    let verifying = async {
        for _ in 0..20 {
            assert_eq!(tenant.audit_report().await.findings, []);
        }
    };
    tokio::join!(booking, verifying);
    assert_eq!(tenant.audit_report().await.chains[0].verified, 208);
}

#[tokio::test]
async fn exit_codes_distinguish_verified_altered_and_unknown() {
    let tenant = sealed_chain().await;
    let args = |names: &[&str], json| AuditVerifyArgs {
        tenants: names.iter().map(ToString::to_string).collect(),
        json,
    };
    let store_of = &tenant.store;
    let mut text = Vec::new();
    assert_eq!(run_audit(store_of, &args(&[], false), &mut text).await, 0);
    let text = String::from_utf8(text).expect("text");
    assert!(text.ends_with("1 chains, 6 entries verified, 2 not sealed yet: nothing was altered, dropped or inserted\n"), "{text}");
    assert_eq!(
        run_audit(store_of, &args(&["nobody"], false), Vec::new()).await,
        2
    );
    rewrite(&tenant, |log| set(&mut log[0].1, "status", "200"));
    let mut json = Vec::new();
    assert_eq!(
        run_audit(store_of, &args(&["acme"], true), &mut json).await,
        1
    );
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(report["findings"][0]["kind"], "altered");
    assert_eq!(report["chains"][0]["sealed_sequence"], 6);
    let unreachable = store("redis://127.0.0.1:1");
    assert_eq!(
        run_audit(&unreachable, &args(&[], false), Vec::new()).await,
        2
    );
}
