//! Tenants: create, read, list, change and close them.

pub mod closing;
pub(in crate::admin) mod list;

use std::time::Duration;

use tracing::warn;

pub use list::{TenantFilter, TenantPage, TenantQuery, TenantSort};

use super::{Admin, Change, Request, refuse};
use crate::admin::tenants::closing::{CloseProgress, Closer, REQUEST_PART, TAKE_OVER};
use crate::domain::event::tenant_digest;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, audited, set_fields};
use crate::domain::refusal::TenantRefusal;
use crate::domain::tenant::TenantStatus;
use crate::domain::tenant::{Tenant, TenantCreateRequest, TenantUpdateRequest};
use crate::store::StoreError;
use crate::store::admin::changes_of;
use crate::store::admin::tenants::{
    CreateTenant, CreateTenantReply, UpdateTenant, UpdateTenantReply,
};
use crate::store::signature::Counted;
use crate::store::target::Target;

/// The result of a change of a tenant.
#[derive(Debug)]
pub struct UpdatedTenant {
    /// The tenant after the change.
    pub tenant: Tenant,
    /// The state of its close, if it is closed.
    pub close: Option<CloseProgress>,
}

impl Admin {
    /// Records a tenant, or finds the one of the same id and name; `true` when it was recorded.
    ///
    /// # Errors
    /// [`TenantRefusal::Duplicate`] when the id has another name, whatever its status.
    pub async fn create_tenant(
        &self,
        tenant: &TenantCreateRequest,
        request: &Request<'_>,
    ) -> Result<(bool, Tenant), StoreError> {
        let id = tenant.tenant_id.as_str();
        let mut change = Change::new(request, "createTenant", ("tenant", id), None);
        change.add("metadata.name", Some(&tenant.name));
        let call = CreateTenant {
            change: &change,
            tenant: &tenant.tenant_id,
            name: &tenant.name,
            tenant_digest: tenant_digest(id),
            fields: Counted(set_fields(tenant.fields())),
        };
        let target = &tenant.tenant_id;
        target.about(self.store.register_tenant(target).await)?;
        let (created, record) = match target.run(&self.store, &call).await? {
            CreateTenantReply::Created { record } => (true, record.0),
            CreateTenantReply::Exists { record } => (false, record.0),
        };
        Ok((created, target.about(Tenant::from_record(&record))?))
    }

    /// A tenant as it is, closed ones as well.
    ///
    /// # Errors
    /// [`TenantRefusal::NotFound`].
    pub async fn get_tenant(&self, tenant: &TenantId) -> Result<Tenant, StoreError> {
        match tenant.about(self.store.get_tenant(tenant).await)? {
            Some(record) => tenant.about(Tenant::from_record(&record)),
            None => tenant.about(refuse(TenantRefusal::NotFound(tenant.to_string()))),
        }
    }

    /// Changes a tenant. A closed tenant owns nothing that could be changed from this moment on. Everything that it owned
    /// ends in steps, on which the request works for [`REQUEST_PART`]. Closing a closed tenant again resumes its close.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; no such tenant; a closed one that should
    /// become anything else.
    pub async fn update_tenant(
        &self,
        tenant: &TenantId,
        update: &TenantUpdateRequest,
        request: &Request<'_>,
    ) -> Result<UpdatedTenant, StoreError> {
        let changed = self.change_tenant(tenant, update, TAKE_OVER, request);
        let (closing, record) = changed.await?;
        let close = match closing {
            true => Some(self.work_on_close(tenant).await),
            false => None,
        };
        Ok(UpdatedTenant {
            tenant: tenant.about(Tenant::from_record(&record))?,
            close,
        })
    }

    /// The change alone. For `request_part`, no dispatcher resumes the close that it begins.
    ///
    /// # Errors
    /// As for [`Self::update_tenant`].
    pub async fn change_tenant(
        &self,
        tenant: &TenantId,
        update: &TenantUpdateRequest,
        request_part: Duration,
        request: &Request<'_>,
    ) -> Result<(bool, Record), StoreError> {
        let resource = ("tenant", tenant.as_str());
        let mut change = Change::new(request, "updateTenant", resource, None);
        // All but the labels.
        change.add("metadata.new_status", update.status);
        change.audit.extend(audited(update.fields()));
        let request_id = request.cause.request_id.as_ref();
        let request_id = request_id.map_or("", |id| id.as_str());
        let correlation_id = format!("tenant_close_cascade:{tenant}:{request_id}");
        let call = UpdateTenant {
            change: &change,
            tenant,
            wanted: update.status.map(TenantStatus::as_str),
            correlation_id: &correlation_id,
            parent_correlation_id: None,
            request_part_ms: request_part,
            changes: changes_of(&update.fields()),
        };
        Ok(match tenant.run(&self.store, &call).await? {
            UpdateTenantReply::Updated { record } => (false, record.0),
            UpdateTenantReply::Closing { record } => (true, record.0),
        })
    }

    /// Works on a close within the request. A failure is only logged, because the status is CLOSED already.
    async fn work_on_close(&self, tenant: &TenantId) -> CloseProgress {
        let progress = Closer::new(&self.store, tenant, None)
            .run(REQUEST_PART)
            .await;
        progress.unwrap_or_else(|failure| {
            warn!(
                tenant.id = %tenant, error = %failure,
                "the close of tenant `{tenant}` is left to a dispatcher: {failure}"
            );
            CloseProgress::Paused
        })
    }
}
