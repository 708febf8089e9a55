//! Webhooks of the public protocol end to end, in its names, from a stack as users start it.

use std::fs;

use budget_authority::domain::webhook::sign;
use reqwest::Method;
use serde_json::{Value, json};

use super::dev_stack::{Stack, WorkFolder};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::{eventually, http};

struct Script {
    stack: Stack,
    admin_key: String,
}

impl Script {
    async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.stack.url);
        let request = http::client().request(method, url).json(body);
        let request = request.header("X-Admin-API-Key", &self.admin_key);
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }
}

#[tokio::test]
async fn a_funding_event_reaches_a_local_receiver() {
    let folder = WorkFolder::new();
    let stack = Stack::start(&folder, &["--dialect", "cycles"]).await;
    let admin_key = fs::read_to_string(folder.path("home/.data/admin-key")).expect("a key");
    let script = Script { stack, admin_key };
    let receiver = Receiver::start_everywhere(Reply::Status(200, "")).await;

    let rules = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let (status, _) = script
        .call(Method::PUT, "/v1/admin/config/webhook-security", &rules)
        .await;
    assert_eq!(status, 200);
    let url = format!("http://127.0.0.1:{}/hook", receiver.address.port());
    let hook = json!({"url": url, "event_types": ["budget.funded"]});
    let (status, made) = script
        .call(Method::POST, "/v1/admin/webhooks?tenant_id=demo", &hook)
        .await;
    assert_eq!(status, 201, "{made}");
    let secret = made["signing_secret"].as_str().expect("a secret");
    let id = made["subscription"]["subscription_id"]
        .as_str()
        .expect("an id");

    let fund = "/v1/admin/budgets/fund?tenant_id=demo&scope=tenant:demo&unit=TOKENS";
    let credit = json!({"operation": "CREDIT", "amount": {"unit": "TOKENS", "amount": 5}});
    let (status, funded) = script.call(Method::POST, fund, &credit).await;
    assert_eq!(status, 200, "{funded}");

    let arrived = eventually("the event arrives", || async { receiver.arrived().pop() }).await;
    let signature = arrived.header("x-cycles-signature").expect("a signature");
    assert_eq!(signature, sign(secret, &arrived.body));
    let event: Value = serde_json::from_slice(&arrived.body).expect("JSON");
    assert_eq!(event["event_type"], "budget.funded");
    assert_eq!(event["tenant_id"], "demo");
    assert_eq!(
        arrived.header("x-cycles-event-id"),
        event["event_id"].as_str()
    );

    let deliveries = format!("/v1/admin/webhooks/{id}/deliveries");
    let delivered = eventually("the delivery is listed", || async {
        let (_, page) = script.call(Method::GET, &deliveries, &Value::Null).await;
        let row = page["deliveries"][0].clone();
        (row["status"] == "SUCCESS").then_some(row)
    });
    let delivered = delivered.await;
    assert_eq!(delivered["event_id"], event["event_id"]);
    assert_eq!(delivered["response_status"], 200);
}
