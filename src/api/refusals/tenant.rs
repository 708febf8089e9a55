//! Refusals because of a tenant's status.

use crate::api::errors::{ApiError, Code};
use crate::domain::refusal::TenantRefusal;

impl From<TenantRefusal> for ApiError {
    fn from(refusal: TenantRefusal) -> Self {
        use TenantRefusal as R;
        match refusal {
            R::Closed(tenant) => Self::conflict(
                Code::TenantClosed,
                format!("The tenant {tenant} is closed; what it owns is read-only"),
            ),
            R::Suspended(tenant) => {
                Self::forbidden(format!("The tenant {tenant} is suspended; no new spending"))
            }
        }
    }
}
