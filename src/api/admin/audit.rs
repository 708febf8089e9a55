//! Lists audit entries, of one tenant or of all.

use serde_json::json;

use crate::admin::audit::logs::AuditSort;
use crate::api::errors::ApiError;
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::domain::audit::AuditLogEntry;
use crate::domain::audit::query::AuditFilter;
use crate::domain::ids::TenantId;
use crate::store::target::about;

list_response! {
    /// A page of audit entries.
    AuditLogListResponse: Open {
        /// The entries, in order.
        logs: AuditLogEntry,
        has_more {}
    }
}

pub(in crate::api) const LIST: Declaration = list::<AuditEntries>(
    "Lists audit entries, of one tenant or of all",
    "A page of audit entries.",
);

/// The statuses that can be bounds.
const STATUSES: std::ops::RangeInclusive<i64> = 100..=599;

struct AuditEntries;

impl List for AuditEntries {
    const NAME: &'static str = "audit logs";
    const LIMIT: Limit = Limit::QuietlyCutTo(100);
    type Filter = AuditFilter;
    type Sort = AuditSort;
    type Response = AuditLogListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<AuditFilter, ApiError> {
        let about = "Tenant that was acted upon; `__admin__`, `__unauth__` or `__system__` for entries of no tenant. Absent: all.";
        let tenant = parameters.text("tenant_id", about)?;
        let key_id = parameters.text("key_id", "The key that acted.")?;
        let operations = parameters.list("operation", "Operations.")?;
        let resource_types = parameters.list("resource_type", "Kinds of resource.")?;
        let resource_id = parameters.text("resource_id", "Id of the resource, exactly.")?;
        let about = "Error codes. Successful requests have none.";
        let error_codes = parameters.list("error_code", about)?;
        let about = "Error codes to leave out. Successful requests stay.";
        let error_codes_excluded = parameters.list("error_code_exclude", about)?;
        let (status_min, status_max) = statuses(parameters)?;
        let window = parameters.window(
            ["from", "to"],
            ["Earliest time, inclusive.", "Latest time, inclusive."],
        )?;
        let about =
            "Text that resource id, log id, error code or operation must contain, in any case.";
        Ok(AuditFilter {
            tenant,
            key_id,
            resource_id,
            request_id: parameters.text("request_id", "Id of the request, exactly.")?,
            trace_id: parameters.trace_id("Id of the trace, exactly.")?,
            operations,
            resource_types,
            error_codes,
            error_codes_excluded,
            status_min,
            status_max,
            window,
            search: parameters.search(about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let query = call.query().await?;
        let page = call.state.audit_logs.list(&query).await;
        let tenant = query.filter.tenant.as_deref().and_then(TenantId::parse);
        Ok(about(tenant.as_ref(), page)?)
    }
}

/// The least and the highest status; one that is given exactly is both.
fn statuses(parameters: &mut Parameters<'_>) -> Result<(Option<i64>, Option<i64>), ApiError> {
    let integer = |text: &str| text.trim().parse::<i64>().ok();
    let about = "HTTP status, exactly; not together with `status_min` or `status_max`.";
    let (schema, wanted) = (|| json!({"type": "integer"}), "it must be an integer");
    let read = (integer, wanted);
    let exact = parameters.parsed("status", about, schema, read)?;
    let mut bound = |name, about| {
        let (least, most) = (*STATUSES.start(), *STATUSES.end());
        let schema = || json!({"type": "integer", "minimum": least, "maximum": most});
        let read = |text: &str| integer(text).filter(|status| STATUSES.contains(status));
        let wanted = "it must be an integer from 100 to 599";
        parameters.parsed(name, about, schema, (read, wanted))
    };
    let least = bound("status_min", "Lowest HTTP status.")?;
    let most = bound("status_max", "Highest HTTP status.")?;
    if exact.is_some() && (least.is_some() || most.is_some()) {
        let why = "it must not be given together with status_min or status_max";
        return Err(parameters.refusal("status", why));
    }
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        let why = format!("{least} is more than status_max, which is {most}");
        return Err(parameters.refusal("status_min", &why));
    }
    Ok((exact.or(least), exact.or(most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::{ListRequest, query_of};
    use crate::domain::ids::DeploymentSecret;
    use crate::domain::rows;
    use crate::listing::{Page, Position};

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        let many: Vec<String> = (0..26).map(|n| format!("op{n}")).collect();
        let repeated: Vec<String> = many.iter().map(|op| format!("operation={op}")).collect();
        let (many, repeated, long) = (many.join(","), repeated.join("&"), "x".repeat(129));
        for (query, part) in rows(&format!(
            "operation={many} => 'operation': it must have at most 25 values
            {repeated} => 'operation': it must have at most 25
            error_code_exclude={many} => 'error_code_exclude': it must have at most 25
            status=404&status_min=400 => 'status': it must not be given together with status_min or status_max
            status=404&status_max=499 => 'status': it must not
            status=4xx => 'status': 4xx; it must be an integer
            status_min=99 => 'status_min': 99; it must be an integer from 100 to 599
            status_max=600 => 'status_max': 600
            status_min=500&status_max=400 => 'status_min': 500 is more than status_max, which is 400
            trace_id=XYZ => 'trace_id': XYZ
            from=today => 'from': today
            sort_by=log_id => allowed: timestamp, operation, resource_type, tenant_id, key_id, status
            limit=many => 'limit': many
            search={long} => 'search'
            tenant_id=a&tenant_id=b => 'tenant_id'"
        )) {
            let refused = query_of::<AuditEntries>(query).expect_err(query);
            let refused = refused.message();
            assert!(refused.contains(part), "{query}: {refused}");
        }
    }

    #[test]
    fn a_list_parameter_has_two_equal_spellings() {
        let secret = DeploymentSecret::generate();
        let list = |query: &str| ListRequest::<AuditEntries>::parse(query).expect(query);
        let first = list("operation=a,b&error_code=X");
        let query = first.query(&secret).expect("a query");
        let page: Page<(), _> = Page {
            next: Some(Position::new(1, "x")),
            ..query.empty_page()
        };
        let cursor = first.next_cursor(&page, &secret).expect("a cursor");
        let read = |query: &str| {
            let next = list(&format!("{query}&cursor={cursor}")).query(&secret);
            let next = next.unwrap_or_else(|error| panic!("{query}: {}", error.message()));
            (next.filter.operations, next.filter.error_codes)
        };
        let expected = (query.filter.operations, query.filter.error_codes);
        for query in [
            "operation=a&operation=b&error_code=X",
            "operation=%20b%20,,a,a&error_code=,X,",
            "error_code=X&error_code=X&operation=b,a&limit=7&surprise=1",
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
        let parse = query_of::<AuditEntries>;
        let open = parse("operation=,%20,&status=&limit=500").expect("blank");
        assert!(open.filter.is_plain() && open.limit == 100);
        assert!(parse("status=7").is_ok(), "matches nothing");
    }
}
