//! One tenant of a running service, to act as.

use std::net::SocketAddr;

use budget_authority::domain::amount::Unit;
use budget_authority::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use super::books::Books;
use super::client::{Answer, Client};
use super::customer::{action, tokens};
use super::world::{Start, World};

/// See the module documentation.
pub struct Stage {
    pub world: World,
    pub client: Client,
    pub name: String,
}

impl Stage {
    /// A new tenant, and a client of the service that must answer each request the first time.
    pub async fn set(store: &Store, service: SocketAddr, name: &str) -> Self {
        let world = World::of_tenant(store.clone(), name).await;
        let client = Client::patient(&[service], &world.keys[0]);
        Self {
            world,
            client,
            name: name.to_owned(),
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
            let start = Start {
                scope,
                unit: Unit::Tokens,
                allocated,
                limit,
            };
            self.world.seed(0, &start).await;
        }
    }

    /// Sends one request, whose status must be the one expected.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        status: u16,
    ) -> Answer {
        let answer = self.client.ask(method, path, body).await;
        let answer = answer.unwrap_or_else(|| panic!("no answer to {path} {body:?}"));
        assert_eq!(answer.status, status, "{path} {body:?}: {answer:?}");
        answer
    }

    pub async fn get(&self, path: &str, status: u16) -> Answer {
        self.send(Method::GET, path, None, status).await
    }

    pub async fn post(&self, path: &str, body: &Value, status: u16) -> Answer {
        self.send(Method::POST, path, Some(body), status).await
    }

    /// The same twice: the second answer is the first.
    pub async fn post_twice(&self, path: &str, body: &Value, status: u16) -> Answer {
        let answer = self.post(path, body, status).await;
        let again = self.post(path, body, status).await;
        assert_eq!(again.lasting(), answer.lasting(), "{path} {body}");
        answer
    }

    /// A refusal with this code.
    pub async fn refused(&self, path: &str, body: &Value, status: u16, code: &str) {
        let answer = self.post(path, body, status).await;
        assert_eq!(answer.text("error"), code, "{path} {body}: {answer:?}");
    }

    /// A request about the agent: `amount` is named `estimate` or `actual`.
    pub fn asked(&self, key: &str, member: &str, amount: i64) -> Value {
        json!({
            "idempotency_key": key, "subject": self.subject(3), "action": action(), member: tokens(amount),
        })
    }

    /// Reserves for the agent and answers the id.
    pub async fn reserve(&self, key: &str, amount: i64) -> String {
        let body = self.asked(key, "estimate", amount);
        let answer = self.post("/v1/reservations", &body, 200).await;
        answer.text("reservation_id").to_owned()
    }

    /// `remaining reserved spent debt` of the three ledgers, as the API tells them.
    pub async fn figures(&self) -> [[i64; 4]; 3] {
        let path = format!("/v1/balances?tenant={}&include_children=true", self.name);
        let answer = self.get(&path, 200).await;
        let rows = answer.body["balances"].as_array().expect("balances");
        self.scopes().map(|scope| {
            let row = rows.iter().find(|row| row["scope_path"] == scope.as_str());
            let row = row.unwrap_or_else(|| panic!("no ledger {scope} in {answer:?}"));
            ["remaining", "reserved", "spent", "debt"]
                .map(|name| row[name]["amount"].as_i64().unwrap_or(0))
        })
    }

    /// Checks that the ledgers are what their records say.
    pub async fn audit(&self) -> Books {
        Books::audited(&self.world, 0).await
    }
}
