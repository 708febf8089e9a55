//! Policies.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod order;
mod templates;

use reqwest::Method;
use serde_json::Value;

use crate::harness::admin_calls::POLICIES;
use crate::harness::app::TestApp;
use crate::harness::response::Response;

/// A create under an API key, or under the admin key.
async fn create(app: &TestApp, key: Option<&str>, body: &Value) -> Response {
    app.by_either(key, Method::POST, POLICIES, body).await
}

/// A change of a policy in the same way.
async fn patch(app: &TestApp, key: Option<&str>, id: &str, body: &Value) -> Response {
    let path = format!("{POLICIES}/{id}");
    app.by_either(key, Method::PATCH, &path, body).await
}
