//! Many combinations: hashes beside that of the day, and what there is no room for.

use budget_authority::store::Day;
use budget_authority::tools::verify::verify;
use serde_json::json;

use super::{report, rows};
use crate::harness::app::TestApp;

/// Writes that many combinations of one token each, as the scripts place them.
const FILL: &str = "
    local from, to = tonumber(ARGV[1]), tonumber(ARGV[2])
    local bytes = 0
    for i = from, to do
      local field = 'TOKENS app:app-' .. i .. ' - 3 llm model'
      bytes = bytes + #field
      local key = KEYS[1]
      if i > 500 then key = key .. ':' .. tonumber(redis.sha1hex(field):sub(1, 4), 16) % 32 end
      redis.call('HSET', key, field, '1 1')
    end
    local before = tonumber((redis.call('HGET', KEYS[1], 'combinations') or '0 0'):match(' (%d+)'))
    redis.call('HSET', KEYS[1], 'combinations', to .. ' ' .. before + bytes)
    local most = 0
    for i = 0, 31 do most = math.max(most, redis.call('HLEN', KEYS[1] .. ':' .. i)) end
    return most";

async fn fill(app: &TestApp, to: u32) -> u32 {
    fill_day(app, app.store.today(), to).await
}

async fn fill_day(app: &TestApp, day: Day, to: u32) -> u32 {
    let keys = app.store.keys();
    let key = keys.usage(app.callers[0].partition, "acme", day);
    let mut most = 0;
    for from in (1..=to).step_by(1_000) {
        let last = (from + 999).min(to);
        most = app
            .run(&[
                "EVAL",
                FILL,
                "1",
                &key,
                &from.to_string(),
                &last.to_string(),
            ])
            .await;
    }
    most
}

async fn charge(app: &TestApp, key: &str, name: &str) -> String {
    let more = json!({"action": {"kind": "tool", "name": name}});
    let posted = app.post_event(key, "tenant:acme/app:real", 10, more).await;
    posted.expect(201).text("/event_id").to_owned()
}

#[tokio::test]
async fn combinations_beyond_500_lie_beside_the_hash_of_the_day() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    fill(&app, 499).await;
    for name in ["first", "second", "second", "third"] {
        charge(&app, &format!("{name}{}", app.now_ms().await), name).await;
        app.next_ms().await;
    }
    let found = rows(&report(&app, "app=real&group_by=action_name").await);
    assert_eq!(found, ["second 20 0 2", "first 10 0 1", "third 10 0 1"]);
    assert_eq!(rows(&report(&app, "").await), ["539 0 503"]);
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    let beside = app.keys_like("*usage:acme:*:*").await;
    assert!((1..=2).contains(&beside.len()), "{beside:?}");
    let number: String = app.run(&["HGET", &key, "combinations"]).await;
    assert!(number.starts_with("502 "), "{number}");
}

#[tokio::test]
async fn the_combination_after_20_000_is_counted_as_other() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let known = charge(&app, "a", "known").await;
    let most = fill(&app, 19_999).await;
    assert!(most < 1_000, "{most} in one hash");
    // The number that FILL wrote does not have the first one.
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    let () = app
        .run(&["HSET", &key, "combinations", "20000 999999"])
        .await;
    charge(&app, "b", "known").await;
    let new = charge(&app, "c", "new").await;
    for (id, amount) in [(known, 3), (new, 4)] {
        let refund = json!({"idempotency_key": "r", "amount": {"unit": "TOKENS", "amount": amount}, "reason": "wrong"});
        app.post(&format!("/v1/usage-events/{id}/refund"), refund)
            .await
            .expect(200);
    }
    let found = rows(&report(&app, "app=real").await);
    assert_eq!(found, ["20 3 2"]);
    let found = report(&app, "group_by=action_name").await;
    assert_eq!(
        rows(&found),
        ["model 19999 0 19999", "known 20 3 2", "other 10 4 1"]
    );
    assert_eq!(
        (found.at("/usage/2/other"), found.at("/complete")),
        (&json!(true), &json!(true))
    );
    // A sum of days and units has all of it; a filter cannot.
    let found = report(&app, "group_by=day,tenant").await;
    assert_eq!(
        rows(&found),
        [format!("{} acme 20029 7 20002", app.store.today().date())]
    );
    assert_eq!(
        report(&app, "app=real").await.at("/complete"),
        &json!(false)
    );
    let fenced =
        json!({"tenant_id": "acme", "name": "real", "scope_filter": ["tenant:acme/app:real"]});
    let fenced = app
        .post_as_admin("/v1/admin/api-keys", fenced)
        .await
        .expect(201);
    let found = app
        .get_with(fenced.text("/key_secret"), "/v1/usage")
        .await
        .expect(200);
    assert_eq!(
        (rows(&found), found.at("/complete")),
        (vec!["20 3 2".to_owned()], &json!(false))
    );
}

#[tokio::test]
async fn a_report_has_at_most_200_000_groups() {
    let app = TestApp::spawn().await;
    for ago in 0..11 {
        fill_day(&app, app.store.today().plus(-ago), 20_000).await;
    }
    // The same 20,000 combinations every day.
    assert_eq!(rows(&report(&app, "").await), ["220000 0 220000"]);
    let refused = app.get("/v1/usage?group_by=day,scope").await;
    assert_eq!(refused.at("/details/present"), &json!(200_001));
    refused.refused(400, "LIMIT_EXCEEDED");
}

#[tokio::test]
async fn no_hash_has_more_than_1_000_combinations_however_they_are_called() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    charge(&app, "a", "first").await;
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    let full = "for hash = 0, 31 do for i = 1, 1000 do
        redis.call('HSET', KEYS[1] .. ':' .. hash, 'TOKENS app:x - 1 x ' .. hash .. ' ' .. i, '1 1') end end";
    let () = app.run(&["EVAL", full, "1", &key]).await;
    let () = app.run(&["HSET", &key, "combinations", "500 9999"]).await;
    charge(&app, "b", "second").await;
    let fields: i64 = app.run(&["HLEN", &key]).await;
    let other: String = app.run(&["HGET", &key, "TOKENS other"]).await;
    assert_eq!((fields, other.as_str()), (3, "10 1"));
}

#[tokio::test]
async fn a_damaged_value_refuses_no_charge() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    charge(&app, "a", "known").await;
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    let fields: Vec<String> = app.run(&["HKEYS", &key]).await;
    let known = fields.iter().find(|field| field.ends_with(" known"));
    for (number, damaged) in ["x", "99999999999999999999999 1"].into_iter().enumerate() {
        let () = app
            .run(&["HSET", &key, known.expect("a combination"), damaged])
            .await;
        charge(&app, &format!("b{number}"), "known").await;
        let found = report(&app, "action_name=known").await;
        assert_eq!(found.at("/usage/0/saturated"), &json!(true), "{damaged}");
    }
}

#[tokio::test]
async fn four_mebibytes_of_combinations_are_enough_for_a_day() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    charge(&app, "a", "first").await;
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    let () = app.run(&["HSET", &key, "combinations", "1 4194290"]).await;
    charge(&app, "b", "second").await;
    let found = rows(&report(&app, "group_by=action_name").await);
    assert_eq!(found, ["first 10 0 1", "other 10 0 1"]);
    let verified = verify(&app.store, None, |_| {})
        .await
        .expect("Redis answers");
    assert!(verified.is_right(), "{}", verified.table(true));
}
