//! Chromium without a window, and chromedriver, which controls it over WebDriver: JSON over HTTP. A crate for it, thirtyfour, would make
//! `serde_json` keep the order of members, in tests alone: they would no longer test the service that is shipped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use budget_authority::tools::dev::child;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::harness::{eventually, http};

/// Browsers at the same time: each takes half a gigabyte.
static BROWSERS: Semaphore = Semaphore::const_new(2);

/// What Chromium starts with. It runs as any user, reaches this machine alone, and ends with chromedriver, to which it has a pipe.
const ARGUMENTS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1280,900",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
];

/// A session of a browser of its own. Both processes end when it is dropped, or with the process of the tests.
pub struct Driver {
    process: Child,
    /// Profile, caches and log.
    folder: PathBuf,
    client: reqwest::Client,
    /// `http://127.0.0.1:<port>/session/<id>`
    session: String,
    _permit: SemaphorePermit<'static>,
}

impl Driver {
    pub async fn start() -> Self {
        let permit = BROWSERS.acquire().await.expect("it is never closed");
        let name = format!("budget-authority-browser-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("the temporary folder is writable");
        let (process, port) = launch(&folder).await;
        let mut driver = Self {
            process,
            folder,
            client: http::client(),
            session: format!("http://127.0.0.1:{port}/session"),
            _permit: permit,
        };
        let options = json!({"args": ARGUMENTS});
        let wanted = json!({
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
        });
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let opened = driver.call(Method::POST, "", body).await;
        let id = opened["sessionId"].as_str().expect("an id");
        driver.session = format!("{}/{id}", driver.session);
        driver
    }

    pub async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.call(Method::POST, path, body).await
    }

    /// A command of the Chrome DevTools Protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", body).await;
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let found = self.attempt(method, path, &body).await;
        found.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    /// The value of a response, or error and message.
    pub async fn attempt(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.session);
        let request = self.client.request(method, url);
        let request = match body {
            Value::Null => request,
            body => request.json(body),
        };
        let response = request.timeout(LIMIT).send().await;
        let response = response.map_err(|error| format!("{error:?}"))?;
        let is_success = response.status().is_success();
        let mut body: Value = response.json().await.map_err(|error| error.to_string())?;
        match is_success {
            true => Ok(body["value"].take()),
            false => Err(format!(
                "{} {}",
                body["value"]["error"], body["value"]["message"]
            )),
        }
    }
}

/// Starts chromedriver; its process and its port.
async fn launch(folder: &Path) -> (Child, String) {
    let log = folder.join("log");
    loop {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null());
        command.stdout(File::create(&log).expect("it is writable"));
        command.stderr(Stdio::null());
        for name in ["TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(name, folder);
        }
        let mut process = child::spawn(command).expect("chromedriver is installed");
        let mut port = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some((_, port)) = text.split_once("started successfully on port ") {
                return Some(port.split_once('.').map(|(port, _)| port.to_owned()));
            }
            process.try_wait().expect("it is ours").map(|_| None)
        };
        let port = eventually("chromedriver names its port, or ends", || {
            std::future::ready(port())
        });
        // It ends when the port that it got for IPv4 is taken for IPv6.
        if let Some(port) = port.await {
            return (process, port);
        }
    }
}

/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(120);

impl Drop for Driver {
    fn drop(&mut self) {
        // Its group, to which Chromium belongs. SAFETY: the child is ours and has not been waited for.
        unsafe { libc::kill(-(self.process.id() as i32), libc::SIGKILL) };
        let _ = self.process.wait();
        for _ in 0..100 {
            if fs::remove_dir_all(&self.folder).is_ok() {
                return;
            }
            // A process of Chromium still writes to its profile.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
