//! Requests to a test service with any method, headers and body, and under the admin key.

use std::borrow::Borrow;

use reqwest::Method;
use serde_json::{Value, json};

use super::app::{ADMIN_KEY, TestApp};
use super::response::Response;
use super::runtime_calls::with;

pub const POLICIES: &str = "/v1/admin/policies";

/// The body of a create for a tenant, under the admin key.
pub fn policy_body(tenant: &str, name: &str, pattern: &str, more: Value) -> Value {
    let body = json!({"tenant_id": tenant, "name": name, "scope_pattern": pattern});
    with(body, more)
}

impl TestApp {
    /// Sends a request with these headers. Null is no body, except of a `POST`; a `GET` has none.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response {
        let mut request = self.request(method.clone(), path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method == Method::POST || method != Method::GET && !body.is_null() {
            request = request.json(body);
        }
        self.send(request).await
    }

    /// Sends a request under the admin key.
    pub async fn as_admin(&self, method: Method, path: &str, body: &Value) -> Response {
        let headers = [("X-Admin-API-Key", ADMIN_KEY)];
        self.call(method, path, &headers, body).await
    }

    /// Sends a request under an API key.
    pub async fn by_key(&self, key: &str, method: Method, path: &str, body: &Value) -> Response {
        self.call(method, path, &[(self.names.key, key)], body)
            .await
    }

    /// Sends a request under an API key, or under the admin key where none is given.
    pub async fn by_either(
        &self,
        key: Option<&str>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Response {
        match key {
            Some(key) => self.by_key(key, method, path, body).await,
            None => self.as_admin(method, path, body).await,
        }
    }

    /// `POST` under the admin key.
    pub async fn post_as_admin(&self, path: &str, body: impl Borrow<Value>) -> Response {
        self.as_admin(Method::POST, path, body.borrow()).await
    }

    /// `PATCH` under the admin key.
    pub async fn patch_as_admin(&self, path: &str, body: impl Borrow<Value>) -> Response {
        self.as_admin(Method::PATCH, path, body.borrow()).await
    }

    /// `GET` under the admin key.
    pub async fn get_as_admin(&self, path: &str) -> Response {
        self.as_admin(Method::GET, path, &Value::Null).await
    }

    /// All rows of a list under the admin key, oldest first. The path ends with `?` or `&`; `name` is a JSON pointer.
    pub async fn all_as_admin(&self, path: &str, name: &str) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = format!("{path}limit=100{cursor}");
            let page = self.get_as_admin(&page).await.expect(200);
            rows.extend(page.at(name).as_array().expect("rows").clone());
            match page.at("/next_cursor").as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        rows.reverse();
        rows
    }

    /// Makes a policy of the first tenant and returns its id.
    pub async fn policy(&self, name: &str, pattern: &str, more: Value) -> String {
        let body = policy_body("acme", name, pattern, more);
        let response = self
            .as_admin(Method::POST, POLICIES, &body)
            .await
            .expect(201);
        response.text("/policy_id").to_owned()
    }

    /// Changes a policy.
    pub async fn amend(&self, policy_id: &str, changes: Value) {
        let path = format!("{POLICIES}/{policy_id}");
        self.as_admin(Method::PATCH, &path, &changes)
            .await
            .expect(200);
    }
}
