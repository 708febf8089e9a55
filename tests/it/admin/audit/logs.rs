//! `GET /v1/admin/audit/logs`: every filter, sort and refusal, within a tenant and over all.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, key, umbra};
use crate::harness::app::TestApp;
use crate::harness::audit_chain::{append, seal_everything};
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

pub(crate) const LOGS: &str = "/v1/admin/audit/logs";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The entries of a page, each by one of its members.
pub(crate) fn members(response: &Response, name: &str) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    let rows = response.at("/logs").as_array().expect("a list");
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    rows.iter().map(|row| text(&row[name])).collect()
}

pub(crate) async fn list(app: &TestApp, query: &str) -> Response {
    app.get_as_admin(&format!("{LOGS}?{query}")).await
}

/// Four entries of a tenant and two of others, an hour apart, the oldest first: `a` to `f`.
async fn with_entries() -> (TestApp, i64) {
    let app = TestApp::spawn().await;
    let store = &app.store;
    let start_ms = store.today().plus(-3).start_ms();
    let entries: [(&str, &[(&str, &str)]); 6] = [
        (
            "acme",
            &[
                ("operation", "createBudget"),
                ("status", "201"),
                ("resource_type", "budget"),
                ("resource_id", "Ledger-1"),
                ("key_id", "key_1"),
                ("request_id", "a"),
                ("trace_id", TRACE),
            ],
        ),
        (
            "acme",
            &[
                ("operation", "fundBudget"),
                ("status", "200"),
                ("resource_type", "budget"),
                ("resource_id", "Ledger-1"),
                ("request_id", "b"),
                ("trace_id", "00000000000000000000000000000001"),
                ("metadata.amount", "5"),
            ],
        ),
        (
            "acme",
            &[
                ("operation", "POST:/v1/admin/budgets"),
                ("status", "409"),
                ("error_code", "DUPLICATE_RESOURCE"),
                ("key_id", "key_2"),
                ("request_id", "c"),
                ("trace_id", TRACE),
                ("metadata.error_message", "there is one"),
            ],
        ),
        (
            "acme",
            &[
                ("operation", "POST:/v1/admin/policies"),
                ("status", "404"),
                ("error_code", "NOT_FOUND"),
                ("key_id", "key_1"),
                ("request_id", "d"),
                ("trace_id", "00000000000000000000000000000002"),
            ],
        ),
        (
            "bolt",
            &[
                ("operation", "createPolicy"),
                ("status", "201"),
                ("resource_type", "policy"),
                ("resource_id", "pol_9"),
                ("key_id", "key_3"),
                ("request_id", "e"),
                ("trace_id", TRACE),
            ],
        ),
        (
            "__admin__",
            &[
                ("operation", "GET:/v1/admin/unknown"),
                ("status", "404"),
                ("error_code", "NOT_FOUND"),
                ("request_id", "f"),
                ("trace_id", "00000000000000000000000000000003"),
            ],
        ),
    ];
    for (hour, (tenant, fields)) in entries.into_iter().enumerate() {
        append(store, tenant, start_ms + 3_600_000 * hour as i64, fields);
    }
    seal_everything(store).await;
    (app, start_ms)
}

