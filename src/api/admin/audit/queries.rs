//! The query string of the audit log.

use crate::admin::audit::logs::AuditQuery;
use crate::admin::log_walk::Place;
use crate::api::admin::events::queries::{is_trace, window};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey};
use crate::domain::audit::query::{AuditFilter, AuditSort};
use crate::domain::ids::{DeploymentSecret, TenantId};

/// Most values of a list.
pub const LIST_VALUES_MAX: usize = 25;
/// The statuses that can be bounds.
pub const STATUSES: std::ops::RangeInclusive<i64> = 100..=599;

impl SortKey for AuditSort {
    const DEFAULT: Self = Self::Timestamp;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which entries an operator asks for.
#[derive(Debug)]
pub struct AuditListQuery {
    filter: AuditFilter,
    limit: usize,
    order: OrderQuery<AuditSort>,
}

impl AuditListQuery {
    const LIST: &'static str = "audit logs";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let search = query.text("search", query::SEARCH_CHARS_MAX)?;
        let (status_min, status_max) = statuses(&query)?;
        let filter = AuditFilter {
            tenant: query.get("tenant_id")?.map(str::to_owned),
            key_id: query.get("key_id")?.map(str::to_owned),
            resource_id: query.get("resource_id")?.map(str::to_owned),
            request_id: query.get("request_id")?.map(str::to_owned),
            trace_id: query.parsed(
                "trace_id",
                is_trace,
                "it must have 32 lower-case hexadecimal digits",
            )?,
            operations: list(&query, "operation")?,
            resource_types: list(&query, "resource_type")?,
            error_codes: list(&query, "error_code")?,
            error_codes_excluded: list(&query, "error_code_exclude")?,
            status_min,
            status_max,
            window: window(&query)?,
            search: search.map(|text| text.trim().to_lowercase()),
        };
        Ok(Self {
            filter,
            limit: query::admin_page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// The tenant whose entries are asked for.
    pub fn tenant(&self) -> Option<TenantId> {
        self.filter.tenant.as_deref().and_then(TenantId::parse)
    }

    /// What is asked for, and its order.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(
        &self,
        secret: &DeploymentSecret,
    ) -> Result<(AuditQuery, Sort<AuditSort>), ApiError> {
        let start = self.order.start(Self::LIST, &self.bound(), secret)?;
        let query = AuditQuery {
            filter: self.filter.clone(),
            sort: start.sort.by,
            descending: start.sort.descending,
            after: start.after.map(|last| Place {
                value: last.value,
                id: last.id,
            }),
            limit: self.limit,
        };
        Ok((query, start.sort))
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(
        &self,
        sort: Sort<AuditSort>,
        place: Place,
        secret: &DeploymentSecret,
    ) -> String {
        let last = Last {
            value: place.value,
            id: place.id,
        };
        sort.cursor_after(last, Self::LIST, &self.bound(), secret)
    }

    /// All that selects rows.
    fn bound(&self) -> Vec<(&'static str, String)> {
        let filter = &self.filter;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let number = |number: Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
        vec![
            ("tenant_id", text(&filter.tenant)),
            ("key_id", text(&filter.key_id)),
            ("resource_id", text(&filter.resource_id)),
            ("request_id", text(&filter.request_id)),
            ("trace_id", text(&filter.trace_id)),
            ("operation", filter.operations.join(",")),
            ("resource_type", filter.resource_types.join(",")),
            ("error_code", filter.error_codes.join(",")),
            ("error_code_exclude", filter.error_codes_excluded.join(",")),
            ("status_min", number(filter.status_min)),
            ("status_max", number(filter.status_max)),
            ("from", number(filter.window.from_ms)),
            ("to", number(filter.window.to_ms)),
            ("search", text(&filter.search)),
        ]
    }
}

/// The values of a parameter, written `a,b` or given several times, each once and sorted: their order says nothing.
fn list(query: &Query<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let parts = query.all(name).flat_map(|text| text.split(','));
    let mut values: Vec<String> = parts
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect();
    values.sort();
    values.dedup();
    match values.len() <= LIST_VALUES_MAX {
        true => Ok(values),
        false => Err(query.refusal(
            name,
            &format!("it must have at most {LIST_VALUES_MAX} values"),
        )),
    }
}

/// The least and the highest status; one that is given exactly is both.
fn statuses(query: &Query<'_>) -> Result<(Option<i64>, Option<i64>), ApiError> {
    let integer = |text: &str| text.trim().parse::<i64>().ok();
    let exact = query.parsed("status", integer, "it must be an integer")?;
    let bound = |name: &str| {
        let read = |text: &str| integer(text).filter(|status| STATUSES.contains(status));
        query.parsed(name, read, "it must be an integer from 100 to 599")
    };
    let (least, most) = (bound("status_min")?, bound("status_max")?);
    if exact.is_some() && (least.is_some() || most.is_some()) {
        let why = "it must not be given together with status_min or status_max";
        return Err(query.refusal("status", why));
    }
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        let why = format!("{least} is more than status_max, which is {most}");
        return Err(query.refusal("status_min", &why));
    }
    Ok((exact.or(least), exact.or(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        let many: Vec<String> = (0..26).map(|n| format!("op{n}")).collect();
        let repeated: Vec<String> = many.iter().map(|op| format!("operation={op}")).collect();
        for (query, part) in [
            (
                format!("operation={}", many.join(",")),
                "'operation': it must have at most 25 values",
            ),
            (repeated.join("&"), "'operation': it must have at most 25"),
            (
                format!("error_code_exclude={}", many.join(",")),
                "'error_code_exclude': it must have at most 25",
            ),
            (
                "status=404&status_min=400".to_owned(),
                "'status': it must not be given together with status_min or status_max",
            ),
            (
                "status=404&status_max=499".to_owned(),
                "'status': it must not",
            ),
            (
                "status=4xx".to_owned(),
                "'status': 4xx; it must be an integer",
            ),
            (
                "status_min=99".to_owned(),
                "'status_min': 99; it must be an integer from 100 to 599",
            ),
            ("status_max=600".to_owned(), "'status_max': 600"),
            (
                "status_min=500&status_max=400".to_owned(),
                "'status_min': 500 is more than status_max, which is 400",
            ),
            ("trace_id=XYZ".to_owned(), "'trace_id': XYZ"),
            ("from=today".to_owned(), "'from': today"),
            (
                "sort_by=log_id".to_owned(),
                "allowed: timestamp, operation, resource_type, tenant_id, key_id, status",
            ),
            ("limit=many".to_owned(), "'limit': many"),
            (format!("search={}", "x".repeat(129)), "'search'"),
            ("tenant_id=a&tenant_id=b".to_owned(), "'tenant_id'"),
        ] {
            let refused = AuditListQuery::parse(&query).expect_err(&query).message();
            assert!(refused.contains(part), "{query}: {refused}");
        }
    }

    #[test]
    fn a_list_is_the_same_however_it_is_written() {
        let read = |query: &str| AuditListQuery::parse(query).expect(query).bound();
        let expected = read("operation=a,b&error_code=X");
        for query in [
            "operation=a&operation=b&error_code=X",
            "operation=%20b%20,,a,a&error_code=,X,",
            "error_code=X&error_code=X&operation=b,a&limit=7&surprise=1",
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
        let open = AuditListQuery::parse("operation=,%20,&status=&limit=500").expect("blank");
        assert!(open.filter.is_plain() && open.limit == 100);
        assert!(AuditListQuery::parse("status=7").is_ok(), "matches nothing");
    }
}
