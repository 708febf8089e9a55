//! `create_webhook.lua`, `read_webhook.lua`, `update_webhook.lua`, `delete_webhook.lua` and `webhook_test.lua`; and
//! `put_webhook_security.lua`, the rules for addresses of receivers, of the whole deployment.

use crate::domain::caller::{Caller, ScriptCaller};
use crate::domain::ids::Partition;
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::reply::{FromReply, Reply};
use crate::driver::script::Counted;
use crate::store::admin::Change;
use crate::store::admin::thresholds::WatchedThresholds;
use crate::store::records::command;
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store, StoreError};

signature! {
    /// Records a subscription of a tenant or of the operator.
    ///
    /// mode: tenant, system, or check, which decides everything that could refuse it, for a request that is refused otherwise.
    /// watched: a version and a union of thresholds, empty unless every partition must copy them.
    CREATE_WEBHOOK: CreateWebhook -> CreateWebhookReply = "admin/webhooks/create_webhook";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of owner {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), webhooks(owner), webhooks_mark(owner), watch(owner),
            thresholds(), counts();
    }
    args {
        day,
        key_hash of caller,
        owner: &'a Owner,
        subscription_id: &'a SubscriptionId,
        mode: &'a str,
        scope_filter: Option<&'a str>,
        /// The thresholds and limits that it watches, blanks between.
        watched: &'a str,
        /// Subscriptions that the owner may have.
        webhooks_max: u32,
        /// Different thresholds that they may watch.
        thresholds_max: u32,
        fields: Counted<&'a [Pair]>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, tenant_not_found, too_many, taken: Taken, checked: Checked, created: Created { watched: Option<WatchedThresholds>, record: FlatRecord },
    }
    writes "On created: the counts, the subscription, the owner's list, what it watches, the event, the audit entry. Otherwise \
nothing."
}

signature! {
    /// Reads a subscription with its secrets, for what the replica must do before it can change or use it; and whether its owner
    /// can change it.
    ///
    /// owner_state: open, tenant_closed, tenant_suspended or tenant_unreadable.
    READ_WEBHOOK: ReadWebhook -> ReadWebhookReply = "admin/webhooks/read_webhook", flags "no-writes,allow-oom";
    names {
        partition: Partition, caller: ScriptCaller<'a>, key_id of caller, subscription_id: &'a SubscriptionId, idempotency_scope: &'a str, digest: Option<&'a str>,
    }
    keys of partition {
        read api_key(key_id), webhook(subscription_id), idempotency(idempotency_scope, digest) when digest;
    }
    builds { read tenant() }
    args {
        key_hash of caller,
        /// Of the API key.
        tenant of caller,
        permission: &'a str,
        /// The scope filter that the subscription is to have, after =; '' where it keeps its own.
        subscribes: Option<&'a str>,
        payload_hash: Option<&'a str>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, idempotency_mismatch, replayed: Replayed { outcome: Vec<String> }, webhook_not_found,
        found: Found { now_ms: i64, owner_state: OwnerState, record: FlatRecord },
    }
    writes "Nothing."
}

signature! {
    /// Writes what was computed from a subscription as it was read; nothing if it is another by now.
    ///
    /// watched: a version and a union of thresholds, empty unless every partition must copy them.
    UPDATE_WEBHOOK: UpdateWebhook -> UpdateWebhookReply = "admin/webhooks/update_webhook";
    names { caller: ScriptCaller<'a>, key_id of caller, idempotency_scope: &'a str, change: &'a Change<'a>, digest of change }
    keys of partition of owner {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), webhooks(owner), webhooks_mark(owner), watch(owner), thresholds(), event_log: events(owner, day),
            outbox(), days(), audit_log: audit(owner, day), chain(owner), unsealed(), counts(), failing(), lanes(), short_lived(owner),
            idempotency(idempotency_scope, digest) when digest;
    }
    args {
        day,
        key_hash of caller,
        owner: &'a Owner,
        subscription_id: &'a SubscriptionId,
        /// The value that was read before.
        version: i64,
        /// The value that was read before.
        status: &'a str,
        /// That it is to have.
        scope_filter: Option<&'a str>,
        /// The thresholds and limits that it watches, blanks between.
        watched: &'a str,
        /// Different thresholds that the owner's subscriptions may watch.
        thresholds_max: u32,
        payload_hash of change,
        context of change,
        /// '' for no event.
        event_type: Option<&'a str>,
        /// Blanks between.
        changed_fields: &'a str,
        /// Fields to be removed, blanks between.
        dropped: &'a str,
        /// Names and values to be written.
        fields: Counted<&'a [Pair]>,
        audit of change,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, webhook_not_found, tenant_unreadable,
        tenant_closed, tenant_suspended, too_many, stale: Stale, updated: Updated { watched: Option<WatchedThresholds>, record: FlatRecord },
    }
    writes "On updated: the counts, the subscription, its place among the failing, what it watches, the event if it has one, the \
audit entry. Otherwise nothing."
}