#[tokio::test]
async fn each_filter_works_in_one_tenant_and_over_all() {
    let (app, start_ms) = with_entries().await;
    let moment = |hour: i64| {
        let moment = budget_authority::domain::moment::Moment::from_ms(start_ms + hour * 3_600_000);
        moment.expect("a moment").to_string()
    };
    let (from, to) = (moment(1), moment(4));
    for (query, of_acme, of_all) in [
        ("", "dcba", "fedcba"),
        ("key_id=key_1", "da", "da"),
        ("key_id=key_", "", ""),
        ("resource_id=Ledger-1", "ba", "ba"),
        ("resource_id=ledger-1", "", ""),
        ("request_id=c", "c", "c"),
        ("request_id=e", "", "e"),
        (&format!("trace_id={TRACE}"), "ca", "eca"),
        ("operation=createBudget,createPolicy", "a", "ea"),
        ("operation=createBudget&operation=fundBudget", "ba", "ba"),
        ("operation=nothing", "", ""),
        ("resource_type=budget,%20policy", "ba", "eba"),
        ("error_code=NOT_FOUND", "d", "fd"),
        ("error_code=NO_SUCH_CODE", "", ""),
        ("error_code_exclude=NOT_FOUND", "cba", "ecba"),
        (
            "error_code=NOT_FOUND,DUPLICATE_RESOURCE&error_code_exclude=NOT_FOUND",
            "c",
            "c",
        ),
        ("status=404", "d", "fd"),
        ("status=7", "", ""),
        ("status_min=201&status_max=404", "da", "feda"),
        ("status_min=405", "c", "c"),
        (&format!("from={from}&to={to}"), "dcb", "edcb"),
        (&format!("from={to}&to={from}"), "", ""),
        ("search=LEDGER", "ba", "ba"),
        ("search=%20policies%20", "d", "d"),
        ("search=not_found", "d", "fd"),
        ("search=createp", "", "e"),
        ("search=log_", "dcba", "fedcba"),
        (
            &format!("trace_id={TRACE}&status=409&key_id=key_2&search=dup"),
            "c",
            "c",
        ),
        ("limit=1&operation=createBudget", "a", "a"),
        ("sort_dir=asc", "abcd", "abcdef"),
        ("surprise=1&status=&search=%20", "dcba", "fedcba"),
    ] {
        let response = list(&app, &format!("tenant_id=acme&{query}")).await;
        assert_eq!(
            members(&response, "request_id").concat(),
            of_acme,
            "acme: {query}"
        );
        let response = list(&app, query).await;
        assert_eq!(
            members(&response, "request_id").concat(),
            of_all,
            "all: {query}"
        );
    }
    for (query, expected) in [
        ("tenant_id=__admin__", "f"),
        ("tenant_id=__unauth__", ""),
        ("tenant_id=__admin__&request_id=f", "f"),
        ("tenant_id=bolt", "e"),
        ("tenant_id=nobody", ""),
        ("tenant_id=NO%20TENANT", ""),
    ] {
        let response = list(&app, query).await;
        assert_eq!(
            members(&response, "request_id").concat(),
            expected,
            "{query}"
        );
    }
}

