//! Policies of a test service, and what is asked of the admin plane about them.

use reqwest::Method;
use serde_json::{Value, json};

use super::app::{ADMIN_KEY, Said, TestApp};
use super::scene::with;

pub const POLICIES: &str = "/v1/admin/policies";

/// The body of a create for a tenant, under the admin key.
pub fn policy_body(tenant: &str, name: &str, pattern: &str, more: Value) -> Value {
    let body = json!({"tenant_id": tenant, "name": name, "scope_pattern": pattern});
    with(body, more)
}

impl TestApp {
    /// Asks the admin plane under the admin key.
    pub async fn as_admin(&self, method: Method, path: &str, body: &Value) -> Said {
        self.ask_admin(method, path, body, &[("X-Admin-API-Key", ADMIN_KEY)])
            .await
    }

    /// Asks the admin plane under an API key.
    pub async fn by_key(&self, key: &str, method: Method, path: &str, body: &Value) -> Said {
        self.ask_admin(method, path, body, &[(self.names.key, key)])
            .await
    }

    /// Asks the admin plane with headers of the test's choice.
    pub async fn ask_admin(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Said {
        let mut request = self.request(method.clone(), path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method != Method::GET {
            request = request.json(body);
        }
        self.send(request).await
    }

    /// Makes a policy of the first tenant and answers its id.
    pub async fn policy(&self, name: &str, pattern: &str, more: Value) -> String {
        let body = policy_body("acme", name, pattern, more);
        let said = self.as_admin(Method::POST, POLICIES, &body).await;
        assert_eq!(said.status, 201, "{said:?}");
        said.text("/policy_id").to_owned()
    }

    /// Changes a policy.
    pub async fn amend(&self, policy_id: &str, changes: Value) {
        let path = format!("{POLICIES}/{policy_id}");
        let said = self.as_admin(Method::PATCH, &path, &changes).await;
        assert_eq!(said.status, 200, "{said:?}");
    }
}
