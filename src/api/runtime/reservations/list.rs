//! Lists reservations.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{Reservation, ReservationListResponse, level_filters};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::operation::parameters::{self, Parameter, moment, words};
use crate::api::operation::{Declaration, Operation, json};
use crate::api::query::{self, PAGE_LIMIT_MAX, Query};
use crate::api::refusals::{ErrorContext, error_of, list_error, store_error};
use crate::api::response::{CheckedJson, Returns};
use crate::api::runtime::own_tenant;
use crate::api::sort::{Last, OrderQuery, Sort, SortKey, Start};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::{DeploymentSecret, IdempotencyKey, ReservationId, TenantId};
use crate::domain::moment::Window;
use crate::domain::record::RecordError;
use crate::domain::reservation::{ReservationSort, Status};
use crate::domain::scope::SegmentFilter;
use crate::ledger::{self, Position, ReservationPage};

const LIST: &str = "reservations";

impl SortKey for ReservationSort {
    const DEFAULT: Self = Self::CreatedAtMs;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Members of a row that are shown only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Include {
    /// `metadata`.
    pub metadata: bool,
    /// `committed_metadata`.
    pub committed_metadata: bool,
    /// `evidence`.
    pub evidence: bool,
}

impl Include {
    /// Reads comma-separated names; what it does not know it ignores.
    fn parse<'q>(values: impl Iterator<Item = &'q str>) -> Self {
        let mut include = Self::default();
        for name in values.flat_map(|value| value.split(',')) {
            match name.trim() {
                "metadata" => include.metadata = true,
                "committed_metadata" => include.committed_metadata = true,
                "evidence" => include.evidence = true,
                _ => {}
            }
        }
        include
    }
}

/// Which reservations a client asks for, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationListQuery {
    /// The tenant as it was sent. With an API key the key's own if absent; with the admin key it must be there.
    pub tenant: Option<String>,
    /// Segments that the scope must contain, below the tenant.
    pub segments: SegmentFilter,
    /// The key of the create.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The status as of now.
    pub status: Option<Status>,
    /// Bounds on the time of creation.
    pub created: Window,
    /// Bounds on the time at which the hold lapses.
    pub expires: Window,
    /// Bounds on the time of commit or release; rows that have none are outside as soon as one bound is given.
    pub finalized: Window,
    /// Members to show beside the usual.
    pub include: Include,
    /// Rows on a page.
    pub limit: usize,
    order: OrderQuery<ReservationSort>,
}

