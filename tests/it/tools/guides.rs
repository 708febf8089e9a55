//! The scripts of docs/backup-and-restore.md and docs/tls.md, run as an operator pastes them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::dev_stack::WorkFolder;
use crate::harness::app::TestApp;
use crate::harness::redis::{RedisServer, free_port};

/// The scripts under a heading of a document.
fn scripts(document: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).expect(document);
    let (_, section) = text
        .split_once(&format!("\n## {heading}\n"))
        .expect(heading);
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut found = Vec::new();
    let mut rest = section;
    while let Some((_, after)) = rest.split_once("```sh\n") {
        let (script, after) = after.split_once("```").expect("the end of a block");
        found.push(script.to_owned());
        rest = after;
    }
    found
}

/// A shell in the folder that finds our program, with these variables.
fn shell(folder: &WorkFolder, script: &str, variables: &[(&str, &str)]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_budget-authority")).parent();
    let path = format!(
        "{}:{}",
        program.expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-euc", script]).env("PATH", path);
    shell.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = shell
        .current_dir(folder.path("home"))
        .output()
        .expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}{err}");
    out
}

/// A server that a script has started in the background. It ends with the test.
struct Restored<'t> {
    port: String,
    folder: &'t WorkFolder,
    options: &'static str,
}

impl<'t> Restored<'t> {
    fn of(folder: &'t WorkFolder, options: &'static str) -> Self {
        let port = free_port().to_string();
        Self {
            port,
            folder,
            options,
        }
    }

    fn ask(&self, command: &str) -> String {
        let script = format!("redis-cli {} -p {} {command}", self.options, self.port);
        shell(self.folder, &script, &[])
    }
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // Without `force` it keeps running while it writes its first append-only file.
        let script = format!(
            "redis-cli {} -p {} shutdown nosave force",
            self.options, self.port
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command.current_dir(self.folder.path("home"));
        let output = command.output().expect("a shell");
        let refusal = String::from_utf8_lossy(&output.stdout);
        assert!(std::thread::panicking() || refusal.is_empty(), "{refusal}");
    }
}

/// A service with a hold, a charge and an audit entry.
async fn used(server: &RedisServer) -> TestApp {
    let app = TestApp::spawn_with(&server.url(), "ba", &[]).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("held", 100).await.expect(200);
    let spent = app.reserve("spent", 200).await.expect(200);
    let path = format!("/v1/reservations/{}/commit", spent.text("/reservation_id"));
    let commit =
        serde_json::json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 150}});
    app.post(&path, commit).await.expect(200);
    let tenant = serde_json::json!({"tenant_id": "umbra", "name": "Umbra"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    app
}

/// The ledger of the service on a copy is that of the service.
fn check_ledger(server: &RedisServer, copy: &Restored<'_>) {
    let keys: Vec<String> = server.run(&["KEYS", "ba:{*}:budget:acme:TOKENS:tenant:acme"]);
    let [key] = keys.as_slice() else {
        panic!("{keys:?}")
    };
    let fields: Vec<String> = server.run(&["HGETALL", key]);
    let copied = copy.ask(&format!("hgetall '{key}'"));
    assert!(fields.contains(&"150".to_owned()), "{fields:?}");
    assert_eq!(copied.trim_end(), fields.join("\n"));
}

#[tokio::test]
async fn a_snapshot_is_restored_and_verified_as_in_the_guide() {
    let server = RedisServer::start();
    let app = used(&server).await;
    let folder = WorkFolder::new();
    let guide = "docs/backup-and-restore.md";
    let [backup] = scripts(guide, "Back up").try_into().expect("one script");
    shell(&folder, &backup, &[("REDIS", &server.url())]);
    // Later writes are not in the backup.
    app.reserve("later", 50).await.expect(200);
    let meta = fs::read_to_string(folder.path("home/backups/meta.json")).expect("a copy");
    assert!(meta.contains("secret"), "{meta}");
    let copy = Restored::of(&folder, "");
    let [restore, verify] = scripts(guide, "Restore").try_into().expect("two scripts");
    shell(&folder, &restore.replace("6390", &copy.port), &[]);
    let verified = shell(&folder, &verify.replace("6390", &copy.port), &[]);
    assert!(!verified.is_empty());
    assert!(copy.ask("config get appendonly").contains("yes"));
    let found = copy.ask("--scan --pattern 'ba:{*}:rsv:*'");
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[tokio::test]
async fn a_copy_of_the_append_only_file_has_everything() {
    let server = RedisServer::start();
    let app = used(&server).await;
    let folder = WorkFolder::new();
    fs::create_dir(folder.path("home/backups")).expect("a folder");
    let guide = "docs/backup-and-restore.md";
    let [copy_files] = scripts(guide, "Copy the append-only file")
        .try_into()
        .expect("one script");
    let (_, directory): (String, String) = server.run(&["CONFIG", "GET", "dir"]);
    let variables = [("REDIS", server.url()), ("REDIS_DIRECTORY", directory)];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    shell(&folder, &copy_files, &variables);
    let copy = Restored::of(&folder, "");
    let [restore, verify] = scripts(guide, "Restore").try_into().expect("two scripts");
    let restore = restore
        .replace(
            "cp backups/budget.rdb restored/dump.rdb",
            "cp -r backups/appendonlydir restored/",
        )
        .replace("--appendonly no", "--appendonly yes")
        .replace("6390", &copy.port);
    shell(&folder, &restore, &[]);
    shell(&folder, &verify.replace("6390", &copy.port), &[]);
    check_ledger(&server, &copy);
    drop(app);
}

#[tokio::test]
async fn redis_is_reached_over_tls_with_a_private_authority() {
    let folder = WorkFolder::new();
    let all = scripts("docs/tls.md", "To Redis");
    assert_eq!(all.len(), 3);
    let options = "--tls --cacert tls/ca.pem --cert tls/client.pem --key tls/client.key";
    let redis = Restored::of(&folder, options);
    let port = free_port().to_string();
    // The service, which the last script leaves running, ends with it here.
    let script = format!("trap 'kill $!' EXIT\n{}", all.join("\n"));
    let script = script.replace("6391", &redis.port).replace("7878", &port);
    let printed = shell(&folder, &script, &[]);
    assert!(printed.contains(r#"{"status":"UP"}"#), "{printed}");
    assert!(redis.ask("get ba:meta 2>&1 || true").contains("WRONGTYPE"));
}
