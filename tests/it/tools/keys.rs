//! `keys generate`, and the file that holds the key of an operator.

use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use budget_authority::domain::admin_key::AdminKeys;
use budget_authority::domain::seal::SealingKeys;
use budget_authority::evidence::SigningKey;

use crate::harness::admin_cli::{AdminCli, ran};
use crate::harness::app::ADMIN_KEY;

/// Standard output of the process: one line, with nothing on standard error.
fn generated(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["keys", "generate"]).args(arguments);
    let exited = ran(command
        .env("RUST_LOG", "trace")
        .output()
        .expect("it is built"));
    assert_eq!((exited.code, exited.err.as_str()), (0, ""));
    let line = exited.out.strip_suffix('\n').expect("a line");
    assert!(!line.contains('\n'), "one line");
    line.to_owned()
}

#[test]
fn keys_generate_prints_a_key_that_its_setting_accepts() {
    for arguments in [&[][..], &["--kind", "admin"]] {
        let (key, another) = (generated(arguments), generated(arguments));
        assert_ne!(key, another);
        assert!(
            key.len() >= 32
                && key
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        );
        AdminKeys::parse(&format!("ops={key}")).expect("BUDGET_ADMIN_KEYS accepts it");
    }
    let (key, another) = (
        generated(&["--kind", "secret"]),
        generated(&["--kind", "secret"]),
    );
    assert_ne!(key, another);
    let (id, bytes) = key.split_once(':').expect("an id and a key");
    assert!(!id.is_empty());
    assert_eq!(BASE64_STANDARD.decode(bytes).expect("base64").len(), 32);
    SealingKeys::parse(&key).expect("BUDGET_SECRET_KEYS accepts it");
}

#[test]
fn keys_generate_prints_a_seed_of_evidence_with_its_public_key() {
    let printed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        let exited = ran(command
            .args(["keys", "generate", "--kind", "evidence"])
            .output()
            .expect("it is built"));
        assert_eq!((exited.code, exited.err.as_str()), (0, ""));
        exited.out
    };
    let text = printed();
    assert_ne!(text, printed());
    let mut lines = text.lines();
    let mut of = |name: &str| {
        let line = lines.next().and_then(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let (seed, public) = (
        of("BUDGET_EVIDENCE_SEEDS="),
        of("BUDGET_EVIDENCE_PUBLIC_KEY="),
    );
    let key = SigningKey::parse(seed).expect("a seed");
    assert_eq!(key.public().hex(), public);
}

#[test]
fn keys_generate_refuses_another_kind() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["keys", "generate", "--kind", "api"]);
    let exited = ran(command.output().expect("it is built"));
    assert_eq!((exited.code, exited.out.as_str()), (2, ""));
    assert!(exited.err.contains("admin, secret"), "{}", exited.err);
}

#[tokio::test]
async fn the_admin_key_of_an_operator_can_be_in_a_file() {
    let cli = AdminCli::new(&[]).await;
    let path = std::env::temp_dir().join(format!("{:016x}", rand::random::<u64>()));
    std::fs::write(&path, format!("{ADMIN_KEY}\n")).expect("the temporary folder is writable");
    let run = async |key: Option<&str>, file: &std::path::Path| {
        let mut command = cli.command("tenant list");
        match key {
            Some(key) => command.env("BUDGET_ADMIN_KEY", key),
            None => command.env_remove("BUDGET_ADMIN_KEY"),
        };
        command.env("BUDGET_ADMIN_KEY_FILE", file);
        ran(command.output().await.expect("it is built"))
    };
    run(None, &path).await.done();
    run(Some(""), &path).await.done();
    run(Some(ADMIN_KEY), &path).await.refused(
        2,
        "give the value or the file that holds it, not both; `unset BUDGET_ADMIN_KEY`",
    );
    let missing = path.with_extension("missing");
    run(None, &missing)
        .await
        .refused(2, "BUDGET_ADMIN_KEY_FILE");
    std::fs::write(&path, "").expect("it is ours");
    run(None, &path).await.refused(2, "the file is empty");
    std::fs::remove_file(&path).expect("it is ours");
}
