//! `get.lua`, `list.lua`, `balances.lua`, `rows.lua` and `authenticate.lua`, which only read.

use crate::domain::api_key::secret::KeyId;
use crate::domain::caller::{RuntimeCaller, ScriptCaller};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::policy::PolicyId;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::records::{command, read_or_default};
use crate::store::signature::{Fields, signature};
use crate::store::{Lane, Store, StoreError};

signature! {
    /// Checks an API key, for a request that failed before its own script.
    AUTHENTICATE: Authenticate -> AuthenticateReply = "runtime/authenticate", flags "no-writes,allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller { read api_key(key_id); }
    args {
        key_hash of caller,
        tenant of caller,
        /// '' for none.
        permission: &'a str,
    }
    replies { unauthorized, forbidden, authenticated: Authenticated { scope_filter: ScopeFilter } }
    writes "Nothing."
}

signature! {
    /// Reads fields of one reservation or usage event.
    GET: Get -> GetReply = "runtime/get", flags "no-writes,allow-oom";
    names {
        partition: Partition, caller: ScriptCaller<'a>, key_id of caller, reservation_id: Option<&'a str>, event_id: Option<&'a str>
    }
    keys of partition {
        read api_key(key_id), record: reservation(reservation_id) when reservation_id, record: usage_event(event_id) when event_id;
    }
    args {
        key_hash of caller,
        /// Empty for the admin key.
        tenant of caller,
        names: &'a [&'a str],
    }
    replies {
        unauthorized, forbidden, not_found, foreign, scope_forbidden,
        found: Found { now_ms: i64, fields: Fields },
    }
    writes "Nothing."
}

signature! {
    /// Reads up to a number of a tenant's reservations or usage events in the order of indexes, from a position on.
    ///
    /// Rows of one score come in ascending order of id whatever the direction. complete: no row is left in any index. The
    /// fields of a row are an empty array where the key holds no hash.
    LIST: List -> ListReply = "runtime/list", flags "no-writes,allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller }
    keys of partition of tenant { read api_key(key_id), tenant_key: tenant(tenant); }
    each { read indexes: reservations | usage_events | due | other_graces }
    builds { read reservation, usage_event }
    args {
        key_hash of caller,
        tenant: &'a TenantId,
        direction: &'a str,
        rows: usize,
        /// Lowest score.
        low: i64,
        /// Highest score.
        high: i64,
        /// In the first index, of the score where the walk starts, the rows up to this id were seen.
        after_id: Option<&'a str>,
        /// Of reservations or of usage events.
        record_prefix: String,
        names: &'a [&'a str],
    }
    replies {
        unauthorized, forbidden,
        listed: Listed {
            now_ms: i64, scope_filter: ScopeFilter, longest_life_ms: Option<i64>, complete: bool,
            index_id_score_fields: Vec<((i64, String, i64), Fields)>,
        },
    }
    writes "Nothing."
}

signature! {
    /// Reads up to a number of a tenant's ledgers in canonical order, from a position on.
    ///
    /// The fields of a ledger: status remaining allocated spent reserved debt overdraft_limit is_over_limit; an empty array
    /// where the key holds no hash. Then all names and values of one that must turn, else an empty array.
    BALANCES: Balances -> BalancesReply = "runtime/balances", flags "no-writes,allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller { read api_key(key_id), budgets(tenant); }
    builds { read budget(tenant) }
    args {
        key_hash of caller,
        tenant of caller,
        /// The last entry that was seen.
        after: Option<&'a str>,
        rows: usize,
    }
    replies {
        unauthorized, forbidden,
        listed: Listed { now_ms: i64, scope_filter: ScopeFilter, complete: bool, entry_fields_record: Vec<(String, Fields, Record)> },
    }
    writes "Nothing."
}

signature! {
    /// Reads fields of reservations of one partition: of as many as a number of bytes allows, but of one at least. The fields
    /// of a row are an empty array where the key holds no hash.
    ROWS: ReadRows -> RowsReply = "runtime/rows", flags "no-writes,allow-oom";
    names { tenant: &'a TenantId }
    keys of partition of tenant {}
    each { read reservations: reservation }
    args {
        bytes: i64,
        names: &'a [&'a str],
    }
    replies { rows: Rows { now_ms: i64, fields: Vec<Fields> } }
    writes "Nothing."
}

/// Names of the fields of a ledger, in the order of `balances.lua`.
pub(crate) const LEDGER_FIELDS: [&str; 8] = [
    "status",
    "remaining",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "overdraft_limit",
    "is_over_limit",
];

impl Store {
    /// The tenant of an API key, `None` when there is no such key. It never changes.
    pub async fn tenant_of_key(&self, key_id: &KeyId) -> Result<Option<TenantId>, StoreError> {
        let key = self.keys().api_key(key_id.partition(), key_id.as_str());
        self.tenant_in(key).await
    }

    /// The tenant of a policy, `None` if it does not exist. It never changes.
    pub async fn tenant_of_policy(&self, id: &PolicyId) -> Result<Option<TenantId>, StoreError> {
        let key = self.keys().policy(id.partition(), id.as_str());
        self.tenant_in(key).await
    }

    /// The tenant that a record names.
    async fn tenant_in(&self, key: String) -> Result<Option<TenantId>, StoreError> {
        let read = command("HGET", key, "tenant");
        let tenant: Option<String> = read_or_default(self.send(Lane::Request, &read).await?);
        Ok(tenant.and_then(|tenant| TenantId::parse(&tenant)))
    }
}
