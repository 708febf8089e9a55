//! Audit entries. The script of a change appends its entry; a refused request is recorded by a script of its own.
//!
//! An entry is names and values: `operation`, `status`, `resource_type`, `resource_id`, `key_id`, `source_ip`,
//! `request_id`, `trace_id`, `error_code`, and what the operation adds under `metadata.` (see [`crate::domain::log_fields`]). The
//! operation of a refused request is its method and path.

pub mod logs;

use tracing::warn;

use super::Admin;
use crate::domain::audit::FAILURES_PER_MINUTE;
use crate::domain::audit::entry::push_cause;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::printable::printable_up_to;
use crate::domain::tenant::{NO_TENANT, UNKNOWN_CALLER};
use crate::store::admin::Pairs;

/// The longest message that an entry keeps, in characters.
const MESSAGE_CHARS_MAX: usize = 1024;
/// The longest path that an entry keeps, in characters.
const PATH_CHARS_MAX: usize = 200;
/// The longest method that an entry keeps, in characters.
const METHOD_CHARS_MAX: usize = 16;

/// A request that was refused or failed.
#[derive(Debug)]
pub struct Failure<'a> {
    /// The caller and the request.
    pub cause: &'a Cause,
    /// The HTTP method.
    pub method: &'a str,
    /// The path as it was sent.
    pub path: &'a str,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The word of the error.
    pub code: &'a str,
    /// The sentence of the error.
    pub message: &'a str,
    /// The tenant that an operator was to act upon.
    pub tenant: Option<&'a TenantId>,
    /// The caller, as far as they say.
    pub caller: Option<&'a Caller>,
}

impl Admin {
    /// Writes the audit entry of a failure. An error here is only logged, because the response is decided.
    pub async fn audit_failure(&self, failure: &Failure<'_>) {
        // Refusals cost nothing, so those of all but operators are bounded. A key acts on its own tenant alone, whatever it names.
        let most = Some(FAILURES_PER_MINUTE);
        let (tenant, sentinel, per_minute) = match failure.known_caller() {
            None => (None, UNKNOWN_CALLER, most),
            Some(Caller::Tenant(caller)) => {
                // Nothing new is stored for one that takes too much.
                let too_large = self.store.stock_too_large(&caller.tenant);
                let most = too_large.map_or(most, |_| Some(0));
                (Some(&caller.tenant), NO_TENANT, most)
            }
            Some(Caller::Admin(_)) => (failure.tenant, NO_TENANT, None),
        };
        // All unknown callers are in one log, so that its bound is one.
        let partition = tenant.map_or(Partition::FIRST, TenantId::partition);
        let store = &self.store;
        let entry = failure.entry();
        let recorded = store.audit_failure(partition, tenant, sentinel, per_minute, &entry);
        if let Err(error) = recorded.await {
            let request_id = failure.cause.request_id.as_ref().map(|id| id.as_str());
            warn!(
                request.id = request_id,
                error = &error as &dyn std::error::Error,
                "a refused request could not be entered into the audit log: {error}"
            );
        }
    }
}

impl Failure<'_> {
    /// The caller, unless the key was refused.
    fn known_caller(&self) -> Option<&Caller> {
        self.caller.filter(|_| self.status != 401)
    }

    fn entry(&self) -> Pairs {
        let method = printable_up_to(self.method, METHOD_CHARS_MAX);
        // Twice, since an escape is longer than its character.
        let path = printable_up_to(self.path, PATH_CHARS_MAX);
        let path = printable_up_to(&path, PATH_CHARS_MAX);
        let mut entry = vec![
            ("operation", format!("{method}:{path}")),
            ("status", self.status.to_string()),
            ("error_code", self.code.to_owned()),
        ];
        push_cause(&mut entry, self.cause, self.known_caller().is_some());
        let message = printable_up_to(self.message, MESSAGE_CHARS_MAX - 1);
        entry.push(("metadata.error_message", message));
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::admin_key::AdminKeys;
    use crate::domain::cause::Actor;
    use crate::domain::ids::{RequestId, TraceId};

    #[test]
    fn a_failure_names_the_request_without_control_characters() {
        let cause = Cause {
            source: "service-admin",
            actor: Actor::Admin(None),
            source_ip: Some("192.0.2.7".into()),
            request_id: RequestId::parse("req_1"),
            trace_id: TraceId::mint(),
            trace_flags: None,
        };
        let keys = AdminKeys::parse("key").expect("a key");
        let operator = keys.accept("key").map(Caller::Admin);
        let failure = Failure {
            cause: &cause,
            method: "POST",
            path: "/v1/admin/tenants\n",
            status: 400,
            code: "INVALID_REQUEST",
            message: &format!("a\r\nb{}", "x".repeat(3000)),
            tenant: None,
            caller: operator.as_ref(),
        };
        let entry = failure.entry();
        let value = |name: &str| {
            entry
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v.as_str())
        };
        assert_eq!(value("operation"), Some("POST:/v1/admin/tenants\\u{a}"));
        assert_eq!(value("error_code"), Some("INVALID_REQUEST"));
        assert_eq!(value("source_ip"), Some("192.0.2.7"));
        let message = value("metadata.error_message").expect("a message");
        assert!(!message.contains(char::is_control));
        assert!(entry.iter().all(|(_, value)| !value.contains('\n')));
    }
}
