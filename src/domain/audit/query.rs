//! The filter and sorts of lists of audit entries.

use crate::domain::audit::AuditLogEntry;
use crate::domain::ids::TenantId;
use crate::domain::moment::Window;
use crate::domain::search::Search;
use crate::domain::tenant::{NO_TENANT, SYSTEM, UNKNOWN_CALLER};

/// A filter of entries. All of its conditions must hold; an empty list is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Their tenant, exactly; perhaps no tenant's.
    pub tenant: Option<String>,
    /// Exactly.
    pub key_id: Option<String>,
    /// Exactly.
    pub resource_id: Option<String>,
    /// Exactly.
    pub request_id: Option<String>,
    /// Exactly.
    pub trace_id: Option<String>,
    /// One of these.
    pub operations: Vec<String>,
    /// One of these.
    pub resource_types: Vec<String>,
    /// One of these; what succeeded has none.
    pub error_codes: Vec<String>,
    /// None of these; what succeeded passes.
    pub error_codes_excluded: Vec<String>,
    /// From here.
    pub status_min: Option<i64>,
    /// To here.
    pub status_max: Option<i64>,
    /// When they were appended.
    pub window: Window,
    /// Text that resource id, own id, error code or operation contains.
    pub search: Option<Search>,
}

/// Whether a name that is no tenant's has a log.
pub fn stands_for_no_tenant(name: &str) -> bool {
    [NO_TENANT, UNKNOWN_CALLER, SYSTEM].contains(&name)
}

impl AuditFilter {
    /// Whether no entry can pass, whatever happened.
    pub fn is_void(&self) -> bool {
        let nobody = |name: &String| !stands_for_no_tenant(name) && TenantId::parse(name).is_none();
        self.window.is_empty() || self.tenant.as_ref().is_some_and(nobody)
    }

    /// Whether every entry of the log of one tenant, or of all, passes that lies in the window.
    pub fn is_plain(&self) -> bool {
        let plain = Self {
            tenant: self.tenant.clone(),
            window: self.window,
            ..Self::default()
        };
        *self == plain
    }

    /// Whether an entry may pass, judged by its tenant and time.
    pub fn may_pass(&self, at_ms: i64, tenant: &str) -> bool {
        self.window.contains(at_ms) && self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }

    /// Whether an entry passes.
    pub fn passes(&self, entry: &AuditLogEntry) -> bool {
        let exactly =
            |wanted: &Option<String>, id: &Option<String>| wanted.is_none() || wanted == id;
        let one_of = |wanted: &[String], word: Option<&str>| {
            wanted.is_empty() || word.is_some_and(|word| wanted.iter().any(|one| one == word))
        };
        let code = entry.error_code.as_deref();
        let texts = [
            entry.resource_id.as_deref(),
            Some(&entry.log_id),
            code,
            Some(&entry.operation),
        ];
        let found = |search: &Search| search.finds_any(texts.into_iter().flatten());
        let excluded = code.is_some_and(|code| self.error_codes_excluded.iter().any(|c| c == code));
        self.may_pass(entry.timestamp.as_ms(), &entry.tenant_id)
            && exactly(&self.key_id, &entry.key_id)
            && exactly(&self.resource_id, &entry.resource_id)
            && exactly(&self.request_id, &entry.request_id)
            && exactly(&self.trace_id, &entry.trace_id)
            && one_of(&self.operations, Some(&entry.operation))
            && one_of(&self.resource_types, entry.resource_type.as_deref())
            && one_of(&self.error_codes, code)
            && !excluded
            && self.status_min.is_none_or(|least| entry.status >= least)
            && self.status_max.is_none_or(|most| entry.status <= most)
            && self.search.as_ref().is_none_or(found)
    }
}
