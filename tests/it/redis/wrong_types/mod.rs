//! Every key of every script, of a wrong type: the script fails with an error that names the damage, and has written nothing.
//!
//! A proxy tries each call of the examples and of further operations. The scripts of the dispatcher's workers are called as
//! they get to it: what they write before an error is checked, and `tests/it/dispatcher` tests what they do without a key.

mod moving_slot;
mod operations;
mod trials;

use std::collections::BTreeSet;

use budget_authority::tools::verify::verify;

use crate::harness::deliveries::{RunningDispatcher, here_on};
use crate::harness::eventually;
use crate::harness::redis::RedisServer;
use crate::harness::signatures::SIGNATURES;
use crate::http::examples::story;
use trials::{Pair, Trials, pairs};

/// Scripts and their keys that raise no error, by the reason.
const SPARED: [(&str, &[(&str, &str)]); 10] = [
    (
        "A row of a list is left out, or reported.",
        &[
            ("balances", "budget"),
            ("ledgers", "budget"),
            ("list", "reservation usage_event"),
            ("list_deliveries", "delivery"),
            ("read_unsigned", "reservation"),
            ("records", "reservation usage_event"),
            ("registered", "reservations usage_events"),
            ("rows", "reservation"),
            ("turn", "budget"),
        ],
    ),
    (
        "The reply says that the row failed, and the others are done.",
        &[
            ("bulk_fund", "budget tenant"),
            ("bulk_tenant", "tenant"),
            ("bulk_webhooks", "tenant webhook"),
            ("close_api_keys", "api_key"),
            ("close_budgets", "budget"),
            ("close_reservations", "budget reservation"),
            ("close_webhooks", "webhook"),
            ("expire", "budget reservation"),
        ],
    ),
    (
        "Only whether it exists is read: the reply says that it does.",
        &[
            ("begin_replay", "replay_lock"),
            ("create_api_key", "api_key"),
            ("create_budget", "budget"),
            ("create_policy", "policy"),
            ("create_webhook", "webhook"),
        ],
    ),
    (
        "It is written anew.",
        &[
            ("bulk_webhooks", "webhooks_mark"),
            ("close_webhooks", "webhooks_mark"),
            ("create_webhook", "webhooks_mark"),
            ("delete_webhook", "webhooks_mark"),
            ("update_webhook", "webhooks_mark"),
        ],
    ),
    (
        "Nothing is counted.",
        &[
            ("create_api_key", "short_lived"),
            ("create_budget", "short_lived"),
            ("create_policy", "short_lived"),
            ("create_tenant", "short_lived"),
            ("create_webhook", "short_lived"),
            ("decide", "short_lived"),
            ("delete_webhook", "short_lived"),
            ("freeze_budget", "short_lived"),
            ("fund", "short_lived"),
            ("increase", "short_lived"),
            ("revoke_api_key", "short_lived"),
            ("update_api_key", "short_lived"),
            ("update_budget", "short_lived"),
            ("update_policy", "short_lived"),
            ("update_tenant", "short_lived"),
            ("update_webhook", "short_lived"),
        ],
    ),
    (
        "A read of what a tenant owns needs no tenant.",
        &[
            ("introspect", "tenant"),
            ("list", "tenant"),
            ("list_deliveries", "tenant"),
            ("list_policies", "tenant"),
            ("lookup_budget", "tenant"),
            ("read_webhook", "tenant"),
            ("validate_api_key", "tenant"),
        ],
    ),
    (
        "What has begun ends without the tenant: it has no settings, and the sentinel has its audit entry.",
        &[
            ("audit_failure", "tenant"),
            ("bulk_finish", "tenant"),
            ("close_api_keys", "tenant"),
            ("close_budgets", "tenant"),
            ("close_tenant", "tenant"),
            ("close_webhooks", "tenant"),
            ("expire", "tenant"),
        ],
    ),
    (
        "Only a dispatcher has a lease, and copies thresholds.",
        &[
            ("close_api_keys", "lease"),
            ("close_budgets", "lease"),
            ("close_reservations", "lease"),
            ("close_tenant", "lease"),
            ("close_webhooks", "lease"),
            ("copy_thresholds", "tenant watch"),
            ("expire", "lease"),
        ],
    ),
    (
        "Read for some requests alone.",
        &[
            ("audit_failure", "audit_failures audit_failures_due"),
            ("commit", "more_usage"),
            ("decide", "rates unsigned_refusals"),
            ("extend", "rates"),
            ("list", "due other_graces"),
            ("list_deliveries", "api_key"),
            ("refund", "more_usage"),
            ("usage_event", "more_usage"),
        ],
    ),
    (
        "No call.",
        &[
            ("admin_access", "tenant"),
            ("commit", "unsigned_refusals"),
            ("end_replay", "replay_lock"),
            ("quarantine_unsigned", "unsignable unsigned"),
            ("release", "unsigned_refusals"),
            ("replay", "api_key decision reservation usage_event"),
        ],
    ),
];