#[tokio::test]
async fn each_sort_has_its_order_in_both_directions_and_pages_list_everything_once() {
    let (app, _) = with_entries().await;
    for (sort, ascending) in [
        ("timestamp", "abcdef"),
        ("operation", "fcdaeb"),
        ("resource_type", "ab"),
        ("tenant_id", "f"),
        ("key_id", "ad"),
        ("status", "bae"),
    ] {
        let whole = list(&app, &format!("sort_by={sort}&sort_dir=asc")).await;
        let whole = members(&whole, "request_id").concat();
        assert_eq!(whole.len(), 6, "{sort}");
        let same_ties: String = match sort {
            // Ties are by id, which begins with the partition.
            "operation" | "timestamp" => whole.clone(),
            _ => whole.chars().take(ascending.len()).collect(),
        };
        let sorted = |text: &str| {
            let mut all: Vec<char> = text.chars().collect();
            all.sort_unstable();
            all
        };
        match sort {
            "operation" | "timestamp" => assert_eq!(same_ties, ascending, "{sort}"),
            _ => assert_eq!(sorted(&same_ties), sorted(ascending), "{sort}: {whole}"),
        }
        for direction in ["asc", "desc"] {
            let (mut paged, mut cursor) = (String::new(), String::new());
            loop {
                let query = format!("sort_by={sort}&sort_dir={direction}&limit=4&cursor={cursor}");
                let response = list(&app, &query).await;
                paged += &members(&response, "request_id").concat();
                assert_eq!(
                    response.at("/has_more").as_bool(),
                    Some(response.at("/next_cursor").is_string())
                );
                match response.at("/next_cursor").as_str() {
                    Some(next) => cursor = next.to_owned(),
                    None => break,
                }
            }
            let expected: String = match direction {
                "asc" => whole.clone(),
                _ => whole.chars().rev().collect(),
            };
            assert_eq!(paged, expected, "{sort} {direction}");
        }
    }
    let by_kind = list(&app, "sort_by=resource_type&sort_dir=asc&tenant_id=acme").await;
    assert_eq!(
        members(&by_kind, "resource_type"),
        ["budget", "budget", "null", "null"],
        "what has none is last"
    );
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_its_filters_and_order() {
    let (app, _) = with_entries().await;
    let response = list(&app, "tenant_id=acme&limit=2&status_min=200").await;
    let cursor = response.text("/next_cursor").to_owned();
    let next = list(
        &app,
        &format!("tenant_id=acme&status_min=200&cursor={cursor}"),
    )
    .await;
    assert_eq!(members(&next, "request_id").concat(), "ba");
    for query in [
        "status_min=200",
        "tenant_id=bolt&status_min=200",
        "tenant_id=acme",
        "tenant_id=acme&status_min=200&operation=createBudget",
        "tenant_id=acme&status_min=200&search=x",
        "tenant_id=acme&status_min=200&sort_by=status",
        "tenant_id=acme&status_min=200&sort_dir=asc",
    ] {
        let response = list(&app, &format!("{query}&cursor={cursor}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
    }
    for forged in ["x", &cursor[1..], &format!("{cursor}A")] {
        let response = list(
            &app,
            &format!("tenant_id=acme&status_min=200&cursor={forged}"),
        )
        .await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{forged}");
    }
}

/// Rule 71.
#[tokio::test]
async fn rule_71_contradicting_filters_are_refused_and_unknown_codes_match_nothing() {
    let (app, _) = with_entries().await;
    let many: Vec<String> = (0..26).map(|number| format!("op{number}")).collect();
    for query in [
        "status=404&status_min=400".to_owned(),
        "status=404&status_max=400".to_owned(),
        "status_min=500&status_max=400".to_owned(),
        "status_min=99".to_owned(),
        "status_max=600".to_owned(),
        format!("operation={}", many.join(",")),
        format!("error_code_exclude={}", many.join("&error_code_exclude=")),
        "trace_id=123".to_owned(),
        "sort_by=log_id".to_owned(),
        format!("search={}", "x".repeat(129)),
    ] {
        let response = list(&app, &query).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        let named = query.split('=').next().expect("a name");
        assert!(
            response.text("/message").contains(&format!("'{named}'")),
            "{response:?}"
        );
    }
    let response = list(&app, &format!("operation={}", many[..25].join(","))).await;
    assert_eq!(members(&response, "log_id").len(), 0);
    let kept = list(&app, "tenant_id=acme&error_code_exclude=DUPLICATE_RESOURCE").await;
    assert_eq!(
        members(&kept, "request_id").concat(),
        "dba",
        "successes pass"
    );
    assert_eq!(
        members(&list(&app, "error_code=UNHEARD_OF").await, "log_id").len(),
        0
    );
}

/// Rule 72.
#[tokio::test]
async fn rule_72_a_failed_request_is_one_entry_with_its_path_and_code() {
    let app = umbra().await;
    let duplicate = json!({"tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS", "allocated": tokens(1)});
    let refused = app.post_as_admin(BUDGETS, duplicate).await.expect(409);
    let response = list(&app, "tenant_id=umbra&status_min=400").await;
    let rows = response.at("/logs").as_array().expect("a list");
    assert_eq!(rows.len(), 1, "{response:?}");
    assert_eq!(rows[0]["operation"], "POST:/v1/admin/budgets");
    assert_eq!(rows[0]["error_code"], "DUPLICATE_RESOURCE");
    assert_eq!(rows[0]["status"], 409);
    assert_eq!(rows[0]["request_id"], refused.text("/request_id"));
    assert_eq!(rows[0]["metadata"]["method"], "POST");
    assert_eq!(rows[0]["metadata"]["path"], "/v1/admin/budgets");
    assert_eq!(
        rows[0]["metadata"]["error_message"],
        refused.text("/message")
    );

    let wrong = [("X-Admin-API-Key", "wrong")];
    let refused = app
        .call(Method::POST, TENANTS, &wrong, &json!({}))
        .await
        .expect(401);
    seal_everything(&app.store).await;
    let query = format!("request_id={}", refused.text("/request_id"));
    let response = list(&app, &query).await;
    assert_eq!(members(&response, "tenant_id"), ["__unauth__"]);
    assert_eq!(members(&response, "operation"), ["POST:/v1/admin/tenants"]);
    assert_eq!(
        members(&list(&app, "tenant_id=__unauth__").await, "status"),
        ["401"]
    );
}

#[tokio::test]
async fn only_an_operator_reads_it_and_a_read_is_not_audited() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["admin:read", "events:read"]).await;
    let by_key = [("X-Service-API-Key", secret.as_str())];
    for headers in [&by_key[..], &[], &[("X-Admin-API-Key", "wrong")]] {
        app.call(Method::GET, LOGS, headers, &Value::Null)
            .await
            .refused(401, "UNAUTHORIZED");
    }
    app.post_as_admin(LOGS, json!({})).await.expect(405);
    for _ in 0..2 {
        let response = list(&app, "tenant_id=umbra&sort_dir=asc").await;
        assert_eq!(
            members(&response, "operation"),
            ["createTenant", "createBudget", "createApiKey"]
        );
        let row = response.at("/logs/1");
        assert_eq!(row["metadata"]["allocated"], 100);
        assert_eq!(row["metadata"]["actor_type"], "admin_on_behalf_of");
        assert_eq!(response.at("/logs/2/metadata/permissions/0"), "admin:read");
        let text = format!("{row}");
        for hidden in ["sequence", "hash", "seal"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}
