//! What a reader of the console does with a browser, and what they see.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::driver::Driver;
use crate::harness::app::TestApp;
use crate::harness::within;

/// axe-core 4.14.1 from npm, `axe.min.js`, SHA-256 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c.
const AXE: &str = include_str!("axe.min.js");

/// Runs it, and returns a line per violation.
const VIOLATIONS: &str = "
const done = arguments[0];
const element = node => node.html.slice(0, 200) + ' ' + node.failureSummary;
const line = violation => violation.id + ': ' + violation.nodes.map(element).join(' | ');
axe.run().then(found => done(found.violations.map(line)), error => done(['axe: ' + error]))";

/// Finds the last element that reaches beyond the window and does not scroll by itself.
const OVERHANG: &str = "
const {clientWidth, scrollWidth} = document.documentElement;
if (scrollWidth <= clientWidth) return '';
const scrolls = element => element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
const isWide = element => element.getBoundingClientRect().right > clientWidth + 1 && !scrolls(element.parentElement);
const element = [...document.body.querySelectorAll('*')].filter(isWide).at(-1);
return `${scrollWidth - clientWidth} pixels wider than ${clientWidth}: ${element?.outerHTML.slice(0, 300)}`";

/// How long a page may take to show something.
const PATIENT: Duration = Duration::from_secs(20);

const SHRINK: &str = include_str!("shrink.js");

/// A colour scheme that a reader prefers.
#[derive(Clone, Copy, Debug)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub const ALL: [Self; 2] = [Self::Light, Self::Dark];

    pub fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A browser that knows where the console is.
pub struct Browser {
    driver: Driver,
    /// `http://127.0.0.1:<port>`
    pub base: String,
}

impl Browser {
    /// At no page yet.
    pub async fn of(app: &TestApp) -> Self {
        let address = app.admin_address.unwrap_or(app.address);
        Self {
            driver: Driver::start().await,
            base: format!("http://{address}"),
        }
    }

    /// Logged in.
    pub async fn with_key(app: &TestApp, key: &str) -> Self {
        let browser = Self::of(app).await;
        browser.go("/console").await;
        browser.enter(key).await;
        browser
    }

    /// Logs in where the login is open.
    pub async fn enter(&self, key: &str) {
        self.log_in(key).await;
        self.element("form[action='/console/logout']").await;
    }

    /// Sends the form of the login.
    pub async fn log_in(&self, key: &str) {
        self.write("[name=key]", key).await;
        self.click("main form button").await;
    }

    /// Opens a page of the console, or a whole URL.
    pub async fn go(&self, path: &str) {
        let url = match path.starts_with('/') {
            true => format!("{}{path}", self.base),
            false => path.to_owned(),
        };
        self.driver.post("/url", json!({"url": url})).await;
    }

    /// Opens the previous page of the history.
    pub async fn back(&self) {
        self.driver.post("/back", json!({})).await;
    }

    pub async fn reload(&self) {
        self.driver.post("/refresh", json!({})).await;
    }

    /// Path and query of the open page, or the whole URL of a page elsewhere.
    pub async fn path(&self) -> String {
        let url = text_of(self.driver.get("/url").await);
        let path = url.strip_prefix(&self.base).map(str::to_owned);
        path.unwrap_or(url)
    }

    /// Clicks on the first element of a CSS selector.
    pub async fn click(&self, selector: &str) {
        self.act(selector, "click", json!({})).await;
    }

    /// Replaces what is in a field.
    pub async fn write(&self, selector: &str, text: &str) {
        self.act(selector, "clear", json!({})).await;
        self.act(selector, "value", json!({"text": text})).await;
    }

    /// Acts on an element, and again where the page was just replaced by another one that has it too.
    async fn act(&self, selector: &str, action: &str, body: Value) {
        within(PATIENT, selector, || async {
            let path = format!("{}/{action}", self.element(selector).await);
            match self.driver.attempt(Method::POST, &path, &body).await {
                Err(error) if !error.contains("stale element") => panic!("{path}: {error}"),
                acted => acted,
            }
        })
        .await;
    }

    /// Text of the first element of a CSS selector, as it is shown.
    pub async fn text(&self, selector: &str) -> String {
        let element = self.element(selector).await;
        text_of(self.driver.get(&format!("{element}/text")).await)
    }

    pub async fn attribute(&self, selector: &str, name: &str) -> String {
        let element = self.element(selector).await;
        text_of(
            self.driver
                .get(&format!("{element}/attribute/{name}"))
                .await,
        )
    }

    /// How many elements a CSS selector has.
    pub async fn count(&self, selector: &str) -> usize {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.driver.post("/elements", wanted).await;
        found.as_array().expect("a list").len()
    }

