//! Permissions of an API key.

use crate::domain::record::stored_text;
use crate::domain::words::words;

words! {
    /// One permission of an API key.
    #[expect(missing_docs, reason = "the words are the documentation")]
    Permission {
        ReservationsCreate = "reservations:create",
        ReservationsCommit = "reservations:commit",
        ReservationsRelease = "reservations:release",
        ReservationsExtend = "reservations:extend",
        ReservationsList = "reservations:list",
        BalancesRead = "balances:read",
        BudgetsRead = "budgets:read",
        BudgetsWrite = "budgets:write",
        PoliciesRead = "policies:read",
        PoliciesWrite = "policies:write",
        WebhooksRead = "webhooks:read",
        WebhooksWrite = "webhooks:write",
        EventsRead = "events:read",
        AdminRead = "admin:read",
        AdminWrite = "admin:write",
        AdminTenantsRead = "admin:tenants:read",
        AdminTenantsWrite = "admin:tenants:write",
        AdminBudgetsRead = "admin:budgets:read",
        AdminBudgetsWrite = "admin:budgets:write",
        AdminPoliciesRead = "admin:policies:read",
        AdminPoliciesWrite = "admin:policies:write",
        AdminApikeysRead = "admin:apikeys:read",
        AdminApikeysWrite = "admin:apikeys:write",
        AdminWebhooksRead = "admin:webhooks:read",
        AdminWebhooksWrite = "admin:webhooks:write",
        AdminEventsRead = "admin:events:read",
        AdminAuditRead = "admin:audit:read",
    }
}

impl Permission {
    /// Reads the stored form, in the order in which they were granted. A word of a later release is none that this one could
    /// show.
    pub fn from_stored(words: &str) -> Vec<Self> {
        words.split_whitespace().filter_map(Self::parse).collect()
    }
}

// A blank before and behind each word, so that scripts find one by its text.
stored_text!(
    Vec<Permission>,
    |text| Some(Permission::from_stored(text)),
    |permissions| {
        let words = permissions
            .iter()
            .map(|permission| format!(" {permission}"));
        Some(words.chain([" ".to_owned()]).collect())
    }
);

words! {
    /// Whether an API key is valid.
    ApiKeyStatus: "SCREAMING_SNAKE_CASE" {
        /// It is.
        Active,
        /// An operator has revoked it, or its tenant was closed.
        Revoked,
        /// Its time is over.
        Expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::Stored as _;

    #[test]
    fn words_are_unique_and_read_back() {
        assert_eq!(Permission::ALL.len(), 27);
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
        }
        assert_eq!(Permission::parse("RESERVATIONS:CREATE"), None);
    }

    #[test]
    fn a_stored_list_of_permissions_has_a_blank_on_either_side_of_each_word() {
        let stored = |permissions: Vec<Permission>| permissions.to_field("permissions");
        assert_eq!(
            stored(vec![Permission::BudgetsRead, Permission::AdminRead]).as_deref(),
            Some(" budgets:read admin:read ")
        );
        assert_eq!(stored(Vec::new()).as_deref(), Some(" "));
    }
}
