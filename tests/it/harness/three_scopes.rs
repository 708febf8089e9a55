//! A tenant of a service that runs already, with ledgers on three scopes that enclose each other.

use std::net::SocketAddr;
use std::ops::Deref;

use budget_authority::domain::amount::Unit;
use budget_authority::store::Store;
use serde_json::{Value, json};

use super::app::TestApp;
use super::ledger_audit::LedgerAudit;
use super::ledger_fixture::LedgerFixture;
use super::random_clients::action;
use super::response::Response;
use super::runtime_calls::tokens;

/// See the module documentation.
pub struct ThreeScopes {
    app: TestApp,
    pub name: String,
}

impl ThreeScopes {
    /// A new tenant without ledgers; whatever it sends goes to this address.
    pub async fn of_tenant(store: &Store, service: SocketAddr, name: &str) -> Self {
        let fixture = LedgerFixture::of_tenant(store.clone(), name).await;
        Self {
            app: TestApp::attach(fixture, service),
            name: name.to_owned(),
        }
    }

    /// The same tenant through another replica.
    pub fn via(&self, service: SocketAddr) -> Self {
        let fixture = self.app.with_store(self.store.clone());
        Self {
            app: TestApp::attach(fixture, service),
            name: self.name.clone(),
        }
    }

    /// `tenant:<name>`, `…/workspace:w`, `…/workspace:w/agent:a`.
    pub fn scopes(&self) -> [String; 3] {
        let root = format!("tenant:{}", self.name);
        let workspace = format!("{root}/workspace:w");
        let agent = format!("{workspace}/agent:a");
        [root, workspace, agent]
    }

    /// The subject of the `depth`th scope, the root being 1.
    pub fn subject(&self, depth: usize) -> Value {
        let levels = [
            ("tenant", self.name.as_str()),
            ("workspace", "w"),
            ("agent", "a"),
        ];
        let members = levels[..depth].iter();
        members
            .map(|(level, value)| ((*level).to_owned(), json!(value)))
            .collect()
    }

    /// Ledgers in TOKENS on the three scopes: `[allocated, overdraft limit]` of each.
    pub async fn ledgers(&self, figures: [[i64; 2]; 3]) {
        for (scope, [allocated, limit]) in self.scopes().into_iter().zip(figures) {
            self.app
                .seed(0, &scope, Unit::Tokens, allocated, limit)
                .await;
        }
    }

    /// `GET`; the status must be the expected one.
    pub async fn get(&self, path: &str, status: u16) -> Response {
        self.app.get(path).await.expect(status)
    }

    /// `POST`; the status must be the expected one.
    pub async fn post(&self, path: &str, body: &Value, status: u16) -> Response {
        self.app.post_as(0, path, body).await.expect(status)
    }

    /// The same twice: the second response is the first.
    pub async fn post_twice(&self, path: &str, body: &Value, status: u16) -> Response {
        let response = self.post(path, body, status).await;
        let again = self.post(path, body, status).await;
        assert_eq!(again.lasting(), response.lasting(), "{path} {body}");
        response
    }

    /// A refusal with this code.
    pub async fn refused(&self, path: &str, body: &Value, status: u16, code: &str) {
        self.app.post_as(0, path, body).await.refused(status, code);
    }

    /// A request about the agent: `amount` is named `estimate` or `actual`.
    pub fn request(&self, key: &str, member: &str, amount: i64) -> Value {
        json!({
            "idempotency_key": key, "subject": self.subject(3), "action": action(), member: tokens(amount),
        })
    }

    /// Reserves for the agent and returns the id.
    pub async fn reserve(&self, key: &str, amount: i64) -> String {
        let body = self.request(key, "estimate", amount);
        let response = self.post("/v1/reservations", &body, 200).await;
        response.text("reservation_id").to_owned()
    }

    /// `remaining reserved spent debt` of the three ledgers, as the API returns them.
    pub async fn figures(&self) -> [[i64; 4]; 3] {
        let path = format!("/v1/balances?tenant={}&include_children=true", self.name);
        let response = self.get(&path, 200).await;
        let rows = response.body["balances"].as_array().expect("balances");
        self.scopes().map(|scope| {
            let row = rows.iter().find(|row| row["scope_path"] == scope.as_str());
            let row = row.unwrap_or_else(|| panic!("no ledger {scope} in {response:?}"));
            ["remaining", "reserved", "spent", "debt"]
                .map(|name| row[name]["amount"].as_i64().unwrap_or(0))
        })
    }

    /// Checks that the ledgers are what their records say.
    pub async fn audit(&self) -> LedgerAudit {
        LedgerAudit::run(&self.app, 0).await
    }
}

impl Deref for ThreeScopes {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}
