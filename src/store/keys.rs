//! Every key of the store, one function each. The partition in braces is the hash tag, so all keys of a tenant share a
//! cluster slot; `{dir}` holds what belongs to no partition, `{all}` the views over all tenants.

use crate::domain::ids::Partition;
use crate::driver::clock::Day;
use crate::driver::slot;

/// Builds keys under one prefix, so that a Redis can hold several deployments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

/// Why a key prefix is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key prefix has 1 to 64 characters of A-Z a-z 0-9 . _ - :")]
pub struct PrefixError;

/// What a key is made of besides its pattern.
trait Part {
    fn push_to(&self, key: &mut String);
}

impl Part for &str {
    fn push_to(&self, key: &mut String) {
        key.push_str(self);
    }
}

impl Part for Day {
    fn push_to(&self, key: &mut String) {
        key.push_str(&self.to_string());
    }
}

impl Part for Partition {
    fn push_to(&self, key: &mut String) {
        let number = u32::from(self.index());
        for shift in [8, 4, 0] {
            key.push(char::from_digit(number >> shift & 15, 16).unwrap_or('0'));
        }
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) = $pattern:literal;)*) => {
        impl Keys {
            $(
                $(#[$doc])*
                pub fn $name(&self, partition: Partition $(, $arg: $type)*) -> String {
                    self.key(partition, $pattern, &[$(&$arg),*])
                }
            )*
        }
    };
}

