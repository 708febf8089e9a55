//! Processes that start with evidence, and those that must not.

use budget_authority::evidence::{Issuing, Registry, register_issuers};
use budget_authority::store::Store;

use crate::harness::app::{SECRET_KEYS, TestApp};
use crate::harness::evidence_keys::{SERVER_ID, issuers, issuers_of, key, listed, seed, settings};
use crate::harness::process::Process;
use crate::harness::redis::shared;
use crate::harness::redis_fixture::{Fields, RedisFixture};
use crate::harness::{eventually, store};
use crate::http::logs::Service;

fn words(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

async fn registered(store: &Store) -> Fields {
    let fixture = RedisFixture::on(store.clone());
    fixture.hashes(&[store.keys().issuers()]).await.remove(0)
}

#[tokio::test]
async fn e20_the_api_registers_its_keys_when_it_starts() {
    let app = TestApp::spawn_on(&shared().url(), &words(&settings('a'))).await;
    let issuing = Issuing::new(issuers(&[listed('a', 0, None)]));
    let stored = eventually("the key is registered", || async {
        let stored = registered(&app.store).await;
        (!stored.is_empty()).then_some(stored)
    })
    .await;
    assert_eq!(stored.len(), 1);
    let registry = issuing.registry(&app.store).await.expect("the same key");
    assert_eq!(registry.choice(1), "1:0:");
}

#[tokio::test]
async fn e20_a_process_that_contradicts_the_registry_exits_with_the_reason() {
    let store = store(&shared().url());
    let (other, none) = (issuers(&[listed('a', 5, None)]), Registry::default());
    let registered = register_issuers(&store, &other, &none).await;
    registered.expect("registered");
    let prefix = store.keys().prefix();
    let own = settings('a');
    let mut service = Service::start(&shared().url(), prefix, &words(&own));
    let status = eventually("the API ends", || {
        let ended = service.child.try_wait().ok().flatten();
        async move { ended }
    })
    .await;
    assert!(!status.success());
    let log = service.log();
    assert!(log.contains("start of a window never changes"), "{log}");
}

#[tokio::test]
async fn e20_a_changed_server_id_stops_every_process_with_advice() {
    let store = store(&shared().url());
    let former = issuers_of("https://former.example/v1", &[listed('a', 0, None)]);
    let none = Registry::default();
    register_issuers(&store, &former, &none)
        .await
        .expect("registered");
    let before = registered(&store).await;
    let own = settings('a');
    for program in [
        env!("CARGO_BIN_EXE_budget-authority"),
        env!("CARGO_BIN_EXE_budget-dispatcher"),
    ] {
        let mut command = std::process::Command::new(program);
        if program.ends_with("authority") {
            command.args(["serve", "--listen", "127.0.0.1:0"]);
        } else {
            command.env("BUDGET_EVIDENCE_SEEDS", seed('a'));
        }
        command.args(["--redis-url", &shared().url(), "--secret-keys", SECRET_KEYS]);
        command.args(["--key-prefix", store.keys().prefix()]);
        command.args(["--metrics-listen", "off"]).args(&own);
        let ended = command.output().expect("it is built");
        assert!(!ended.status.success());
        let text = String::from_utf8([ended.stdout, ended.stderr].concat()).expect("UTF-8");
        for word in [
            "https://former.example/v1",
            "BUDGET_EVIDENCE_SERVER_ID",
            "docs/evidence-keys.md",
        ] {
            assert!(text.contains(word), "{program}: {text}");
        }
    }
    assert_eq!(registered(&store).await, before);
}

#[tokio::test]
async fn e22_a_dispatcher_without_the_seed_of_a_key_does_not_start_and_shows_no_seed() {
    let own = settings('a');
    let run = |seeds: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_budget-dispatcher"));
        command.args(["--redis-url", &shared().url(), "--secret-keys", SECRET_KEYS]);
        command.args(["--metrics-listen", "off"]).args(&own);
        command.env("BUDGET_EVIDENCE_SEEDS", seeds);
        let ended = command.output().expect("it is built");
        assert!(!ended.status.success());
        let text = [ended.stdout, ended.stderr].concat();
        String::from_utf8(text).expect("UTF-8")
    };
    let missing = run("");
    let kid = &key('a').public().hex()[..16];
    assert!(
        missing.contains("BUDGET_EVIDENCE_SEEDS") && missing.contains(kid),
        "{missing}"
    );
    let other = run(&seed('b'));
    assert!(other.contains("not configured"), "{other}");
    assert!(!other.contains(&seed('b')), "{other}");
}

#[tokio::test]
async fn e22_a_dispatcher_with_its_seeds_starts() {
    let store = store(&shared().url());
    let environment = vec![
        ("BUDGET_EVIDENCE_SERVER_ID", SERVER_ID.to_owned()),
        ("BUDGET_EVIDENCE_PUBLIC_KEY", key('a').public().hex()),
        ("BUDGET_EVIDENCE_NBF_MS", "0".to_owned()),
        ("BUDGET_EVIDENCE_SEEDS", seed('a')),
    ];
    let prefix = store.keys().prefix();
    let _dispatcher = Process::dispatcher_in(environment, &shared().url(), prefix);
    eventually("it registers its key", || async {
        (registered(&store).await.len() == 1).then_some(())
    })
    .await;
}
