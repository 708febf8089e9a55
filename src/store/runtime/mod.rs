//! The scripts of the runtime plane.

pub mod batch;
pub mod commit;
pub mod decide;
pub mod expire;
pub mod extend;
pub mod read;
pub mod refund;
pub mod release;
pub mod replay;
pub mod reserve;
pub(crate) mod target;
pub mod turn;
pub mod usage_event;

use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::scope::ScopePath;
use crate::store::Store;

impl Store {
    /// Keys of the ledgers of a scope and of all that enclose it, root first.
    pub(crate) fn budgets_of(
        &self,
        tenant: &TenantId,
        path: &ScopePath,
        unit: Unit,
    ) -> Vec<String> {
        let keys = self.keys().of(tenant.partition());
        let budget = |scope: ScopePath| keys.budget(tenant.as_str(), unit.as_str(), scope.as_str());
        path.with_parents().map(budget).collect()
    }
}

/// The named fields of a record; `None` where the key holds no hash.
pub(crate) fn fields_of(names: &[&str], values: Vec<Option<String>>) -> Option<Record> {
    (!values.is_empty() || names.is_empty()).then(|| Record::from_fields(names, values))
}