keys! {
    /// Hash: a tenant's status, limits and defaults.
    tenant(tenant: &str) = "tenant:{}";
    /// Hash: an API key's digest, tenant, status and permissions.
    api_key(key_id: &str) = "apikey:{}";
    /// Sorted set: a tenant's API keys by creation time in milliseconds.
    api_keys(tenant: &str) = "apikeys:{}";
    /// Sorted set: `<tenant>:<key_id>` of keys whose expiry is not told yet, by that time in milliseconds.
    expiring() = "expiring";
    /// Hash: one policy.
    policy(policy_id: &str) = "policy:{}";
    /// What the keys of policies start with; the id follows.
    policy_prefix() = "policy:";
    /// Sorted set, lexical: a tenant's policies.
    policies(tenant: &str) = "policies:{}";
    /// Hash: a tenant's policies by name.
    policy_names(tenant: &str) = "policy_names:{}";
    /// Hash with a TTL: what a tenant's scopes have done in the present minute under policies with rate limits.
    rates(tenant: &str) = "rates:{}";
    /// Hash: one ledger.
    budget(tenant: &str, unit: &str, scope: &str) = "budget:{}:{}:{}";
    /// What the keys of a tenant's ledgers start with; unit, `:` and scope follow.
    budget_prefix(tenant: &str) = "budget:{}:";
    /// Sorted set, lexical: a tenant's ledgers, members `<scope> <unit index> <UNIT>`.
    budgets(tenant: &str) = "budgets:{}";
    /// Hash: one reservation with its idempotency entries.
    reservation(reservation_id: &str) = "rsv:{}";
    /// Sorted set: a day's reservations of a tenant by creation time in milliseconds.
    reservations(tenant: &str, day: Day) = "rsvs:{}:{}";
    /// Hash: the record of an event that was booked without a reservation.
    post(event_id: &str) = "post:{}";
    /// Sorted set: a day's such events of a tenant by time in milliseconds.
    posts(tenant: &str, day: Day) = "posts:{}:{}";
    /// Hash with a TTL: a decision, kept for its idempotency key.
    decision(decision_id: &str) = "decision:{}";
    /// Sorted set: a tenant's active reservations by the time from which they expire, in milliseconds.
    due(tenant: &str) = "due:{}";
    /// Sorted set: the partition's tenants by their earliest due time.
    due_tenants() = "due";
    /// Sorted set: `<tenant>:<day>` by the time at which retention looks at that day's keys next.
    days() = "days";
    /// Sorted set: reservations that could not be expired, by the time when that was found.
    quarantine() = "quarantine";
    /// Stream: a day's events of a tenant, as facts.
    events(tenant: &str, day: Day) = "events:{}:{}";
    /// What the keys of event logs start with; tenant, `:` and day follow.
    event_log_prefix() = "events:";
    /// Stream: pointers to what the dispatcher must act on.
    outbox() = "outbox";
    /// Hash: the denials of a tenant in the present minute.
    denials(tenant: &str) = "denials:{}";
    /// Sorted set: tenants with denials to sum up, by the end of the minute.
    denials_due() = "denials";
    /// Hash: the failures of an API key, named as in [`Keys::auth_failures_due`], since the last event that told of them.
    auth_failures(member: &str) = "authfail:{}";
    /// Sorted set: `<tenant>:<key_id>` with failures to sum up, by the end of the minute.
    auth_failures_due() = "authfail";
    /// Hash: the refused admin requests of unknown callers in the present minute.
    audit_failures(sentinel: &str) = "auditfail:{}";
    /// Sorted set: sentinels with such requests to sum up, by the end of the minute.
    audit_failures_due() = "auditfail";
    /// Stream: a day's audit entries of a tenant.
    audit(tenant: &str, day: Day) = "audit:{}:{}";
    /// Hash: how far a tenant's audit chain goes, how far it is sealed, and where it begins.
    chain(tenant: &str) = "chain:{}";
    /// Hash: the seals of a day's audit entries by their numbers, and the hash of the last of them.
    seals(tenant: &str, day: Day) = "seals:{}:{}";
    /// Set: tenants, and names that stand for none, whose audit chain has entries without a seal.
    unsealed() = "unsealed";
    /// Hash with a TTL: the stored outcome of an admin request, by the hash of its idempotency key.
    idempotency(tenant: &str, key_hash: &str) = "idem:{}:{}";
    /// Hash: the intent of a tenant's close, until all that it owns has ended.
    closing(tenant: &str) = "closing:{}";
    /// Sorted set: tenants that are being closed, by when others than the request go on with it.
    closings() = "closings";
    /// Hash: the claim of a bulk action, by the hash of its idempotency key; with a TTL once it is done.
    bulk(tenant: &str, key_hash: &str) = "bulk:{}:{}";
    /// Sorted set: `<tenant>:<hash>` of bulk actions that are not done, by when others go on with it.
    bulks() = "bulks";
    /// Hash with a TTL: what became of the partition's rows of a bulk action.
    bulk_rows(claim_id: &str) = "bulkrow:{}";
    /// Hash: one webhook subscription, its secrets sealed.
    webhook(subscription_id: &str) = "webhook:{}";
    /// Sorted set, lexical: an owner's subscriptions.
    webhooks(owner: &str) = "webhooks:{}";
    /// Hash: how many of the partition's tenants, ledgers and subscriptions have which status.
    counts() = "counts";
    /// Sorted set: the partition's ledgers that owe something or are over their limit, see `lua/lib/strained.lua`.
    strained() = "strained";
    /// Sorted set: the partition's subscriptions whose deliveries fail, by how many in a row.
    failing() = "failing";
    /// Hash: the utilization thresholds that an owner's active subscriptions watch, by subscription.
    watch(owner: &str) = "watch:{}";
    /// Hash: the thresholds that the operator's subscriptions watch, copied to each partition; in the first, their source.
    thresholds() = "thresholds";
    /// Hash with a TTL: tests of a subscription in the present minute.
    webhook_tests(subscription_id: &str) = "webhooktests:{}";
    /// Hash: one delivery.
    delivery(delivery_id: &str) = "delivery:{}";
    /// Sorted set: a subscription's deliveries by the time at which they were queued, in milliseconds.
    deliveries(subscription_id: &str) = "deliveries:{}";
    /// String with a TTL: who chooses events for a replay of a subscription.
    replay_lock(subscription_id: &str) = "replaylock:{}";
    /// Hash with a TTL: a replay that waits to be delivered.
    replay(replay_id: &str) = "replay:{}";
    /// List with a TTL: the ids of its events, in order.
    replay_events(replay_id: &str) = "replayevents:{}";
    /// Sorted set: replays that wait, by the time at which they were queued, in milliseconds.
    replays() = "replays";
    /// Hash, in the first partition: the rules for addresses of receivers.
    webhook_security() = "webhooksecurity";
    /// Hash: which dispatcher works on the partition.
    lease() = "lease";
    /// Sorted set, lexical: the partition's tenants.
    tenants() = "tenants";
    /// Hash: the partition's tenants by the digest that ids of their events have.
    tenant_ids() = "tenantids";
}

