//! What an API key may be allowed to do.

macro_rules! permissions {
    ($($variant:ident = $word:literal,)*) => {
        /// A permission. Scripts compare the words; see `lua/lib/access.lua` for the two that stand for others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Permission { $($variant),* }

        impl Permission {
            /// Every permission.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word of the wire and of the record.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    };
}

permissions! {
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

impl Permission {
    /// What a key may do that was created without a list.
    pub const DEFAULT: &[Self] = &[
        Self::ReservationsCreate,
        Self::ReservationsCommit,
        Self::ReservationsRelease,
        Self::ReservationsExtend,
        Self::ReservationsList,
        Self::BalancesRead,
        Self::BudgetsRead,
        Self::BudgetsWrite,
        Self::PoliciesRead,
        Self::PoliciesWrite,
    ];

    /// Reads the word; case matters.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|permission| permission.as_str() == word)
    }

    /// The stored form: the words with a blank on either side of each, in which a script finds one by plain search.
    pub fn stored(permissions: &[Self]) -> String {
        let mut stored = String::from(" ");
        for permission in permissions {
            stored.push_str(permission.as_str());
            stored.push(' ');
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_back_by_their_words() {
        assert_eq!(Permission::ALL.len(), 27);
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
        }
        assert_eq!(Permission::parse("budgets:*"), None);
        assert_eq!(Permission::DEFAULT.len(), 10);
    }

    #[test]
    fn a_stored_list_has_a_blank_on_either_side_of_each_word() {
        let stored = Permission::stored(&[Permission::BudgetsRead, Permission::AdminRead]);
        assert_eq!(stored, " budgets:read admin:read ");
        assert_eq!(Permission::stored(&[]), " ");
    }
}
