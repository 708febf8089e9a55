//! `budget-authority admin`, run as an operator runs it.

use std::process::Output;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::app::{ADMIN_KEY, TestApp};

/// The result of one command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// The one JSON object that was printed.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Panics unless the command succeeded.
    pub fn done(&self) {
        assert_eq!(self.code, 0, "{self:?}");
    }

    /// The objects that were printed, one a line.
    pub fn rows(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{self:?}");
        let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.out.lines().map(row).collect()
    }

    /// That it ended with this code and said so, and printed nothing else.
    pub fn refused(&self, code: i32, says: &str) {
        assert!(
            self.code == code && self.err.contains(says) && self.out.is_empty(),
            "{self:?}"
        );
    }
}

/// A service, and the command that operates it.
pub struct AdminCli {
    pub app: TestApp,
}

impl AdminCli {
    /// With settings of the test's choice.
    pub async fn new(settings: &[&str]) -> Self {
        let url = super::redis::shared().url();
        Self {
            app: TestApp::spawn_on(&url, settings).await,
        }
    }

    /// Makes a budget of the first tenant.
    pub async fn budget(&self, scope: &str, allocated: i64) {
        let request = self
            .app
            .request(Method::POST, "/v1/admin/budgets")
            .json(&json!({
                "tenant_id": "acme", "scope": scope, "unit": "TOKENS",
                "allocated": {"unit": "TOKENS", "amount": allocated},
            }));
        self.app
            .send(request.header("X-Admin-API-Key", ADMIN_KEY))
            .await
            .expect(201);
    }

    /// A command, of words without blanks.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command
            .arg("admin")
            .args(words.split_whitespace())
            .env("BUDGET_URL", format!("http://{}/v1", self.app.address))
            .env("BUDGET_ADMIN_KEY", ADMIN_KEY)
            .env("BUDGET_UNIT", "TOKENS");
        command
    }

    /// Runs a command.
    pub async fn run(&self, words: &str) -> CommandOutput {
        ran(self
            .command(words)
            .output()
            .await
            .expect("the binary is built"))
    }
}

/// The result of a process.
pub fn ran(output: Output) -> CommandOutput {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    CommandOutput {
        code: output.status.code().expect("an exit code"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