impl Keys {
    /// Keys that start with `prefix`.
    ///
    /// # Errors
    /// [`PrefixError`]; braces above all would move the hash tag.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        if (1..=64).contains(&prefix.len()) && prefix.chars().all(allowed) {
            let prefix = prefix.to_owned();
            Ok(Self { prefix })
        } else {
            Err(PrefixError)
        }
    }

    /// Puts the parts where the pattern has `{}`. A request needs some fifteen keys, so this costs no formatting.
    fn key(&self, partition: Partition, pattern: &str, parts: &[&dyn Part]) -> String {
        let mut key = String::with_capacity(96);
        key.push_str(&self.prefix);
        key.push_str(":{");
        partition.push_to(&mut key);
        key.push_str("}:");
        let mut parts = parts.iter();
        for (index, text) in pattern.split("{}").enumerate() {
            if index > 0
                && let Some(part) = parts.next()
            {
                part.push_to(&mut key);
            }
            key.push_str(text);
        }
        key
    }

    /// What every key starts with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The cluster slot, 0 to 16383, in which all keys of a partition lie.
    pub fn slot(partition: Partition) -> u16 {
        slot::of(format!("{{{partition}}}").as_bytes())
    }

    /// Hash: layout, partitions, secret and dialect of the deployment.
    pub fn meta(&self) -> String {
        format!("{}:meta", self.prefix)
    }

    /// Sorted set: the dispatchers by the time until which each counts as alive, in milliseconds.
    pub fn dispatchers(&self) -> String {
        format!("{}:{{dir}}:dispatchers", self.prefix)
    }

    /// Sorted set, lexical: all subscriptions; an entry may be ahead of its record, or behind it.
    pub fn webhook_directory(&self) -> String {
        format!("{}:{{dir}}:webhooks", self.prefix)
    }

    /// Hash: the last outbox entry of each partition that is in the view of events.
    pub fn view_cursors(&self) -> String {
        format!("{}:{{all}}:cursors", self.prefix)
    }

    /// Sorted set: a day's rows of a view by time in milliseconds; those of one kind, if `kind` names one.
    pub fn view(&self, view: &str, kind: Option<&str>, day: Day) -> String {
        match kind {
            None => format!("{}:{{all}}:{view}:{day}", self.prefix),
            Some(kind) => format!("{}:{{all}}:{view}:{kind}:{day}", self.prefix),
        }
    }

    /// Sorted set with a TTL: how many reservations were denied in a minute, by reason.
    pub fn denials_of_minute(&self, minute_ms: i64) -> String {
        let minute = minute_ms.rem_euclid(86_400_000) / 60_000;
        let (day, hour) = (Day::of_ms(minute_ms), minute / 60);
        format!(
            "{}:{{all}}:denials:{day}{hour:02}{:02}",
            self.prefix,
            minute % 60
        )
    }

    /// Sorted set, lexical: a day's rows of a view by the ids that they can be asked for by.
    pub fn view_ids(&self, view: &str, day: Day) -> String {
        let name = view.strip_suffix('s').unwrap_or(view);
        format!("{}:{{all}}:{name}ids:{day}", self.prefix)
    }

    /// Hash: up to when each partition is in a view.
    pub fn watermarks(&self, view: &str) -> String {
        format!("{}:{{all}}:watermarks:{view}", self.prefix)
    }

    /// Sorted set: all API keys by creation time in milliseconds; an entry may be ahead of its record.
    pub fn api_key_directory(&self) -> String {
        format!("{}:{{dir}}:apikeys", self.prefix)
    }

    /// Sorted set, lexical: the directory of all tenants.
    pub fn directory(&self) -> String {
        format!("{}:{{dir}}:tenants", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_carry_the_partition_as_hash_tag() {
        let keys = Keys::new("ba").expect("a prefix");
        let day = Day::of_ms(1_709_164_800_000);
        let p = Partition::parse("05f").expect("a partition");
        assert_eq!(keys.meta(), "ba:meta");
        assert_eq!(keys.directory(), "ba:{dir}:tenants");
        assert_eq!(
            keys.budget(p, "acme", "TOKENS", "tenant:acme"),
            "ba:{05f}:budget:acme:TOKENS:tenant:acme"
        );
        assert_eq!(
            keys.reservations(p, "acme", day),
            "ba:{05f}:rsvs:acme:20240229"
        );
        assert_eq!(keys.outbox(p), "ba:{05f}:outbox");
        assert_eq!(keys.idempotency(p, "acme", "abc"), "ba:{05f}:idem:acme:abc");
        assert_eq!(
            keys.view("events", Some("budget.reset"), day),
            "ba:{all}:events:budget.reset:20240229"
        );
        let minute = keys.denials_of_minute(day.start_ms() + 83_045_678);
        assert_eq!(minute, "ba:{all}:denials:202402292304");
        assert_eq!(keys.view("audit", None, day), "ba:{all}:audit:20240229");
        assert_eq!(keys.view_ids("events", day), "ba:{all}:eventids:20240229");
        assert_eq!(keys.view_ids("audit", day), "ba:{all}:auditids:20240229");
    }

    #[test]
    fn a_prefix_cannot_move_the_hash_tag() {
        assert!(Keys::new("team-a:prod_1.x").is_ok());
        for prefix in ["", "a{b", "a}", "a b", &"x".repeat(65)] {
            assert_eq!(Keys::new(prefix), Err(PrefixError), "{prefix}");
        }
    }
}
