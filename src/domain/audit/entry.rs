//! The fields that entries share: operation, resource, status and cause.

use crate::domain::cause::{Actor, Cause};

/// Names and values of an entry.
pub type Fields = Vec<(&'static str, String)>;

/// The entry of an operation on a resource, kind and id, to which the operation adds its metadata. Without a status, the script
/// adds it. An operation that tenants have too records who acted.
pub fn entry(
    cause: &Cause,
    operation: &'static str,
    (kind, id): (&'static str, &str),
    status: Option<u16>,
) -> Fields {
    let mut entry = vec![
        ("operation", operation.to_owned()),
        ("resource_type", kind.to_owned()),
        ("resource_id", id.to_owned()),
    ];
    push_cause(&mut entry, cause, true);
    add(&mut entry, "status", status);
    let is_tenant_too = !matches!(cause.actor, Actor::Admin(_));
    let actor_type = is_tenant_too.then(|| cause.actor.as_str());
    add(&mut entry, "metadata.actor_type", actor_type);
    entry
}

/// Adds a member, if there is a value.
pub fn add(entry: &mut Fields, name: &'static str, value: Option<impl ToString>) {
    entry.extend(value.map(|value| (name, value.to_string())));
}

/// Adds who acted, and the request.
pub fn push_cause(entry: &mut Fields, cause: &Cause, with_key: bool) {
    let key_id = match &cause.actor {
        Actor::ApiKey(key_id) if with_key => Some(key_id),
        _ => None,
    };
    add(entry, "metadata.actor", cause.actor.name());
    add(entry, "key_id", key_id);
    add(entry, "source_ip", cause.source_ip.as_deref());
    add(entry, "request_id", cause.request_id.as_ref());
    add(entry, "trace_id", Some(&cause.trace_id));
}
