//! `create_tenant.lua`, the directory of all tenants, and their records.

use std::time::Duration;

use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::driver::error::StoreError;
use crate::driver::script::Counted;
use crate::store::admin::{Change, Changes};
use crate::store::records::{NO_ARGS, command, read_reply};
use crate::store::signature::{FlatRecord, signature};
use crate::store::{Lane, Pair, Store};

signature! {
    /// Records a tenant, once. The same id and name again find the tenant as it is.
    ///
    /// The audit entry gets its status.
    CREATE_TENANT: CreateTenant -> CreateTenantReply = "admin/tenants/create_tenant";
    change of tenant {
        read thresholds();
        write tenant_key: tenant(tenant), tenants(), tenant_ids(), counts();
    }
    args {
        day,
        tenant: &'a TenantId,
        name: &'a str,
        /// As ids of events have it.
        tenant_digest: String,
        fields: Counted<Vec<Pair>>,
    }
    replies {
        clock, idempotency_mismatch, replayed, duplicate_tenant, exists: Exists { record: FlatRecord },
        created: Created { record: FlatRecord },
    }
    writes "On created: the counts, the tenant, the partition's lists, the event, the audit entry. On exists: the audit entry and \
the digest."
}

signature! {
    /// Changes a tenant's settings or its status. To close it is to flip its status, from which moment on nothing that it owns
    /// can be changed; what ends all that follows the intent that is stored in the same step.
    ///
    /// closing: the status is or was CLOSED, and steps may be due.
    UPDATE_TENANT: UpdateTenant -> UpdateTenantReply = "admin/tenants/update_tenant", flags "allow-oom";
    change of tenant {
        write tenant_key: tenant(tenant), closing(tenant), closings(), counts();
    }
    args {
        day,
        tenant: &'a TenantId,
        /// A status.
        wanted: Option<&'a str>,
        /// Of a close.
        correlation_id: &'a str,
        /// Of tenant.closed, where it differs.
        parent_correlation_id: Option<&'a str>,
        /// For so long the request itself works on a close, then others may.
        request_part_ms: Duration,
        changes: Changes,
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_not_found, tenant_unreadable, leaving_closed,
        closing: Closing { record: FlatRecord }, updated: Updated { record: FlatRecord },
    }
    writes "On closing and updated: the counts, the tenant, the event, the audit entry. On closing the intent instead of the last \
two, unless there is one: then the audit entry."
}

impl Store {
    /// Enters a tenant into the directory, before it is recorded: so none is ever missing there. Readers of the directory
    /// pass over an entry without a record.
    pub(crate) async fn register_tenant(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let directory = self.keys().directory();
        let added = command("ZADD", directory, (0, tenant.as_str()));
        self.write(added).await
    }

    /// A tenant's record; `None` where there is none.
    pub async fn get_tenant(&self, tenant: &TenantId) -> Result<Option<Record>, StoreError> {
        let key = self.keys().tenant(tenant.partition(), tenant.as_str());
        let read = command("HGETALL", key, NO_ARGS);
        let record: Record = read_reply(self.send(Lane::Request, &read).await?)?;
        Ok(Some(record).filter(|record| !record.is_empty()))
    }

    /// Up to `rows` ids of the directory, in either order, beyond `after`.
    pub async fn directory_page(
        &self,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let directory = self.keys().directory();
        self.members(directory, after, descending, rows).await
    }
}