    /// The path of the first element of a CSS selector, which may still be on its way.
    async fn element(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = within(PATIENT, selector, || async {
            let found = self.driver.attempt(Method::POST, "/element", &wanted).await;
            let Ok(Value::Object(found)) = found else {
                return Err(self.open_page().await);
            };
            let id = found.values().next().and_then(Value::as_str);
            Ok(format!("/element/{}", id.expect("an id")))
        });
        found.await
    }

    /// Waits until the elements of a CSS selector show a text.
    pub async fn see(&self, selector: &str, text: &str) {
        let texts = format!(
            "return [...document.querySelectorAll({selector:?})].map(found => found.innerText).join('\\n')"
        );
        within(PATIENT, text, || async {
            match text_of(self.run(&texts).await).contains(text) {
                true => Ok(()),
                false => Err(self.open_page().await),
            }
        })
        .await;
    }

    /// URL and text of the open page, for messages.
    async fn open_page(&self) -> String {
        let text = "return location.href + '\\n' + document.body.innerText";
        text_of(self.run(text).await)
    }

    /// Waits until the open page has this path, with its query.
    pub async fn arrive(&self, path: &str) {
        within(PATIENT, path, || async {
            let open = self.path().await;
            (open == path).then_some(()).ok_or(open)
        })
        .await;
    }

    /// The paths, with their queries, of the links to the console.
    pub async fn links(&self) -> Vec<String> {
        let links = "return [...document.links].map(link => link.href.replace(/#.*/, ''))";
        let links = self.run(links).await;
        let links = links.as_array().expect("a list").iter();
        let path = |link: &Value| Some(link.as_str()?.strip_prefix(&self.base)?.to_owned());
        links.filter_map(path).collect()
    }

    /// The value that a script returns.
    pub async fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.driver.post("/execute/sync", body).await
    }

    pub async fn prefer(&self, scheme: Scheme) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme.word()});
        let features = json!({"features": [feature]});
        self.driver
            .devtools("Emulation.setEmulatedMedia", features)
            .await;
    }

    /// Gives the window this width; a window of the system has at least 500 pixels.
    pub async fn resize(&self, width: u32) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        let command = "Emulation.setDeviceMetricsOverride";
        self.driver.devtools(command, metrics).await;
    }

    /// Pages run no script from now on.
    pub async fn disable_script(&self) {
        let command = "Emulation.setScriptExecutionDisabled";
        self.driver.devtools(command, json!({"value": true})).await;
    }

    /// Sets the time zone, such as `Asia/Tokyo`, and the language.
    pub async fn locate(&self, zone: &str, language: &str) {
        let zone = json!({"timezoneId": zone});
        self.driver
            .devtools("Emulation.setTimezoneOverride", zone)
            .await;
        let language = json!({"locale": language});
        self.driver
            .devtools("Emulation.setLocaleOverride", language)
            .await;
    }

    pub async fn forget_cookies(&self) {
        let cookies = self.driver.attempt(Method::DELETE, "/cookie", &Value::Null);
        cookies.await.expect("they are deleted");
    }

    /// The handle of the window that is in use.
    pub async fn window(&self) -> String {
        text_of(self.driver.get("/window").await)
    }

    /// Opens a second window, and uses that; its handle.
    pub async fn open_window(&self) -> String {
        let opened = self
            .driver
            .post("/window/new", json!({"type": "tab"}))
            .await;
        let handle = opened["handle"].as_str().expect("a handle").to_owned();
        self.switch(&handle).await;
        handle
    }

    /// Uses another window.
    pub async fn switch(&self, handle: &str) {
        self.driver.post("/window", json!({"handle": handle})).await;
    }

    /// The window as a PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let picture = self.driver.get("/screenshot").await;
        let body = json!({"script": SHRINK, "args": [picture]});
        let picture = text_of(self.driver.post("/execute/async", body).await);
        BASE64_STANDARD.decode(&picture).expect(&picture)
    }

    /// Errors since the last call, and what the content security policy forbade.
    pub async fn errors(&self) -> Vec<String> {
        let log = self
            .driver
            .post("/se/log", json!({"type": "browser"}))
            .await;
        let entries = log.as_array().expect("a list").iter();
        let wrong = entries.filter(|entry| {
            let message = entry["message"].as_str().unwrap_or_default();
            entry["level"] == "SEVERE" || message.contains("Content Security Policy")
        });
        wrong.map(|entry| entry["message"].to_string()).collect()
    }

    /// Violations of the rules of accessibility on the open page.
    pub async fn violations(&self) -> Vec<String> {
        if self.run("return typeof axe").await == "undefined" {
            self.run(AXE).await;
        }
        let body = json!({"script": VIOLATIONS, "args": []});
        let found = self.driver.post("/execute/async", body).await;
        let lines = found.as_array().expect("a list").iter();
        lines.map(|line| line.to_string()).collect()
    }

    /// By how much the page is wider than the window, and what is; empty if it is not.
    pub async fn overhang(&self) -> String {
        text_of(self.run(OVERHANG).await)
    }
}

fn text_of(value: Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
