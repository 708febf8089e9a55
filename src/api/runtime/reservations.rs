//! Reads reservations.

use axum::extract::State;
use serde_json::json;

use crate::api::errors::ApiError;
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::{Declaration, Plane, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::runtime::{bind_tenant, shows_extensions};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::ledger::{Include, Reservation, ReservationFilter, ReservationSort};

list_response! {
    /// A page of reservations.
    ReservationListResponse {
        /// The reservations.
        reservations: Reservation,
        has_more { required: false }
    }
}

struct Reservations;

impl List for Reservations {
    const NAME: &'static str = "reservations";
    const PLANE: Plane = Plane::Runtime;
    const LIMIT: Limit = Limit::UpTo(200);
    const ABOUT_SORT: &'static str = "Order of the rows; equal ones are ordered by ascending id.";
    type Filter = ReservationFilter;
    type Sort = ReservationSort;
    type Response = ReservationListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<ReservationFilter, ApiError> {
        let about = "The tenant. With an API key only the key's own; required with the admin key.";
        let (tenant, segments) = parameters.levels(about)?;
        let about = "The key under which the reservation was created.";
        let schema = || json!({"type": "string", "minLength": 1, "maxLength": 256});
        let key = (IdempotencyKey::parse, "it must be 1 to 256 characters long");
        Ok(ReservationFilter {
            tenant,
            segments,
            idempotency_key: parameters.parsed("idempotency_key", about, schema, key)?,
            status: parameters.word("status", "Present status.")?,
            created: parameters.ordered_window(
                ["from", "to"],
                [
                    "Earliest time of creation, inclusive.",
                    "Latest time of creation, inclusive.",
                ],
            )?,
            expires: parameters.ordered_window(
                ["expires_from", "expires_to"],
                [
                    "Earliest time of expiry, inclusive.",
                    "Latest time of expiry, inclusive.",
                ],
            )?,
            finalized: parameters.ordered_window(
                ["finalized_from", "finalized_to"],
                [
                    "Earliest time of commit or release, inclusive.",
                    "Latest time of commit or release, inclusive.",
                ],
            )?,
            include: include(parameters),
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let named = call.list.filter.tenant.clone();
        let Some((tenant, query)) = bind_tenant(call, named.as_deref()).await? else {
            return Ok(call.list.empty_page());
        };
        let ledger = &call.state.ledger;
        let mut page = ledger.list(&call.caller, &tenant, &query).await?;
        let shows_key = query.filter.include.key_id;
        for row in &mut page.rows {
            in_dialect(row, &call.state, shows_key);
        }
        Ok(page)
    }
}

/// Leaves out what clients of the other dialect do not know.
fn in_dialect(row: &mut Reservation, state: &AppState, shows_key: bool) {
    if !shows_extensions(state) {
        row.refunded = None;
        row.key_id = row.key_id.take().filter(|_| shows_key);
    }
}

/// Comma-separated names; unknown ones are ignored.
fn include(parameters: &mut Parameters<'_>) -> Include {
    let query = parameters.other(|| {
        json!({
            "name": "include",
            "in": "query",
            "required": false,
            "description": "Additional members of each row: `metadata`, `committed_metadata`, `evidence`; and `key_id`, where rows do not have it anyway.",
            "style": "form",
            "explode": false,
            "schema": {"type": "array", "items": {"type": "string"}},
        })
    });
    let mut include = Include::default();
    for name in query.all("include").flat_map(|value| value.split(',')) {
        match name.trim() {
            "metadata" => include.metadata = true,
            "committed_metadata" => include.committed_metadata = true,
            "evidence" => include.evidence = true,
            "key_id" => include.key_id = true,
            _ => {}
        }
    }
    include
}

pub(in crate::api) const LIST: Declaration =
    list::<Reservations>("Lists reservations", "A page of reservations.");

pub(in crate::api) const GET: Declaration = declare!(get_reservation, "Gets a reservation")
    .returns::<Reservation>(200, "The reservation.")
    .refuses(&[404, 410]);

async fn get_reservation(
    State(state): State<AppState>,
    caller: Caller,
    id: ReservationId,
) -> Returns<Reservation> {
    let mut reservation = state.ledger.get(&caller, &id).await?;
    in_dialect(&mut reservation, &state, false);
    Ok(CheckedJson::ok(reservation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::{ListRequest, query_of};
    use crate::domain::ids::{DeploymentSecret, TenantId};
    use crate::domain::rows;
    use crate::listing::{Page, Position, Sort};

    fn parse(query: &str) -> ListRequest<Reservations> {
        ListRequest::parse(query).unwrap_or_else(|error| panic!("{query}: {}", error.message()))
    }

    fn filter(query: &str) -> ReservationFilter {
        parse(query).filter
    }

    fn refusal(query: &str) -> String {
        let refused = query_of::<Reservations>(query);
        refused.expect_err(query).message()
    }

    #[test]
    fn missing_and_blank_parameters_have_defaults() {
        let secret = DeploymentSecret::generate();
        let blank = "tenant=&status=%20&from=&to=&sort_by=&sort_dir=&limit=&cursor=&include=&idempotency_key=&agent=%09";
        for query in ["", blank, "surprise=1&has_action_quotas=true"] {
            let list = parse(query);
            assert_eq!(list.filter, filter(""), "{query}");
            let query = list.query(&secret).unwrap();
            let newest_first = Sort {
                by: ReservationSort::CreatedAtMs,
                descending: true,
            };
            let order = (query.sort, query.after, query.limit);
            assert_eq!(order, (newest_first, None, 50));
        }
    }

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        for (query, message) in rows(
            r"status=active => Invalid status: active; allowed: ACTIVE, COMMITTED, RELEASED, EXPIRED
            sort_dir=up => Invalid sort_dir: up; allowed: asc, desc
            limit=0 => Invalid limit: 0; it must be an integer from 1 to 200
            from=yesterday => Invalid from: yesterday; it must be a date and time such as 2026-07-04T12:00:00Z
            to=1790000000000 => Invalid to: 1790000000000; it must be a date and time such as 2026-07-04T12:00:00Z
            status=%0aX => Invalid status: \u{a}X; allowed: ACTIVE, COMMITTED, RELEASED, EXPIRED
            expires_from=2026-01-02T00:00:00Z&expires_to=2026-01-01T00:00:00Z => Invalid expires_from: 2026-01-02T00:00:00Z is after expires_to 2026-01-01T00:00:00Z
            status=ACTIVE&status=EXPIRED => Invalid status: given more than once",
        ) {
            assert_eq!(refusal(query), message);
        }
        let sorts = "allowed: reservation_id, tenant, scope_path, status, reserved";
        assert!(refusal("sort_by=price").contains(sorts));
        let long = refusal(&format!("idempotency_key={}", "k".repeat(257)));
        assert!(long.starts_with("Invalid idempotency_key: kkk"));
    }

    #[test]
    fn windows_take_offsets_escaped_or_not_and_equal_ends() {
        let at = |query: &str| filter(query).created.from_ms;
        let expected = at("from=2026-07-04T12:00:00Z");
        assert!(expected.is_some());
        assert_eq!(at("from=2026-07-04T14:00:00%2B02:00"), expected);
        assert_eq!(at("from=2026-07-04T14:00:00+02:00"), expected);
        assert_eq!(at("from=2026-07-04T12:00:00.0009Z"), expected);
        let same = filter("finalized_from=2026-07-04T12:00:00Z&finalized_to=2026-07-04T12:00:00Z")
            .finalized;
        assert!(same.contains(expected.unwrap()) && !same.contains(expected.unwrap() + 1));
    }

    #[test]
    fn include_ignores_unknown_words() {
        let include = |metadata, committed_metadata, evidence| Include {
            metadata,
            committed_metadata,
            evidence,
            key_id: false,
        };
        for (query, include) in [
            ("include=metadata,%20,bogus,", include(true, false, false)),
            (
                "include=evidence&include=committed_metadata",
                include(false, true, true),
            ),
            ("include=METADATA", include(false, false, false)),
        ] {
            assert_eq!(filter(query).include, include, "{query}");
        }
    }

    #[test]
    fn names_of_sorts_are_read_in_any_case() {
        let secret = DeploymentSecret::generate();
        let sort = |query: &str| parse(query).query(&secret).unwrap().sort;
        let ascending = Sort {
            by: ReservationSort::Reserved,
            descending: false,
        };
        assert_eq!(sort("sort_by=RESERVED&sort_dir=ASC"), ascending);
        assert_eq!(sort("sort_dir=asc").by, ReservationSort::CreatedAtMs);
    }

    #[test]
    fn a_cursor_is_valid_for_the_same_rows_in_the_same_order() {
        let secret = DeploymentSecret::generate();
        let [acme, other] = ["acme", "other"].map(|tenant| TenantId::parse(tenant).unwrap());
        let query = "sort_by=reserved&sort_dir=asc&status=ACTIVE&agent=x&from=2026-01-01T00:00:00Z";
        let sort = Sort {
            by: ReservationSort::Reserved,
            descending: false,
        };
        let of = |query: &str, tenant: &TenantId| {
            let mut list = parse(query);
            list.bind("tenant", tenant);
            list
        };
        let last = Position::new(300, "r1");
        let page = Page::<(), _>::new(Vec::new(), sort, Some(last.clone()));
        let cursor = of(query, &acme).next_cursor(&page, &secret).unwrap();
        let start = |query: &str, tenant: &TenantId| {
            of(&format!("{query}&cursor={cursor}"), tenant).query(&secret)
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
            assert_eq!((found.sort, found.after), (sort, Some(last.clone())));
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
            let changed = message.contains("sort or filters have changed");
            assert!(changed, "{message}");
        }
        assert!(start(query, &other).is_err());
    }
}
