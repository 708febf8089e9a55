//! Tenants: create, read, list, change and close them.

pub mod closing;
pub(in crate::admin) mod list;
pub(crate) mod update;

pub use list::{TenantFilter, TenantPage, TenantQuery, TenantSort};

use super::audit::entry_without_status;
use super::{Admin, Parts, Request, refuse};
use crate::domain::event::tenant_digest;
use crate::domain::ids::TenantId;
use crate::domain::record::set_fields;
use crate::domain::refusal::TenantRefusal;
use crate::domain::tenant::record::{Tenant, TenantCreateRequest};
use crate::store::StoreError;
use crate::store::admin::tenants::{CreateTenant, CreateTenantReply};
use crate::store::signature::Counted;
use crate::store::target::Target;

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
        let audit = entry_without_status(request.cause, "createTenant", ("tenant", id));
        let mut parts = Parts::of(request, "createTenant", audit);
        parts.add("metadata.name", Some(&tenant.name));
        let call = CreateTenant {
            change: &parts.change(),
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
}
