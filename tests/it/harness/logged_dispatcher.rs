//! A dispatcher whose log lines a test reads.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use budget_authority::tools::dev::child;
use serde_json::Value;

use super::app::{SECRET_KEYS, TestApp};
use super::eventually;
use super::retrying_client::LONG_REDIS_TIMEOUT;

/// A dispatcher with its log in a file.
pub struct LoggedDispatcher {
    child: Child,
    log: PathBuf,
}

impl LoggedDispatcher {
    /// Starts it for this service, with more options.
    pub fn start(app: &TestApp, options: &[&str]) -> Self {
        let log = std::env::temp_dir().join(format!("{:016x}.log", rand::random::<u64>()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-dispatcher"));
        command.args(["--redis-url", &app.redis_url, "--secret-keys", SECRET_KEYS]);
        command.args(["--key-prefix", app.store.keys().prefix()]);
        command.args(["--metrics-listen", "off", "--log", "debug"]);
        command.args(LONG_REDIS_TIMEOUT).args(options);
        let file = fs::File::create(&log).expect("the temporary folder is writable");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(file);
        let child = child::spawn(command).expect("the binary is built");
        Self { child, log }
    }

    pub fn text(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// The lines so far, whose end was written.
    pub fn lines(&self) -> Vec<Value> {
        let log = self.text();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let line = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        whole.lines().map(line).collect()
    }

    /// Waits for a line with these fields.
    pub async fn line(&self, fields: &[(&str, &str)]) -> Value {
        eventually(&format!("{fields:?}"), || async {
            let is_it = |line: &Value| fields.iter().all(|(name, value)| line[*name] == *value);
            let line = self.lines().into_iter().find(is_it);
            line.ok_or_else(|| self.text())
        })
        .await
    }
}

impl Drop for LoggedDispatcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.log);
    }
}
