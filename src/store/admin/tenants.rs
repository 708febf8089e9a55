//! `create_tenant.lua`, the directory of all tenants, and their records.

use std::time::Duration;

use crate::domain::event::tenant_digest;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::{Record, set_fields};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::tenant::TenantStatus;
use crate::domain::tenant::record::{Tenant, TenantCreateRequest, TenantUpdateRequest};
use crate::driver::error::StoreError;
use crate::driver::script::Counted;
use crate::store::admin::{AdminError, Change, Changes, GetRecord, Stored, changes_of};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store};

signature! {
    /// Records a tenant, once. The same id and name again find the tenant as it is.
    CREATE_TENANT: CreateTenant -> CreateTenantReply = "admin/tenants/create_tenant";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        read thresholds();
        write tenant_key: tenant(tenant), tenants(), tenant_ids(), counts(), event_log: events(tenant, day), outbox(),
            days(), audit_log: audit(tenant, day), chain(tenant), unsealed(), idempotency(tenant, digest) when digest;
    }
    args {
        day,
        tenant: &'a str,
        name: &'a str,
        /// As ids of events have it.
        tenant_digest: String,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the record.
        fields: Counted<Vec<Pair>>,
        /// Names and values of the audit entry, except its status.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, duplicate: Duplicate, exists: Exists { record: FlatRecord },
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
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(), audit_log: audit(tenant, day),
            chain(tenant), unsealed(), closing(tenant), closings(), counts(), idempotency(tenant, digest) when digest;
    }
    args {
        day,
        tenant: &'a str,
        /// A status.
        wanted: Option<&'a str>,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Of a close.
        correlation_id: &'a str,
        /// Of tenant.closed, where it differs.
        parent_correlation_id: Option<&'a str>,
        /// For so long the request itself works on a close, then others may.
        request_part_ms: i64,
        /// A member of the request, the field of the record, then = and the value, or '' to remove the field.
        changes: Changes<'a>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, not_found, tenant_unreadable, leaving_closed: LeavingClosed,
        closing: Closing { record: FlatRecord }, updated: Updated { record: FlatRecord },
    }
    writes "On closing and updated: the counts, the tenant, the event, the audit entry. On closing the intent instead of the last \
two, unless there is one: then the audit entry."
}

/// What `create_tenant.lua` did, or did when it was asked first.
#[derive(Debug)]
pub struct CreatedTenant {
    /// Whether this request recorded it; else it was there under the same name.
    pub created: bool,
    /// The stored fields.
    pub record: Record,
}

/// What a change of a tenant needs where it closes it.
#[derive(Debug, Clone, Copy)]
pub struct Close<'a> {
    /// What all events of the close share.
    pub correlation_id: &'a str,
    /// What `tenant.closed` carries instead, where the close is one row of many.
    pub parent_correlation_id: Option<&'a str>,
    /// For how long the request itself goes on with the close; others wait so long.
    pub request_part: Duration,
}

/// What `update_tenant.lua` did, or did when it was asked first.
#[derive(Debug)]
pub struct UpdatedTenant {
    /// Whether the tenant is closed, so that steps of its close may be due.
    pub closing: bool,
    /// The stored fields.
    pub record: Record,
}

impl Store {
    /// Records a tenant. The directory learns of it first, so that no tenant is ever missing there; its readers pass over
    /// an entry without a record.
    ///
    /// # Errors
    /// [`AdminRefusal::DuplicateTenant`] when the id has another name.
    pub async fn create_tenant(
        &self,
        tenant: &TenantCreateRequest,
        change: &Change<'_>,
    ) -> Result<CreatedTenant, AdminError> {
        let id = tenant.tenant_id.as_str();
        let directory = self.keys().directory();
        let mut enter = redis::cmd("ZADD");
        enter.arg(&directory).arg(0).arg(id);
        self.query(&directory, &enter).await?;
        let call = CreateTenant {
            partition: tenant.tenant_id.partition(),
            digest: change.idempotency,
            tenant: id,
            name: &tenant.name,
            tenant_digest: tenant_digest(id),
            payload_hash: change.payload_hash,
            context: change.cause,
            fields: Counted(set_fields(tenant.fields())),
            audit: change.audit,
        };
        let (created, record) = match self.run(&call).await?? {
            CreateTenantReply::Created { record } => (true, record.0),
            CreateTenantReply::Exists { record } => (false, record.0),
            CreateTenantReply::Duplicate => return Err(AdminRefusal::DuplicateTenant.into()),
        };
        Ok(CreatedTenant { created, record })
    }

    /// Changes a tenant and returns its record. With status CLOSED the guard stands from now on; what the tenant owns ends by
    /// steps, see [`super::closing`].
    ///
    /// # Errors
    /// Refusals: no such tenant; a closed one that should become anything else.
    pub async fn update_tenant(
        &self,
        tenant: &TenantId,
        update: &TenantUpdateRequest,
        close: &Close<'_>,
        change: &Change<'_>,
    ) -> Result<UpdatedTenant, AdminError> {
        let changes = update.fields();
        let request_part_ms = i64::try_from(close.request_part.as_millis()).unwrap_or(i64::MAX);
        let call = UpdateTenant {
            partition: tenant.partition(),
            digest: change.idempotency,
            tenant: tenant.as_str(),
            wanted: update.status.map(TenantStatus::as_str),
            payload_hash: change.payload_hash,
            context: change.cause,
            correlation_id: close.correlation_id,
            parent_correlation_id: close.parent_correlation_id,
            request_part_ms,
            changes: changes_of(&changes),
            audit: change.audit,
        };
        let (closing, record) = match self.run(&call).await? {
            Ok(UpdateTenantReply::Closing { record }) => (true, record.0),
            Ok(UpdateTenantReply::Updated { record }) => (false, record.0),
            Ok(UpdateTenantReply::LeavingClosed) => return Err(AdminRefusal::LeavingClosed.into()),
            Err(Refused::NotFound) => return Err(AdminRefusal::TenantNotFound.into()),
            Err(refused) => return Err(refused.into()),
        };
        Ok(UpdatedTenant { closing, record })
    }

    /// A tenant's record.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get_tenant(&self, tenant: &TenantId) -> Result<Option<Stored>, StoreError> {
        let call = GetRecord {
            partition: tenant.partition(),
            tenant: Some(tenant.as_str()),
            policy_id: None,
        };
        self.get_record(call).await
    }

    /// Up to `rows` ids of the directory, in either order, beyond `after`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn directory_page(
        &self,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = self.keys().directory();
        self.members(&key, after, descending, rows).await
    }

    /// The records of these tenants, in their order; an empty one where there is none, and an error where there is
    /// something else.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tenant_records(
        &self,
        tenants: &[TenantId],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let key = |id: &TenantId| self.keys().tenant(id.partition(), id.as_str());
        let keys = tenants.iter().map(key);
        self.records(keys, &Tenant::field_names()).await
    }
}
