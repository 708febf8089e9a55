//! The scripts of the admin plane, and what their refusals mean.

pub mod api_key_checks;
pub mod api_key_lists;
pub mod api_keys;
pub(crate) mod budget_creation;
pub mod budget_lists;
pub mod budgets;
pub mod bulk;
pub mod bulk_rows;
pub mod closing;
pub mod events;
pub mod increases;
pub mod logs;
pub mod overview;
pub mod policies;
pub mod recent;
pub mod tenants;
pub mod thresholds;
pub mod webhook_deliveries;
pub mod webhook_lists;
pub mod webhook_replays;
pub mod webhooks;

use super::signature::signature;
use super::{Lane, Pair, Store, StoreError};
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::FieldChange;
use crate::domain::scope::ScopeFilter;
use crate::driver::script::Counted;
use crate::store::outcome;
use crate::store::target::Target as _;

signature! {
    /// Checks whether a tenant's API key may act through the admin plane, for a list, or a request that failed before its own script.
    ADMIN_ACCESS: AdminAccess -> AdminAccessReply = "admin/admin_access", flags "no-writes,allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller { read api_key(key_id), tenant_key: tenant(tenant); }
    args {
        key_hash of caller,
        tenant of caller,
        permission: &'a str,
        /// '' where the request has named none yet.
        scope: &'a str,
        /// The scope filter of the subscription that is to be made, after =; '' for any other request.
        subscribes: Option<&'a str>,
    }
    replies { unauthorized, forbidden, scope_forbidden, granted: Granted { scope_filter: ScopeFilter } }
    writes "Nothing."
}

signature! {
    /// Writes the audit entry of a refused admin request: with the tenant that it was to act on, if that tenant has a record,
    /// else with the sentinel of the partition.
    ///
    /// Where per_minute is given, no more entries of the tenant are written in a minute; the rest is counted for a rollup.
    AUDIT_FAILURE: AuditFailure -> AuditFailureReply = "admin/audit_failure";
    names { partition: Partition }
    keys of partition {
        write tenant_key: tenant(tenant), audit_log: audit(tenant, day), chain(tenant), sentinel_log: audit(sentinel, day),
            sentinel_chain: chain(sentinel), days(), audit_failures(tenant), audit_failures_due(), unsealed();
    }
    args {
        day,
        /// The sentinel where no tenant is known.
        tenant: &'a str,
        sentinel: &'a str,
        /// Only where a tenant's key was refused, or the caller is unknown.
        per_minute: Option<u32>,
        audit: &'a [Pair],
    }
    replies { clock, recorded: Recorded { tenant: String } }
    writes "On recorded: the audit entry, or the count."
}

/// Names and values.
pub type Pairs = Vec<Pair>;

/// The changes of a record, as scripts take them: the member, the field, then `=` and the value or nothing.
pub type Changes = Counted<Vec<(&'static str, &'static str, Option<String>)>>;

/// The changes for a script.
pub(crate) fn changes_of(changes: &[FieldChange]) -> Changes {
    let argument = |change: &FieldChange| {
        let (field, value) = change.sent();
        (change.member, field, value)
    };
    Counted(changes.iter().map(argument).collect())
}

/// Arguments that all changes share.
#[derive(Debug)]
pub struct Change<'a> {
    /// The request cause, for events: lines of name and value.
    pub context: String,
    /// The audit entry, all but what the script alone knows.
    pub audit: Pairs,
    /// Digest of body and target.
    pub payload_hash: &'a str,
    /// Digest of operation and idempotency key, where the request has a key.
    pub digest: Option<String>,
}

impl Store {
    /// Whether the caller may do what is requested, for a list, or a request that fails before its own script; and the scopes that
    /// the key is restricted to. A tenant's key is checked, the admin key was before. `scope` is empty where the request has named
    /// none yet.
    ///
    /// # Errors
    /// [`AccessRefusal`](crate::domain::refusal::AccessRefusal).
    pub async fn admin_access(
        &self,
        caller: &Caller,
        permission: &str,
        scope: &str,
    ) -> Result<ScopeFilter, StoreError> {
        self.access(caller, permission, scope, None).await
    }

    /// The same; `subscribes`: `=` and the scope filter of the subscription that the request makes, if it makes one.
    ///
    /// # Errors
    /// [`AccessRefusal`](crate::domain::refusal::AccessRefusal).
    pub async fn access(
        &self,
        caller: &Caller,
        permission: &str,
        scope: &str,
        subscribes: Option<&str>,
    ) -> Result<ScopeFilter, StoreError> {
        let Caller::Tenant(caller) = caller else {
            return Ok(ScopeFilter::default());
        };
        let call = AdminAccess {
            caller,
            permission,
            scope,
            subscribes,
        };
        let AdminAccessReply::Granted { scope_filter } = caller
            .tenant
            .outcome(self.run(Lane::Request, &call).await)?;
        Ok(scope_filter)
    }

    /// Writes the audit entry of a refused request, with the tenant that it was to act on, if that exists, else with the
    /// sentinel. More than `per_minute` of one tenant, or of the sentinel without one, are only counted in a minute.
    ///
    /// # Errors
    /// [`StoreError`]; the request's own outcome does not depend on it.
    pub async fn audit_failure(
        &self,
        partition: Partition,
        tenant: Option<&TenantId>,
        sentinel: &str,
        per_minute: Option<u32>,
        entry: &Pairs,
    ) -> Result<(), StoreError> {
        let call = AuditFailure {
            partition,
            tenant: tenant.map_or(sentinel, TenantId::as_str),
            sentinel,
            per_minute,
            audit: entry,
        };
        let AuditFailureReply::Recorded { .. } = outcome(self.run(Lane::Request, &call).await)?;
        Ok(())
    }
}