/// What is written before the error, and does no harm: a due time without a reservation, an entry of the stream of evidence
/// without its decision, a replay of an id that is new.
const WRITTEN: [Pair; 7] = [
    ("commit", "due"),
    ("queue_replay", "replay_events"),
    ("release", "due"),
    ("reserve", "due"),
    ("reserve", "due_tenants"),
    ("reserve", "other_graces"),
    ("reserve", "reservations"),
];

/// Scripts that may not be called here: of a dispatcher that died, of outages, of a clock that was set back, of subscriptions that are
/// behind, of a full log, of damage, of old days; and those that come later than the test ends on a quick machine.
const UNSEEN: [&str; 12] = [
    "catch_up",
    "count_burn",
    "count_traffic",
    "drop_oldest",
    "end_replay",
    "feed_replay",
    "hasten_lanes",
    "lapse_claims",
    "merge_usage",
    "quarantine_unsigned",
    "replay",
    "report_store",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_raises_the_error_of_a_wrong_type_or_a_moved_key_before_it_writes() {
    let server = RedisServer::start();
    let trials = Trials::before(&server);
    operations::attest(&trials.url()).await;
    let app = here_on(&trials.url()).await;
    let _receiver = operations::watch(&app).await;
    operations::spend(&app).await;
    operations::end(&app).await;
    operations::forget(&trials.url()).await;
    story::run(here_on(&trials.url()).await).await;
    operations::come_due(&app).await;
    let dispatcher = RunningDispatcher::start(&app);
    for script in [
        "end_attempts",
        "seal",
        "copy_thresholds",
        "index_view",
        "fan_out",
        "adopt_webhooks",
        "denials",
        "audit_failures",
        "auth_failed",
        "expire_api_key",
        "detect_spikes",
        "detect_burn",
    ] {
        eventually(script, || async { trials.has_seen(script) }).await;
    }
    dispatcher.stop().await;
    verify(&app.store, None, |_| {})
        .await
        .expect("Redis answers");

    let outcomes = trials.outcomes();
    let wrong: Vec<_> = outcomes
        .iter()
        .filter(|(pair, seen)| !seen.wrong.is_empty() && !WRITTEN.contains(pair))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let raised = |pair: &Pair| {
        let seen = outcomes.get(pair);
        seen.is_some_and(|seen| seen.raised + seen.wrong.len() > 0)
    };
    let spared: BTreeSet<_> = pairs().into_iter().filter(|pair| !raised(pair)).collect();
    let rows = SPARED.iter().flat_map(|(_, rows)| rows.iter());
    let declared: BTreeSet<_> = rows
        .flat_map(|(script, keys)| keys.split(' ').map(move |key| (*script, key)))
        .collect();
    let differ = spared.symmetric_difference(&declared);
    // On a slow machine the dispatcher expires something before a request does.
    let differ: Vec<_> = differ
        .filter(|pair| **pair != ("expire", "lease"))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");

    let mut moving = trials.moving_outcomes();
    let scripts = SIGNATURES.iter().map(|signature| signature.script.name());
    let unseen: Vec<_> = scripts
        .filter(|name| !moving.contains_key(name) && !UNSEEN.contains(name))
        .collect();
    assert!(unseen.is_empty(), "not tried in a moving slot: {unseen:?}");
    moving.retain(|_, outcomes| !outcomes.wrong.is_empty());
    assert!(moving.is_empty(), "in a moving slot: {moving:#?}");
}
