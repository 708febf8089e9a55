//! Tenants: changed, suspended, closed.

use tracing::warn;

use crate::admin::audit::entry;
use crate::admin::tenants::closing::{Closer, REQUEST_PART, TAKE_OVER, Turn};
use crate::admin::{Admin, AdminError, Parts, Request};
use crate::domain::ids::TenantId;
use crate::domain::record::audited;
use crate::domain::tenant::record::{Tenant, TenantUpdateRequest};
use crate::store::admin::Pairs;
use crate::store::admin::tenants::Close;

/// What a change of a tenant came to.
#[derive(Debug)]
pub struct UpdatedTenant {
    /// As it is now.
    pub tenant: Tenant,
    /// How far its close has come, where it is closed.
    pub close: Option<Turn>,
}

impl Admin {
    /// Changes a tenant. One that is closed owns nothing that could be changed from this moment on; that all of it
    /// ends takes steps, with which the request goes on for [`REQUEST_PART`]. To close a closed tenant again goes on too.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; no such tenant; a closed one that should
    /// become anything else.
    pub async fn update_tenant(
        &self,
        tenant: &TenantId,
        update: &TenantUpdateRequest,
        request: &Request<'_>,
    ) -> Result<UpdatedTenant, AdminError> {
        let mut audit = entry(request.cause, "updateTenant", "tenant", tenant.as_str());
        audit.extend(told(update));
        let parts = Parts::of(request, "updateTenant", audit);
        let request_id = request.cause.request_id.as_ref();
        let request_id = request_id.map_or("", |id| id.as_str());
        let correlation_id = format!("tenant_close_cascade:{tenant}:{request_id}");
        let close = Close {
            correlation_id: &correlation_id,
            parent_correlation_id: None,
            request_part: TAKE_OVER,
        };
        let updated = self
            .store
            .update_tenant(tenant, update, &close, &parts.change())
            .await?;
        let close = match updated.closing {
            true => Some(self.go_on_closing(tenant).await),
            false => None,
        };
        Ok(UpdatedTenant {
            tenant: Tenant::from_record(&updated.record)?,
            close,
        })
    }

    /// The request's part of a close. The flip stands whatever becomes of it, so there is no error.
    async fn go_on_closing(&self, tenant: &TenantId) -> Turn {
        let turn = Closer::new(&self.store, tenant, None)
            .run(REQUEST_PART)
            .await;
        turn.unwrap_or_else(|failure| {
            warn!(
                tenant.id = %tenant, error = %failure,
                "the close of tenant `{tenant}` goes on without its request: {failure}"
            );
            Turn::Paused
        })
    }
}

/// What the audit entry tells of a change: all but the labels.
fn told(update: &TenantUpdateRequest) -> Pairs {
    let status = update
        .status
        .map(|status| ("metadata.new_status", status.to_string()));
    status.into_iter().chain(audited(update.fields())).collect()
}
