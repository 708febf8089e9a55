use super::*;
use crate::domain::moment::Moment;

fn tenant(id: &str, name: &str, created_at_ms: i64) -> Tenant {
    Tenant {
        tenant_id: TenantId::parse(id).expect("an id"),
        name: name.to_owned(),
        status: TenantStatus::Active,
        parent_tenant_id: None,
        default_commit_overage_policy: None,
        default_reservation_ttl_ms: None,
        max_reservation_ttl_ms: None,
        max_reservation_extensions: None,
        reservation_expiry_policy: None,
        metadata: None,
        created_at: Moment::from_ms(created_at_ms).expect("a time"),
        updated_at: None,
        suspended_at: None,
        closed_at: None,
    }
}

fn query(sort: TenantSort, descending: bool) -> TenantQuery {
    TenantQuery {
        status: None,
        parent_tenant_id: None,
        search: None,
        sort,
        descending,
        any_order: false,
        after: None,
        limit: 1,
    }
}

/// All pages of a sort, as one list of ids.
fn walked(sort: TenantSort, descending: bool) -> Vec<String> {
    let tenants = || {
        vec![
            tenant("bbb", "same", 9),
            tenant("aaa", "same", 10),
            tenant("ccc", "other", 10),
            tenant("ddd", "Zed", 2),
        ]
    };
    let (mut query, mut ids) = (query(sort, descending), Vec::new());
    loop {
        let page = sorted_page(tenants(), &query);
        ids.extend(
            page.tenants
                .into_iter()
                .map(|tenant| tenant.tenant_id.to_string()),
        );
        if page.next.is_none() {
            return ids;
        }
        query.after = page.next;
    }
}

#[test]
fn pages_follow_the_order_and_ties_the_ascending_id() {
    assert_eq!(
        walked(TenantSort::CreatedAt, false),
        ["ddd", "bbb", "aaa", "ccc"]
    );
    assert_eq!(
        walked(TenantSort::CreatedAt, true),
        ["aaa", "ccc", "bbb", "ddd"]
    );
    assert_eq!(
        walked(TenantSort::Name, false),
        ["ddd", "ccc", "aaa", "bbb"]
    );
    assert_eq!(
        walked(TenantSort::Status, true),
        ["aaa", "bbb", "ccc", "ddd"]
    );
}

#[test]
fn filters_and_search_must_all_hold() {
    let acme = tenant("acme", "Größe GmbH", 1);
    let query = |search: &str| TenantQuery {
        search: Some(search.to_owned()),
        status: Some(TenantStatus::Active),
        ..query(TenantSort::Name, false)
    };
    for (search, matches) in [("ACM", true), ("größe g", true), ("x", false)] {
        assert_eq!(query(search).matches(&acme), matches, "{search}");
    }
    let parent = TenantQuery {
        parent_tenant_id: Some("holding".to_owned()),
        ..query("acme")
    };
    assert!(!parent.matches(&acme));
}
