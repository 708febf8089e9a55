//! A list of tenants, as a setting names them.

use crate::domain::ids::TenantId;

/// Ids of tenants, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantList(pub Vec<TenantId>);

impl TenantList {
    /// Reads ids, comma-separated; blank means none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name.is_empty() {
                continue;
            }
            let tenant = TenantId::parse(name);
            let tenant = tenant.ok_or_else(|| format!("`{name}` is not a tenant id"))?;
            if !list.contains(&tenant) {
                list.push(tenant);
            }
        }
        Ok(Self(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tenants_has_no_duplicates() {
        let list = TenantList::parse(" acme, bolt,acme,,").expect("ids");
        let names: Vec<_> = list.0.iter().map(TenantId::as_str).collect();
        assert_eq!(names, ["acme", "bolt"]);
        assert_eq!(TenantList::parse("").expect("none"), TenantList::default());
        let refused = TenantList::parse("acme,a b").expect_err("no id");
        assert!(refused.contains("`a b`"), "{refused}");
    }
}
