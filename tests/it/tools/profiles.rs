//! `budget-authority login`, and the profiles that it writes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::admin_cli::{AdminCli, CommandOutput, ran};
use crate::harness::app::ADMIN_KEY;
use crate::harness::terminal::terminal;

/// A home of an operator, which is removed in the end.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        let name = format!("budget-authority-home-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("the temporary folder is writable");
        Self(folder)
    }

    fn profile(&self, name: &str) -> PathBuf {
        let folder = self.0.join(".config/budget-authority/profiles");
        folder.join(format!("{name}.json"))
    }

    /// A command with nothing of ours in its environment.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command.args(words.split_whitespace()).env("HOME", &self.0);
        for name in [
            "XDG_CONFIG_HOME",
            "BUDGET_URL",
            "BUDGET_ADMIN_KEY",
            "BUDGET_ADMIN_KEY_FILE",
            "BUDGET_PROFILE",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, words: &str) -> CommandOutput {
        ran(self.command(words).output().expect("the binary is built"))
    }

    /// Runs a command that reads the key from a pipe.
    fn run_with_key(&self, words: &str, key: &str) -> CommandOutput {
        let mut command = self.command(words);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the binary is built");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{key}").expect("it reads");
        drop(stdin);
        ran(child.wait_with_output().expect("it ends"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_is_readable_only_by_its_owner_and_used_by_name() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    home.run("admin tenant list")
        .refused(2, "budget-authority login");
    let login = format!("login --profile prod --url {url} --key-name ops");
    let made = home.run_with_key(&login, ADMIN_KEY);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(
        made.out.is_empty() && made.err.contains("--profile prod"),
        "{made:?}"
    );
    assert!(!made.err.contains(ADMIN_KEY));
    let path = home.profile("prod");
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&path).expect("text");
    let stored: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        stored,
        serde_json::json!({"url": url, "key_name": "ops", "key": ADMIN_KEY})
    );

    home.run("admin --profile prod tenant list").done();
    let mut by_variable = home.command("admin --json overview");
    let overview = ran(by_variable
        .env("BUDGET_PROFILE", "prod")
        .output()
        .expect("it runs"));
    assert!(overview.json()["tenant_counts"].is_object());
    home.run("admin --profile other tenant list")
        .refused(2, "login --profile other");
    home.run("admin tenant list").refused(2, "or a profile");

    assert_eq!(home.run("logout --profile prod").code, 0);
    assert!(!path.exists());
    home.run("admin --profile prod tenant list")
        .refused(2, "there is no profile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_key_is_not_echoed() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    let (mut ours, its) = terminal(200);
    let another = || Stdio::from(its.try_clone().expect("a handle"));
    let mut command = home.command(&format!("login --url {url}"));
    command.stdin(another()).stdout(another()).stderr(another());
    let mut child = command.spawn().expect("the binary is built");
    drop((command, its));
    let (mut seen, mut bytes) = (String::new(), [0; 4096]);
    let mut typed = false;
    while let Ok(count @ 1..) = ours.read(&mut bytes) {
        seen += &String::from_utf8_lossy(&bytes[..count]);
        if !typed && seen.contains("Admin key: ") {
            typed = true;
            writeln!(ours, "{ADMIN_KEY}").expect("it reads");
        }
    }
    assert!(child.wait().expect("it ends").success(), "{seen}");
    assert!(!seen.contains(ADMIN_KEY), "{seen}");
    home.run("admin tenant list").done();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_profile_applies_without_flags_and_only_to_its_own_url() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    let made = home.run_with_key(&format!("login --url {url}"), ADMIN_KEY);
    assert_eq!(made.code, 0, "{made:?}");
    home.run("admin tenant list").done();
    home.run(&format!("admin --url {url} tenant list")).done();
    home.run("admin --url http://127.0.0.1:9 tenant list")
        .refused(2, "--admin-key");
    // Flags and variables take precedence over the default profile.
    let flag = home.run("admin --admin-key wrong --url http://127.0.0.1:9 tenant list");
    flag.refused(3, "cannot be reached");
    let warning = "warning: the list of processes shows the secret of --admin-key";
    assert!(flag.err.starts_with(warning), "{flag:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_profile_cannot_be_combined_with_a_url_or_key() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    home.run_with_key(&format!("login --profile prod --url {url}"), ADMIN_KEY);
    for (name, value) in [
        ("BUDGET_URL", "http://127.0.0.1:9"),
        ("BUDGET_ADMIN_KEY", "k"),
    ] {
        let mut command = home.command("admin --profile prod tenant list");
        let refused = ran(command.env(name, value).output().expect("it runs"));
        refused.refused(2, "profile `prod` has a URL and a key");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_key_is_not_stored() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    let refused = home.run_with_key(&format!("login --url {url}"), "wrong-secret");
    refused.refused(1, "BUDGET_ADMIN_KEYS");
    assert!(!refused.err.contains("wrong-secret"), "{refused:?}");
    assert!(!home.profile("default").exists());
    home.run_with_key(&format!("login --url {url}"), "")
        .refused(2, "--admin-key-file");
    home.run("login --profile ../x --url http://h")
        .refused(2, "a profile has up to 64");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_publicly_readable_profile_is_refused() {
    let operator = AdminCli::new(&[]).await;
    let (home, url) = (Home::new(), format!("http://{}", operator.app.address));
    let login = format!("login --url {url}");
    assert_eq!(home.run_with_key(&login, ADMIN_KEY).code, 0);
    let path = home.profile("default");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    home.run("admin tenant list").refused(2, "chmod 600");
    // A login writes the file anew.
    assert_eq!(home.run_with_key(&login, ADMIN_KEY).code, 0);
    home.run("admin tenant list").done();
    fs::write(&path, format!("{{\"key\": \"{ADMIN_KEY}\"}}")).expect("it is ours");
    let damaged = home.run("admin tenant list");
    damaged.refused(2, "log in again");
    assert!(!damaged.err.contains(ADMIN_KEY));
}

#[test]
fn make_install_puts_the_binaries_under_prefix() {
    let planned = |settings: &[&str]| {
        let mut make = Command::new("make");
        make.args(["--no-print-directory", "-n", "install"])
            .args(settings);
        let output = make
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("make is installed");
        String::from_utf8(output.stdout).expect("text")
    };
    let printed = planned(&["PREFIX=/opt/budget"]);
    assert!(
        printed.contains("cargo install --path . --locked --root \"/opt/budget\""),
        "{printed}"
    );
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(planned(&[]).contains(&format!("--root \"{home}/.local\"")));
}
