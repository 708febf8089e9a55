//! Files and services that `apply` refuses.

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::{apply, budget, command, exported, file, rows, run};
use crate::harness::admin_cli::AdminCli;
use crate::harness::app::TestApp;

#[tokio::test]
async fn a_wrong_file_is_refused_with_its_places_before_anything_is_changed() {
    let app = TestApp::spawn().await;
    apply(&app, &file("allocated: 1")).await;
    let wrong = "
tenants:
- tenant_id: new-tenant
  name: New
- tenant_id: acme-file
  name: Acme
  owner: me
  budgets:
  - {scope: tenant:acme-file, unit: TOKENS, allocated: 5usd}
  - {scope: tenant:acme-file/app:a, unit: TOKENS, allocated: 1, period: {every: P1X, evry: P1M}, metadata: {}}
  - {scope: tenant:other, unit: TOKENS, allocated: 1.5, status: CLOSED}
  - {scope: tenant:acme-file/team:x, unit: TOKENS, allocated: 1.0001k}
  - {scope: tenant:acme-file/app:b, unit: TOKENS, allocated: 9223372036854775808}
  - {scope: tenant:acme-file/app:c, unit: TOKENS, allocated: 1}
  - {scope: tenant:ACME-FILE/app:C, unit: TOKENS, allocated: 2}
  policies: [{name: p, scope_pattern: tenant:acme-file/*, budget_templates: [{unit: TOKENS, allocated: 1}]}]
  webhooks: [{url: https://hooks.example.com, event_types: [budget.created], signing_secret: 0123456789abcdef}]
  keys: [{name: k, permissions: [all]}, 7]
";
    let refused = run(&app, "apply -f -", wrong).await;
    refused.refused(2, "");
    for problem in [
        "-: tenants[1].owner: unknown member; there are budgets",
        "tenants[1].budgets[0].allocated: is in USD_MICROCENTS, but `unit` is TOKENS",
        "tenants[1].budgets[1].period.every: must be",
        "tenants[1].budgets[1].period.evry: unknown member; there are allocated, anchor",
        "tenants[1].budgets[1].metadata: unknown member",
        "tenants[1].budgets[2].scope: must begin with tenant:acme-file",
        "tenants[1].budgets[2].allocated.amount: must be an integer",
        "tenants[1].budgets[2].status: must be ACTIVE or FROZEN, not CLOSED",
        "tenants[1].budgets[3].scope: segment `team:x` must start with tenant, workspace",
        "tenants[1].budgets[3].allocated: is not exact",
        "tenants[1].budgets[4].allocated.amount: must be between 0 and 9223372036854775807",
        "tenants[1].budgets[6]: budget acme-file/app:c TOKENS is already at tenants[1].budgets[5]",
        "tenants[1].policies[0].budget_templates: needs a scope_pattern",
        "tenants[1].webhooks[0].signing_secret: unknown member",
        "tenants[1].keys[0].permissions[0]: must be one of",
        "tenants[1].keys[1]: must be an object",
    ] {
        assert!(refused.err.contains(problem), "{problem}\n{}", refused.err);
    }
    let syntax = run(&app, "apply -f -", "tenants:\n- tenant_id: a\n  name: 'x\n").await;
    syntax.refused(2, "line 3");
    let twice = run(&app, "apply -f -", "tenants: []\ntenants: []\n").await;
    twice.refused(2, "line 2");

    // What only the service knows.
    let other_unit = "tenants:
- {tenant_id: new-tenant, name: New}
- {tenant_id: acme-file, name: Acme, budgets: [{scope: tenant:acme-file, unit: CREDITS, allocated: 1}]}";
    let refused = run(&app, "apply -f -", other_unit).await;
    refused.refused(
        2,
        "tenants[1].budgets[0].unit: must stay TOKENS; to have both, list both",
    );
    let parent = file("allocated: 1").replace("name: Acme", "name: Acme, parent_tenant_id: other");
    let refused = run(&app, "apply -f -", &parent).await;
    refused.refused(
        2,
        "tenants[0].parent_tenant_id: cannot change; it is none, not other",
    );
    let tenants = rows(&app, "tenants", "search=new-tenant").await;
    assert_eq!(tenants, Vec::<Value>::new());
    assert_eq!(budget(&app, "tenant:acme-file").await["unit"], "TOKENS");

    let operator = AdminCli { app };
    operator.run("tenant close acme-file --yes").await.done();
    let refused = run(&operator.app, "apply -f -", &file("allocated: 2")).await;
    refused.refused(2, "tenants[0]: tenant acme-file is closed, for good");
    let export = run(&operator.app, "export", "").await;
    export.done();
    assert!(!export.out.contains("acme-file"), "{export:?}");
}

#[tokio::test]
async fn a_name_that_the_service_has_twice_is_refused() {
    let app = TestApp::spawn().await;
    apply(&app, &file("allocated: 1")).await;
    let operator = AdminCli { app };
    for _ in 0..2 {
        operator
            .run("key create --tenant acme-file --name twin")
            .await
            .done();
    }
    let app = &operator.app;
    let text = exported(app, "acme-file").await;
    let twins = text.lines().filter(|line| line.contains("name: twin"));
    assert_eq!(twins.count(), 2, "{text}");
    let twice = "keys[1]: key acme-file twin is already at tenants[0].keys[0]";
    run(app, "diff -f -", &text).await.refused(2, twice);
    let one = file("allocated: 1").replace("}]}]", "}], keys: [{name: twin}]}]");
    let twice = "tenants[0].keys[0]: the service has 2 called key acme-file twin";
    run(app, "diff -f -", &one).await.refused(2, twice);
}

#[tokio::test]
async fn a_service_that_refuses_or_is_absent_gives_its_exit_code() {
    let app = TestApp::spawn().await;
    run(
        &app,
        "apply --url http://127.0.0.1:9 -f -",
        &file("allocated: 1"),
    )
    .await
    .refused(3, "cannot be reached");
    run(&app, "apply --admin-key wrong -f -", &file("allocated: 1"))
        .await
        .refused(1, "UNAUTHORIZED");
    run(&app, "diff --admin-key wrong -f -", &file("allocated: 1"))
        .await
        .refused(2, "UNAUTHORIZED");
    run(&app, "apply -f no-such-file", "")
        .await
        .refused(2, "no-such-file");
    run(&app, "export --tenant nobody", "")
        .await
        .refused(2, "there is no tenant `nobody`");
    // The service refuses a step: those before it are done.
    let used = "tenants: [{tenant_id: other-file, name: O, webhooks: [{url: 'https://127.0.0.1/', event_types: [budget.created]}]}]";
    let refused = run(&app, "apply -f -", used).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused
            .err
            .contains("failed: + create webhook other-file https://127.0.0.1/\n1 of 2 done\n"),
        "{refused:?}"
    );
    assert!(refused.err.contains("WEBHOOK_URL_INVALID"), "{refused:?}");
}

#[tokio::test]
async fn what_is_in_progress_is_completed_although_it_cannot_be_printed() {
    let app = TestApp::spawn().await;
    let keys = "keys: [{name: a}, {name: b}, {name: c}, {name: d}]";
    let text = format!("tenants: [{{tenant_id: acme-full, name: A, {keys}}}]");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = command(&app, "apply --json -f -");
    let mut child = command
        .stdout(full.expect("a device"))
        .spawn()
        .expect("the binary is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("an end");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    for part in [
        "failed: + create tenant acme-full",
        "0 of 5 done",
        "could not be written",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // The next one does what is left.
    let left = run(&app, "apply -f -", &text).await;
    assert!(
        left.out
            .contains("key_secret of key acme-full d, printed only now: "),
        "{left:?}"
    );
}
