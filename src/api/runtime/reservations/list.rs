//! What a client may ask of the list of reservations.

use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey, Start};
use crate::domain::ids::{DeploymentSecret, IdempotencyKey, TenantId};
use crate::domain::moment::Window;
use crate::domain::reservation::{ReservationSort, Status};
use crate::domain::scope::SegmentFilter;

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
