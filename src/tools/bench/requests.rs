//! Builds the requests of the load. What never changes is written once; a request adds its key and its amount.

use std::io::Write;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use hyper::http::uri::InvalidUri;
use hyper::{Method, Request, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::args::Operation;
use super::target::Target;

/// The unit of every amount.
pub(super) const UNIT: &str = "TOKENS";

/// Long enough that no hold expires while it counts, and what a tenant is allowed by default.
pub(super) const TTL_MS: u32 = 3_600_000;

/// The levels below the tenant, root first, with the name that the load gives them.
const LEVELS: [(&str, &str); 5] = [
    ("workspace", "prod"),
    ("app", "chat"),
    ("workflow", "answer"),
    ("agent", "helper"),
    ("toolset", "search"),
];

/// The full paths of the budgeted scopes, root first.
pub(super) fn scope_paths(tenant: &str, scopes: u8) -> Vec<String> {
    let mut path = format!("tenant:{tenant}");
    let mut paths = vec![path.clone()];
    for (level, name) in levels(scopes) {
        path.push_str(&format!("/{level}:{name}"));
        paths.push(path.clone());
    }
    paths
}

fn levels(scopes: u8) -> impl Iterator<Item = (&'static str, &'static str)> {
    LEVELS
        .into_iter()
        .take(usize::from(scopes).saturating_sub(1))
}

/// The headers of every request under `key`.
pub(super) fn headers(
    target: &Target,
    key_header: &HeaderName,
    key: &SecretString,
) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert(HOST, HeaderValue::from_str(&target.authority)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut key = HeaderValue::from_str(key.expose_secret())?;
    key.set_sensitive(true);
    headers.insert(key_header.clone(), key);
    Ok(headers)
}

/// A request that can be sent again as it was.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    uri: Uri,
    body: Bytes,
}

/// Builds requests for one subject.
#[derive(Debug)]
pub(super) struct Requests {
    headers: HeaderMap,
    reservations: String,
    fixed: [Fixed; Operation::ALL.len()],
}

/// The part of a body between key and amount, and the address where that is fixed too.
#[derive(Debug)]
struct Fixed {
    uri: Option<Uri>,
    middle: String,
    end: &'static str,
}

impl Requests {
    /// Requests to `base` for a subject with that many scopes; `headers` carry the key.
    ///
    /// # Errors
    /// When the base is no path.
    pub fn new(
        base: &str,
        headers: HeaderMap,
        tenant: &str,
        scopes: u8,
    ) -> Result<Self, InvalidUri> {
        let mut subject = json!({"tenant": tenant});
        for (level, name) in levels(scopes) {
            subject[level] = name.into();
        }
        let action = json!({"kind": "llm.completion", "name": "bench:model"});
        let about = format!(r#"","subject":{subject},"action":{action}"#);
        let amount = |name| format!(r#","{name}":{{"unit":"{UNIT}","amount":"#);
        let fixed = |operation| {
            let (path, middle, end) = match operation {
                Operation::Reserve => {
                    let ttl = format!(r#","ttl_ms":{TTL_MS}"#);
                    let middle = about.clone() + &ttl + &amount("estimate");
                    (Some("/v1/reservations"), middle, "}}")
                }
                Operation::Decide => (
                    Some("/v1/decide"),
                    about.clone() + &amount("estimate"),
                    "}}",
                ),
                Operation::Event => (Some("/v1/events"), about.clone() + &amount("actual"), "}}"),
                Operation::Commit => (None, format!("\"{}", amount("actual")), "}}"),
                Operation::Release => (None, "\"}".to_owned(), ""),
            };
            let uri = path
                .map(|path| format!("{base}{path}").parse())
                .transpose()?;
            Ok::<_, InvalidUri>(Fixed { uri, middle, end })
        };
        let [reserve, commit, release, decide, event] = Operation::ALL.map(fixed);
        Ok(Self {
            headers,
            reservations: format!("{base}/v1/reservations"),
            fixed: [reserve?, commit?, release?, decide?, event?],
        })
    }

    /// One operation under `key`: `amount` is the estimate or the actual, a release has none. `reservation` is what a
    /// commit or release settles.
    ///
    /// `None` when the reservation's id does not fit a path.
    pub fn prepare(
        &self,
        operation: Operation,
        key: &str,
        amount: i64,
        reservation: &str,
    ) -> Option<Prepared> {
        let fixed = &self.fixed[operation as usize];
        let mut body = Vec::with_capacity(48 + key.len() + fixed.middle.len());
        body.extend_from_slice(br#"{"idempotency_key":""#);
        body.extend_from_slice(key.as_bytes());
        body.extend_from_slice(fixed.middle.as_bytes());
        if operation != Operation::Release {
            write!(body, "{amount}").ok()?;
        }
        body.extend_from_slice(fixed.end.as_bytes());
        let uri = match &fixed.uri {
            Some(uri) => uri.clone(),
            None => {
                let verb = operation.as_str();
                let path = format!("{}/{reservation}/{verb}", self.reservations);
                Uri::from_maybe_shared(Bytes::from(path)).ok()?
            }
        };
        Some(Prepared {
            uri,
            body: body.into(),
        })
    }

    /// The request to send, the first time or again.
    pub fn request(&self, prepared: &Prepared) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(prepared.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = prepared.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn sent(operation: Operation) -> (String, Value) {
        let requests = Requests::new("/base", HeaderMap::new(), "bench-1", 3).expect("a path");
        let prepared = requests
            .prepare(operation, "k.1", 42, "r05f_x")
            .expect("a path");
        let body = serde_json::from_slice(&prepared.body).expect("JSON");
        (requests.request(&prepared).uri().to_string(), body)
    }

    #[test]
    fn bodies_are_what_the_protocol_asks_for() {
        let subject = json!({"tenant": "bench-1", "workspace": "prod", "app": "chat"});
        let action = json!({"kind": "llm.completion", "name": "bench:model"});
        let amount = json!({"unit": "TOKENS", "amount": 42});
        let key = "k.1";
        let reserve = json!({"idempotency_key": key, "subject": subject, "action": action,
            "ttl_ms": 3_600_000, "estimate": amount});
        let decide = json!({"idempotency_key": key, "subject": subject, "action": action, "estimate": amount});
        let event =
            json!({"idempotency_key": key, "subject": subject, "action": action, "actual": amount});
        let commit = json!({"idempotency_key": key, "actual": amount});
        let release = json!({"idempotency_key": key});
        let at = |path: &str, body| (format!("/base/v1/{path}"), body);
        assert_eq!(sent(Operation::Reserve), at("reservations", reserve));
        assert_eq!(sent(Operation::Decide), at("decide", decide));
        assert_eq!(sent(Operation::Event), at("events", event));
        assert_eq!(
            sent(Operation::Commit),
            at("reservations/r05f_x/commit", commit)
        );
        assert_eq!(
            sent(Operation::Release),
            at("reservations/r05f_x/release", release)
        );
    }

    #[test]
    fn the_scopes_lie_on_one_path() {
        assert_eq!(scope_paths("t", 1), ["tenant:t"]);
        assert_eq!(
            scope_paths("t", 6)[5],
            "tenant:t/workspace:prod/app:chat/workflow:answer/agent:helper/toolset:search"
        );
    }
}
