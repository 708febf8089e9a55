//! A response, and the expectations of tests on it.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// A response: its status, headers and JSON body; null where there is no body.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Response {
    /// Reads a whole response.
    pub async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?;
        let body = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| panic!("a body that is no JSON: {bytes:?}")),
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// Panics unless the status is the expected one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Panics unless this is an error with the expected status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!(self.error(), (status, code), "{self:?}");
        self
    }

    /// A member of the body, by name or by JSON pointer; null when it is missing.
    pub fn at(&self, member: &str) -> &Value {
        let found = match member.starts_with('/') {
            true => self.body.pointer(member),
            false => self.body.get(member),
        };
        found.unwrap_or(&Value::Null)
    }

    /// A member that must be a text.
    #[track_caller]
    pub fn text(&self, member: &str) -> &str {
        let found = self.at(member).as_str();
        found.unwrap_or_else(|| panic!("no text {member} in {self:?}"))
    }

    /// The value of a member that is an amount, if there is one.
    pub fn amount(&self, member: &str) -> Option<i64> {
        self.at(member)["amount"].as_i64()
    }

    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The status and the code of an error; `none` where there is no code.
    pub fn error(&self) -> (u16, &str) {
        (self.status, self.at("error").as_str().unwrap_or("none"))
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body without the member that differs in a replay.
    pub fn lasting(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(members) = body.as_object_mut() {
            members.remove("remaining_ttl_ms");
        }
        body
    }
}