signature! {
    /// Removes a subscription with its secrets. Its queued deliveries fail when they are picked up.
    ///
    /// watched: a version and a union of thresholds, empty unless every partition must copy them.
    DELETE_WEBHOOK: DeleteWebhook -> DeleteWebhookReply = "admin/webhooks/delete_webhook", flags "allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller, idempotency_scope: &'a str, change: &'a Change<'a>, digest of change }
    keys of partition of owner {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), webhooks(owner), webhooks_mark(owner), watch(owner), thresholds(),
            event_log: events(owner, day), outbox(), days(), audit_log: audit(owner, day), chain(owner), unsealed(), counts(),
            failing(), lanes(), short_lived(owner), idempotency(idempotency_scope, digest) when digest;
    }
    args {
        day,
        key_hash of caller,
        owner: &'a Owner,
        subscription_id: &'a SubscriptionId,
        payload_hash of change,
        context of change,
        /// Names and values of the audit entry, except the address.
        audit of change,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, webhook_not_found, tenant_unreadable,
        tenant_closed, tenant_suspended, deleted: Deleted { watched: Option<WatchedThresholds> },
    }
    writes "On deleted: the counts; the subscription and its entries go; the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Counts a test delivery against the limits of its subscription and of its owner, in UTC minutes.
    WEBHOOK_TEST: WebhookTest -> WebhookTestReply = "admin/webhooks/webhook_test";
    names { subscription_id: &'a SubscriptionId, owner: &'a Owner }
    keys of partition of owner { write webhook_tests(subscription_id), owner_tests(owner); }
    args {
        /// Of the subscription, in a minute.
        most: u32,
        /// Of the owner, in a minute.
        owner_most: u32,
    }
    replies { limited, owner_limited, counted: Counted }
    writes "On counted: the counts."
}

signature! {
    /// Replaces the rules for addresses of webhook receivers.
    PUT_WEBHOOK_SECURITY: PutWebhookSecurity -> PutWebhookSecurityReply = "admin/webhooks/put_webhook_security";
    names { partition: Partition }
    keys of partition {
        write webhook_security(), audit_log: audit(sentinel, day), chain(sentinel), unsealed(), days();
    }
    args {
        day,
        /// The name of the audit log.
        sentinel: &'a str,
        /// JSON.
        blocked_cidr_ranges: &'a str,
        /// JSON.
        allowed_url_patterns: &'a str,
        allow_http: bool,
        audit: &'a [Pair],
    }
    replies { clock, stored: Stored }
    writes "On stored: the rules, the audit entry."
}

/// Why the owner of a subscription cannot change it; `None` if they can.
#[derive(Debug, Clone)]
pub(crate) struct OwnerState(pub Option<Refused>);

/// `open`, or the word of the refusal.
impl FromReply for OwnerState {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.read::<String>()?;
        if word == "open" {
            return Ok(Self(None));
        }
        let refused = Refused::read(&word, reply)?;
        refused.map_or_else(|| Err(reply.unknown(&word)), |why| Ok(Self(Some(why))))
    }
}

/// The name under which the outcome of a request about one subscription is stored. For the admin key it is not the owner's,
/// because the owner of a removed subscription is unknown.
pub(crate) fn idempotency_scope<'a>(
    caller: &'a Caller,
    subscription_id: &'a SubscriptionId,
) -> &'a str {
    match caller {
        Caller::Tenant(caller) => caller.tenant.as_str(),
        Caller::Admin(_) => subscription_id.as_str(),
    }
}

impl Store {
    /// The rules as they are stored: JSON arrays of networks and of patterns, and whether `http` is allowed. `None` where none
    /// were ever stored.
    pub async fn webhook_security(&self) -> Result<Option<(String, String, bool)>, StoreError> {
        let key = self.keys().webhook_security(Partition::FIRST);
        let names = ("blocked_cidr_ranges", "allowed_url_patterns", "allow_http");
        let (ranges, patterns, allow_http): (Option<String>, Option<String>, Option<String>) =
            self.read(command("HMGET", key, names)).await?;
        let stored = || Some((ranges?, patterns?, allow_http? == "1"));
        Ok(stored())
    }
}
