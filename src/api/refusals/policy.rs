//! Refusals of operations on policies.

use crate::api::errors::{ApiError, Code};
use crate::domain::printable::printable;
use crate::domain::refusal::PolicyRefusal;

impl From<PolicyRefusal> for ApiError {
    fn from(refusal: PolicyRefusal) -> Self {
        use PolicyRefusal as R;
        match refusal {
            R::NotFound(id) => Self::not_found(format!("There is no policy {}", printable(&id))),
            R::OfOtherTenant(id) => Self::forbidden(format!(
                "The policy {} belongs to another tenant",
                printable(&id)
            )),
            R::Duplicate { tenant, name } => Self::conflict(
                Code::DuplicateResource,
                format!(
                    "The tenant {tenant} has a policy of the name {} already",
                    printable(&name)
                ),
            ),
        }
    }
}
