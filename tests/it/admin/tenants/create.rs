//! Creating, reading and listing tenants.

use budget_authority::admin::{TenantFilter, TenantQuery, TenantSort};
use budget_authority::domain::refusal::{AccessRefusal, TenantRefusal};
use budget_authority::domain::search::Search;
use budget_authority::domain::tenant::TenantCreateRequest;
use budget_authority::domain::tenant::TenantStatus;

use crate::harness::admin_fixture::{AdminFixture, ask, asking, new_tenant, refusal, tenant_id};

#[tokio::test]
async fn a_create_with_the_same_id_and_name_returns_the_first_tenant() {
    let fixture = AdminFixture::new();
    let first = TenantCreateRequest {
        max_reservation_extensions: 3,
        ..new_tenant("acme", "Acme")
    };
    let (created, tenant) = fixture
        .admin
        .create_tenant(&first, &ask().request())
        .await
        .expect("created");
    assert!(created);
    assert_eq!(tenant.status, TenantStatus::Active);
    assert_eq!(
        (
            tenant.default_reservation_ttl_ms,
            tenant.max_reservation_extensions
        ),
        (Some(60_000), Some(3))
    );

    let second = TenantCreateRequest {
        max_reservation_extensions: 9,
        ..new_tenant("acme", "Acme")
    };
    let (created, found) = fixture
        .admin
        .create_tenant(&second, &ask().request())
        .await
        .expect("found");
    assert!(!created);
    assert_eq!(found.max_reservation_extensions, Some(3));
    assert_eq!(found.created_at, tenant.created_at);

    let other = fixture
        .admin
        .create_tenant(&new_tenant("acme", "Other"), &ask().request())
        .await;
    assert_eq!(
        refusal(other),
        TenantRefusal::Duplicate(tenant_id("acme")).into()
    );

    assert_eq!(fixture.event_types("acme"), ["tenant.created"]);
    let statuses: Vec<_> = fixture
        .tenant_audit("acme")
        .iter()
        .map(|entry| entry.text("status").expect("a status").to_owned())
        .collect();
    assert_eq!(statuses, ["201", "200"]);
}

#[tokio::test]
async fn one_of_two_concurrent_creates_takes_effect() {
    let fixture = AdminFixture::new();
    let (tenant, request) = (new_tenant("acme", "Acme"), ask());
    let create = || async {
        fixture
            .admin
            .create_tenant(&tenant, &request.request())
            .await
            .expect("either")
            .0
    };
    let (one, two) = tokio::join!(create(), create());
    assert!(one != two);
    assert_eq!(fixture.event_types("acme").len(), 1);
}

#[tokio::test]
async fn an_idempotency_key_replays_its_request_and_refuses_another() {
    let fixture = AdminFixture::new();
    let tenant = new_tenant("acme", "Acme");
    let create = |payload: &'static str| {
        let (fixture, tenant) = (&fixture, &tenant);
        async move {
            fixture
                .admin
                .create_tenant(tenant, &asking(Some("k"), payload).request())
                .await
        }
    };
    assert!(create("{\"a\":1}").await.expect("created").0);
    assert!(create("{\"a\":1}").await.expect("answered again").0);
    assert_eq!(
        refusal(create("{\"a\":2}").await),
        AccessRefusal::IdempotencyMismatch.into()
    );
    assert_eq!(fixture.tenant_audit("acme").len(), 1);
}

#[tokio::test]
async fn an_event_of_creation_names_the_operator() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let event = &fixture.events("acme")[0];
    assert_eq!(
        event["actor"],
        serde_json::json!({"type": "admin", "source_ip": "192.0.2.7"})
    );
    assert_eq!(event["source"], "service-admin");
    assert_eq!(
        event["data"],
        serde_json::json!({"tenant_id": "acme", "new_status": "ACTIVE", "changed_fields": []})
    );
    assert!(event.get("scope").is_none() && event.get("correlation_id").is_none());
}

#[tokio::test]
async fn a_tenant_can_be_read_in_every_status() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture.set_status("acme", "CLOSED");
    let tenant = fixture
        .admin
        .get_tenant(&tenant_id("acme"))
        .await
        .expect("a tenant");
    assert_eq!(tenant.status, TenantStatus::Closed);
    assert_eq!(
        refusal(fixture.admin.get_tenant(&tenant_id("nobody")).await),
        TenantRefusal::NotFound("nobody".to_owned()).into()
    );
    let again = fixture
        .admin
        .create_tenant(&new_tenant("acme", "acme"), &ask().request())
        .await
        .expect("found");
    assert_eq!((again.0, again.1.status), (false, TenantStatus::Closed));
}

fn query(sort: TenantSort, descending: bool) -> TenantQuery {
    TenantQuery::new(TenantFilter::default(), sort, descending, 3)
}

async fn walk(fixture: &AdminFixture, mut query: TenantQuery) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = fixture.admin.list_tenants(&query).await.expect("a page");
        assert!(page.rows.len() <= query.limit);
        assert_eq!(page.sort, query.sort);
        ids.extend(
            page.rows
                .into_iter()
                .map(|tenant| tenant.tenant_id.to_string()),
        );
        match page.next {
            Some(next) => query.after = Some(next),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn lists_are_paged_in_every_order_without_loss() {
    let fixture = AdminFixture::new();
    for id in ["ccc", "aaa", "ddd", "bbb"] {
        fixture.tenant(id).await;
        fixture.next_ms().await;
    }
    fixture.set_status("ddd", "SUSPENDED");
    // The directory may know a tenant whose record was never written.
    let directory = fixture.store.keys().directory();
    fixture.redis().run::<()>(&["ZADD", &directory, "0", "abc"]);
    for (sort, descending, ids) in [
        (TenantSort::CreatedAt, true, ["bbb", "ddd", "aaa", "ccc"]),
        (TenantSort::TenantId, false, ["aaa", "bbb", "ccc", "ddd"]),
        (TenantSort::TenantId, true, ["ddd", "ccc", "bbb", "aaa"]),
        (TenantSort::Status, true, ["ddd", "aaa", "bbb", "ccc"]),
    ] {
        assert_eq!(
            walk(&fixture, query(sort, descending)).await,
            ids,
            "{sort:?}"
        );
    }
    let mut suspended = query(TenantSort::TenantId, true);
    suspended.filter.status = Some(TenantStatus::Suspended);
    assert_eq!(walk(&fixture, suspended).await, ["ddd"]);
    let mut searched = query(TenantSort::Name, false);
    searched.filter.search = Some(Search::new("BB"));
    assert_eq!(walk(&fixture, searched).await, ["bbb"]);
}