impl ReservationListQuery {
    /// What an admin is told who names no tenant.
    pub const TENANT_REQUIRED: &str =
        "tenant query parameter is required when using admin key authentication";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter, its value and what is allowed.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse(query);
        Ok(Self {
            tenant: query.get("tenant")?.map(str::to_owned),
            segments: query::segments(&query)?,
            idempotency_key: query.parsed(
                "idempotency_key",
                IdempotencyKey::parse,
                "it must be 1 to 256 characters long",
            )?,
            status: query.word("status", Status::parse, Status::WORDS)?,
            created: query::window(&query, "from", "to")?,
            expires: query::window(&query, "expires_from", "expires_to")?,
            finalized: query::window(&query, "finalized_from", "finalized_to")?,
            include: Include::parse(query.all("include")),
            limit: query::page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// The order, and the place after which the page starts. Equal values stand by ascending id, in either direction.
    ///
    /// `tenant` is the one whose reservations are listed.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query and tenant.
    pub fn start(
        &self,
        tenant: &TenantId,
        secret: &DeploymentSecret,
    ) -> Result<Start<ReservationSort>, ApiError> {
        self.order.start(LIST, &self.bound(tenant), secret)
    }

    /// The cursor of the page after a row.
    pub fn next_cursor(
        &self,
        tenant: &TenantId,
        sort: Sort<ReservationSort>,
        last: Last,
        secret: &DeploymentSecret,
    ) -> String {
        sort.cursor_after(last, LIST, &self.bound(tenant), secret)
    }

    /// All that selects rows. Neither `include` nor `limit`: they may change from page to page.
    fn bound(&self, tenant: &TenantId) -> Vec<(&'static str, String)> {
        let ms = |ms: Option<i64>| ms.map(|ms| ms.to_string()).unwrap_or_default();
        let key = self.idempotency_key.as_ref().map(ToString::to_string);
        let segments: Vec<String> = self.segments.segments().collect();
        vec![
            ("tenant", tenant.to_string()),
            ("segments", segments.join("/")),
            ("idempotency_key", key.unwrap_or_default()),
            (
                "status",
                self.status
                    .map(Status::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            ),
            ("from", ms(self.created.from_ms)),
            ("to", ms(self.created.to_ms)),
            ("expires_from", ms(self.expires.from_ms)),
            ("expires_to", ms(self.expires.to_ms)),
            ("finalized_from", ms(self.finalized.from_ms)),
            ("finalized_to", ms(self.finalized.to_ms)),
        ]
    }
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Lists reservations",
    parameters,
    request: None,
    responses: &[json::<ReservationListResponse>(
        200,
        "A page of reservations.",
    )],
    errors: &[],
    handler: |method| on(method, list_reservations),
};

fn parameters() -> Vec<Parameter> {
    let mut parameters = vec![
        parameters::query(
            "idempotency_key",
            "The key under which the reservation was created.",
            serde_json::json!({"type": "string", "minLength": 1, "maxLength": 256}),
        ),
        parameters::query("status", "The status as of now.", words(Status::WORDS)),
    ];
    parameters.extend(level_filters(
        "The tenant. With an API key only the key's own; required with the admin key.",
    ));
    parameters.extend([
        parameters::query("from", "Not created before.", moment()),
        parameters::query("to", "Not created after.", moment()),
        parameters::query("expires_from", "Not lapsing before.", moment()),
        parameters::query("expires_to", "Not lapsing after.", moment()),
        parameters::query(
            "finalized_from",
            "Not committed or released before.",
            moment(),
        ),
        parameters::query("finalized_to", "Not committed or released after.", moment()),
    ]);
    parameters.extend(parameters::sort(
        "What the rows are sorted by; equal ones stand by ascending id.",
        ReservationSort::WORDS,
        ReservationSort::DEFAULT.word(),
    ));
    parameters.extend([
        serde_json::json!({
            "name": "include",
            "in": "query",
            "required": false,
            "description": "Members to show beside the usual: `metadata`, `committed_metadata`, `evidence`.",
            "style": "form",
            "explode": false,
            "schema": {"type": "array", "items": {"type": "string"}},
        }),
        parameters::limit(PAGE_LIMIT_MAX, "Most rows on the page."),
        parameters::cursor(),
    ]);
    parameters
}

async fn list_reservations(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<ReservationListResponse> {
    let query = ReservationListQuery::parse(&query)?;
    let Some(tenant) = tenant_of(&caller, &query)? else {
        let nothing = ReservationListResponse::new(Vec::new(), None);
        return Ok(CheckedJson(StatusCode::OK, nothing));
    };
    if let Caller::Tenant(caller) = &caller {
        own_tenant(&state, caller, query.tenant.as_deref()).await?;
    }
    let secret = state.store.secret().await.map_err(store_error)?;
    let start = query.start(&tenant, secret);
    // Without the permission to list, the client does not learn what is wrong with a cursor either.
    if start.is_err()
        && let Caller::Tenant(caller) = &caller
    {
        let permission = operation.callers.permission();
        let checked = state.ledger.authenticate(caller, permission).await;
        checked.map_err(|error| error_of(error, ErrorContext::default()))?;
    }
    let Start { sort, after } = start?;
    let wanted = ledger_query(&query, &tenant, sort, after);
    let page = state.ledger.list(&caller, &wanted).await;
    let page = page.map_err(list_error)?;
    let next = page.next.clone().map(|next| {
        let last = Last {
            value: next.value,
            id: next.reservation_id,
        };
        query.next_cursor(&tenant, sort, last, secret)
    });
    let rows = rows(page, query.include)?;
    Ok(CheckedJson(
        StatusCode::OK,
        ReservationListResponse::new(rows, next),
    ))
}

/// The tenant whose reservations are listed; `None` when no tenant of the given name can exist.
fn tenant_of(caller: &Caller, query: &ReservationListQuery) -> Result<Option<TenantId>, ApiError> {
    match (caller, query.tenant.as_deref()) {
        (Caller::Tenant(caller), _) => Ok(Some(caller.tenant.clone())),
        (Caller::Admin(_), Some(named)) => Ok(TenantId::parse(named)),
        (Caller::Admin(_), None) => Err(ApiError::invalid(ReservationListQuery::TENANT_REQUIRED)),
    }
}

fn ledger_query(
    query: &ReservationListQuery,
    tenant: &TenantId,
    sort: Sort<ReservationSort>,
    after: Option<Last>,
) -> ledger::ReservationQuery {
    ledger::ReservationQuery {
        tenant: tenant.clone(),
        segments: query.segments.clone(),
        idempotency_key: query.idempotency_key.clone(),
        status: query.status,
        created: query.created,
        expires: query.expires,
        finalized: query.finalized,
        sort: sort.by,
        descending: sort.descending,
        limit: query.limit,
        after: after.map(|last| Position {
            value: last.value,
            reservation_id: last.id,
        }),
        further_fields: further_fields(query.include),
    }
}

fn further_fields(include: Include) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if include.metadata {
        fields.push("metadata");
    }
    if include.committed_metadata {
        fields.push("committed_metadata");
    }
    fields
}

fn rows(page: ReservationPage, include: Include) -> Result<Vec<Reservation>, ApiError> {
    let rows = page.rows.into_iter().map(|row| {
        let id = ReservationId::parse(&row.reservation_id);
        let id = id.ok_or_else(|| ApiError::internal(RecordError::of("reservation_id")))?;
        Reservation::of_record(id, row.status, &row.record, Some(include))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> ReservationListQuery {
        ReservationListQuery::parse(query)
            .unwrap_or_else(|error| panic!("{query}: {}", error.message()))
    }

    fn refusal(query: &str) -> String {
        ReservationListQuery::parse(query)
            .expect_err(query)
            .message()
    }

    #[test]
    fn without_parameters_or_with_blank_ones_the_defaults_hold() {
        let none = parse("");
        assert_eq!(none.limit, 50);
        let blank = "tenant=&status=%20&from=&to=&sort_by=&sort_dir=&limit=&cursor=&include=&idempotency_key=&agent=%09";
        assert_eq!(parse(blank), none);
        assert_eq!(parse("surprise=1&has_action_quotas=true"), none);
        let start = none
            .start(
                &TenantId::parse("acme").unwrap(),
                &DeploymentSecret::generate(),
            )
            .unwrap();
        let newest_first = Sort {
            by: ReservationSort::CreatedAtMs,
            descending: true,
        };
        assert_eq!((start.sort, start.after), (newest_first, None));
    }

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        for (query, message) in [
            (
                "status=active",
                "Invalid status: active; allowed: ACTIVE, COMMITTED, RELEASED, EXPIRED",
            ),
            ("sort_dir=up", "Invalid sort_dir: up; allowed: asc, desc"),
            (
                "limit=0",
                "Invalid limit: 0; it must be an integer from 1 to 200",
            ),
            (
                "from=yesterday",
                "Invalid from: yesterday; it must be a date and time such as 2026-07-04T12:00:00Z",
            ),
            (
                "to=1790000000000",
                "Invalid to: 1790000000000; it must be a date and time such as 2026-07-04T12:00:00Z",
            ),
            (
                "status=%0aX",
                "Invalid status: \\u{a}X; allowed: ACTIVE, COMMITTED, RELEASED, EXPIRED",
            ),
            (
                "expires_from=2026-01-02T00:00:00Z&expires_to=2026-01-01T00:00:00Z",
                "Invalid expires_from: 2026-01-02T00:00:00Z is after expires_to 2026-01-01T00:00:00Z",
            ),
            (
                "status=ACTIVE&status=EXPIRED",
                "Invalid status: given more than once",
            ),
        ] {
            assert_eq!(refusal(query), message);
        }
        assert!(
            refusal("sort_by=price")
                .contains("allowed: reservation_id, tenant, scope_path, status, reserved")
        );
        assert!(
            refusal(&format!("idempotency_key={}", "k".repeat(257)))
                .starts_with("Invalid idempotency_key: kkk")
        );
    }

    #[test]
    fn windows_take_offsets_escaped_or_not_and_equal_ends() {
        let at = |query: &str| parse(query).created.from_ms;
        let expected = at("from=2026-07-04T12:00:00Z");
        assert!(expected.is_some());
        assert_eq!(at("from=2026-07-04T14:00:00%2B02:00"), expected);
        assert_eq!(at("from=2026-07-04T14:00:00+02:00"), expected);
        assert_eq!(at("from=2026-07-04T12:00:00.0009Z"), expected);
        let same = parse("finalized_from=2026-07-04T12:00:00Z&finalized_to=2026-07-04T12:00:00Z")
            .finalized;
        assert!(same.contains(expected.unwrap()) && !same.contains(expected.unwrap() + 1));
    }

    #[test]
    fn include_ignores_what_it_does_not_know() {
        for (query, include) in [
            (
                "include=metadata,%20,bogus,",
                Include {
                    metadata: true,
                    ..Include::default()
                },
            ),
            (
                "include=evidence&include=committed_metadata",
                Include {
                    evidence: true,
                    committed_metadata: true,
                    metadata: false,
                },
            ),
            ("include=METADATA", Include::default()),
        ] {
            assert_eq!(parse(query).include, include, "{query}");
        }
    }

    #[test]
    fn names_of_sorts_are_read_in_any_case() {
        let sort = |query: &str| {
            let (tenant, secret) = (
                TenantId::parse("acme").unwrap(),
                DeploymentSecret::generate(),
            );
            parse(query).start(&tenant, &secret).unwrap().sort
        };
        let ascending = Sort {
            by: ReservationSort::Reserved,
            descending: false,
        };
        assert_eq!(sort("sort_by=RESERVED&sort_dir=ASC"), ascending);
        assert_eq!(sort("sort_dir=asc").by, ReservationSort::CreatedAtMs);
    }

    #[test]
    fn a_cursor_holds_for_the_same_rows_in_the_same_order() {
        let secret = DeploymentSecret::generate();
        let [acme, other] = ["acme", "other"].map(|tenant| TenantId::parse(tenant).unwrap());
        let query = "sort_by=reserved&sort_dir=asc&status=ACTIVE&agent=x&from=2026-01-01T00:00:00Z";
        let sort = Sort {
            by: ReservationSort::Reserved,
            descending: false,
        };
        let last = Last {
            value: "300".to_owned(),
            id: "r1".to_owned(),
        };
        let cursor = parse(query).next_cursor(&acme, sort, last.clone(), &secret);
        let start = |query: &str, tenant: &TenantId| {
            parse(&format!("{query}&cursor={cursor}")).start(tenant, &secret)
        };
        let open = "status=ACTIVE&agent=X&from=2026-01-01T01:00:00%2B01:00";
        for same in [
            query,
            open,
            &format!("{open}&sort_dir=asc"),
            &format!("{query}&limit=7&include=metadata&tenant=acme"),
        ] {
            let found =
                start(same, &acme).unwrap_or_else(|error| panic!("{same}: {}", error.message()));
            assert_eq!(
                found,
                Start {
                    sort,
                    after: Some(last.clone())
                }
            );
        }
        for stale in [
            query.replace("sort_by=reserved", "sort_by=status"),
            query.replace("sort_dir=asc", "sort_dir=desc"),
            query.replace("status=ACTIVE", "status=EXPIRED"),
            query.replace("agent=x", "app=x"),
            query.replace("from=2026-01-01", "from=2026-01-02"),
            format!("{query}&to=2027-01-01T00:00:00Z"),
            format!("{query}&expires_to=2027-01-01T00:00:00Z"),
            format!("{query}&finalized_from=2026-01-01T00:00:00Z"),
            format!("{query}&idempotency_key=k"),
        ] {
            let message = start(&stale, &acme).expect_err(&stale).message();
            assert!(
                message.contains("sort or filters have changed"),
                "{message}"
            );
        }
        assert!(start(query, &other).is_err());
    }
}
