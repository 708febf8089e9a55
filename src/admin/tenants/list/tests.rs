use super::*;
use crate::domain::moment::Moment;
use crate::listing::Sorted;

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

/// All pages of a sort, as one list of ids.
fn walked(sort: TenantSort, descending: bool) -> Vec<String> {
    let tenants = [
        tenant("bbb", "same", 9),
        tenant("aaa", "same", 10),
        tenant("ccc", "other", 10),
        tenant("ddd", "Zed", 2),
    ];
    let mut query = TenantQuery::new(TenantFilter::default(), sort, descending, 1);
    let mut ids = Vec::new();
    loop {
        let mut sorted = Sorted::new(&query);
        let rows = tenants.iter();
        sorted.extend(rows.cloned());
        let page = sorted.into_page();
        ids.extend(page.rows.iter().map(|tenant| tenant.tenant_id.to_string()));
        if page.next.is_none() {
            return ids;
        }
        query.after = page.next;
    }
}

#[test]
fn pages_follow_the_order_and_ties_the_ascending_id() {
    for (sort, descending, ids) in [
        (TenantSort::CreatedAt, false, "ddd bbb aaa ccc"),
        (TenantSort::CreatedAt, true, "aaa ccc bbb ddd"),
        (TenantSort::Name, false, "ddd ccc aaa bbb"),
        (TenantSort::Status, true, "aaa bbb ccc ddd"),
    ] {
        assert_eq!(walked(sort, descending).join(" "), ids);
    }
}

#[test]
fn filters_and_search_combine() {
    let acme = tenant("acme", "Größe GmbH", 1);
    let filter = |search: &str| TenantFilter {
        search: Some(Search::new(search)),
        status: Some(TenantStatus::Active),
        parent_tenant_id: None,
    };
    for (search, matches) in [("ACM", true), ("größe g", true), ("x", false)] {
        assert_eq!(filter(search).matches(&acme), matches, "{search}");
    }
    let parent = TenantFilter {
        parent_tenant_id: Some("holding".to_owned()),
        ..filter("acme")
    };
    assert!(!parent.matches(&acme));
}
