use super::*;
use crate::domain::rows;

fn parse(flags: &[&str]) -> Result<ServeConfig, String> {
    let fixed = [
        "--redis-url=redis://:hunter2@127.0.0.1",
        "--allow-plaintext-secrets",
    ];
    let flags: Vec<_> = fixed.iter().chain(flags).map(ToString::to_string).collect();
    let args = ServeArgs::from_flags(&flags).map_err(|error| error.to_string())?;
    args.into_config().map_err(|error| error.to_string())
}

#[test]
fn the_defaults_hold_together() {
    let config = parse(&[]).expect("defaults");
    assert_eq!(config.http.listen.port(), 7878);
    assert_eq!(config.http.admin_listen, None);
    assert_eq!(config.process.metrics_listen.map(|a| a.port()), Some(7879));
    assert_eq!(config.store.redis.timeout, Duration::from_secs(2));
    assert!(!config.secrets.is_present());
    assert!(!config.http.allow_cross_tenant_list);
    let cycles = parse(&["--dialect=cycles"]).expect("a dialect");
    assert!(cycles.http.allow_cross_tenant_list);
    let closed = ["--dialect=cycles", "--allow-cross-tenant-list=false"];
    let closed = parse(&closed).expect("both");
    assert!(!closed.http.allow_cross_tenant_list);
    let off = parse(&["--metrics-listen=off"]).expect("off");
    assert_eq!(off.process.metrics_listen, None);
}

const SEALED: &str = "--allow-plaintext-secrets=false";
const KEY: &str = "--secret-keys=k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[test]
fn a_refusal_names_its_variables_and_shows_no_secret() {
    // Contradictions name both variables. Secrets need a key or explicit consent to plaintext.
    for (flags, names) in rows(&format!(
        "--redis-url=http://:hunter2@x => BUDGET_REDIS_URL
        --key-prefix=a{{b}} => BUDGET_KEY_PREFIX
        --admin-keys=a,,swordfish => BUDGET_ADMIN_KEYS
        --admin-keys=swordfish => BUDGET_ADMIN_KEYS 32 generate
        --admin-keys=ops={} => BUDGET_ADMIN_KEYS repeats generate
        --admin-keys-file=/missing => BUDGET_ADMIN_KEYS_FILE
        --admin-keys=a --admin-keys-file=/missing => BUDGET_ADMIN_KEYS BUDGET_ADMIN_KEYS_FILE
        --secret-keys-file=/missing => BUDGET_SECRET_KEYS_FILE
        --redis-url-file=/missing => BUDGET_REDIS_URL BUDGET_REDIS_URL_FILE
        --cors-origins=*,https://a.example => BUDGET_CORS_ORIGINS
        --cors-origins=a.example/x => cors-origins
        --trusted-proxies=10.0.0.0/33 => trusted-proxies
        --reservation-retention-days=0 => reservation-retention-days
        --redis-timeout-ms=1 => redis-timeout-ms
        --dialect=latin => dialect
        --log=budget=louder => log
        --webhook-ca-file=/missing => BUDGET_WEBHOOK_CA_FILE
        --metrics-listen=0.0.0.0:7878 => BUDGET_LISTEN BUDGET_METRICS_LISTEN
        --admin-listen=127.0.0.1:7880 => BUDGET_ADMIN_KEYS
        --redis-tls-ca-file=/ca.pem => BUDGET_REDIS_TLS_CA_FILE BUDGET_REDIS_URL
        {SEALED} => BUDGET_SECRET_KEYS BUDGET_ALLOW_PLAINTEXT_SECRETS
        {KEY} => contradict
        {SEALED} --secret-keys=k:AAAA => BUDGET_SECRET_KEYS",
        "k".repeat(40)
    )) {
        let refused = parse(&flags.split(' ').collect::<Vec<_>>()).err();
        let message = refused.unwrap_or_else(|| panic!("{flags} is accepted"));
        for name in names.split(' ') {
            assert!(message.contains(name), "{flags}: {message}");
        }
        for secret in SECRETS {
            assert!(!message.contains(secret), "{flags}: {message}");
        }
    }
}

#[test]
fn outbox_pointers_are_kept_no_longer_than_events() {
    let outbox = |days: &str| parse(&[days]).expect("days").retention.outbox().as_secs() / 86_400;
    assert_eq!(outbox("--event-retention-days=90"), 7);
    assert_eq!(outbox("--event-retention-days=3"), 3);
}

#[test]
fn an_admin_key_of_32_characters_is_long_enough() {
    let long = format!("--admin-keys=ops={}", "key2".repeat(8));
    assert!(
        !parse(&[&long])
            .expect("32 characters")
            .admin_keys
            .is_empty()
    );
}

#[test]
fn a_secret_may_be_in_a_file() {
    let key = KEY.strip_prefix("--secret-keys=").expect("a key");
    let admin = "key2".repeat(8);
    let contents = [
        format!("ops={admin}\n"),
        format!("{key}\r\n"),
        "redis://h\n".to_owned(),
    ];
    let name = |number: usize| format!("secret-{:016x}-{number}", rand::random::<u64>());
    let files = [0, 1, 2].map(|number| std::env::temp_dir().join(name(number)));
    for (file, content) in files.iter().zip(&contents) {
        std::fs::write(file, content).expect("the temporary folder is writable");
    }
    let flags = ["admin-keys", "secret-keys", "redis-url"];
    let flags = flags.iter().zip(&files);
    let flags: Vec<_> = flags
        .map(|(flag, file)| format!("--{flag}-file={}", file.display()))
        .collect();
    let read = ServeArgs::from_flags(&flags).map(ServeArgs::into_config);
    std::fs::write(&files[0], "\n").expect("writable");
    let empty = ServeArgs::from_flags(&flags).map(ServeArgs::into_config);
    files
        .iter()
        .for_each(|file| drop(std::fs::remove_file(file)));
    let config = read.expect("flags").expect("a configuration");
    assert!(config.secrets.is_present() && config.admin_keys.accept(&admin).is_some());
    let empty = empty
        .expect("flags")
        .expect_err("an empty file")
        .to_string();
    assert!(
        empty.contains("BUDGET_ADMIN_KEYS_FILE") && empty.contains("empty"),
        "{empty}"
    );
}

const SECRETS: [&str; 3] = ["hunter2", "swordfish", "AAAA"];

#[test]
fn no_secret_is_printed() {
    let admin = format!("--admin-keys=ops={}", "swordfish".repeat(4));
    let config = parse(&[SEALED, KEY, &admin]).expect("keys");
    assert!(config.secrets.is_present());
    let printed = format!("{config:?}");
    assert!(
        !SECRETS.iter().any(|secret| printed.contains(secret)),
        "{printed}"
    );
}
