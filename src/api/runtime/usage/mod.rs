//! Reports of usage: pages of groups in JSON, or all of them as CSV.

mod csv;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::routing::on;
use serde_json::json;

use crate::api::admin::extract::PathId;
use crate::api::errors::ApiError;
use crate::api::list::{
    self, Limit, List, ListCall, ListRequest, ListResponse, Parameters, ReturnsPage, respond,
};
use crate::api::operation::parameters::{self, text, words};
use crate::api::operation::{Declaration, Operation, Plane};
use crate::api::runtime::own_tenant;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{Refusal, TooManySorts};
use crate::domain::scope::ScopeFilter;
use crate::domain::usage::UsageGroup;
use crate::ledger::{UsageFilter, UsageReport, UsageRow};
use crate::listing::{Coverage, OneOrder, Page, Position, Sort, SortPermits};
use crate::store::{Day, StoreError};

object! {
    /// A page of a report of usage.
    #[derive(Debug)]
    pub struct UsageResponse: Serialize {
        /// The groups, by what was charged, the most first.
        pub usage: Vec<UsageRow>,
        /// Whether all that was asked for is in the report. `false`: some of it is only known as a sum of the day, of which an API key
        /// with a scope filter, or a filter, sees nothing.
        pub complete: bool,
        /// The first day of which usage is known.
        pub complete_from: String,
        /// Cursor of the next page. Absent on the last page.
        pub next_cursor: Option<String>,
        /// Whether there is a next page; it may be empty.
        pub has_more: bool,
    }
}

impl ListResponse for UsageResponse {
    type Row = UsageRow;

    fn new(usage: Vec<UsageRow>, next_cursor: Option<String>) -> Self {
        Self {
            usage,
            complete: true,
            complete_from: String::new(),
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }

    fn covering(self, coverage: Option<Coverage>) -> Self {
        match coverage {
            Some(coverage) => Self {
                complete: coverage.is_complete,
                complete_from: coverage.from,
                ..self
            },
            None => self,
        }
    }
}

/// The usage of the API key's tenant.
struct OwnUsage;

impl List for OwnUsage {
    const NAME: &'static str = "usage";
    const PLANE: Plane = Plane::Runtime;
    const LIMIT: Limit = Limit::UpTo(1_000);
    type Filter = UsageFilter;
    type Sort = OneOrder;
    type Response = UsageResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<UsageFilter, ApiError> {
        let tenant = parameters.unbound_text("tenant", "The tenant of the API key.")?;
        filter(parameters, tenant)
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        page(call).await
    }
}

/// The usage of any tenant, for the operator.
struct TenantUsage;

impl List for TenantUsage {
    const NAME: &'static str = "tenant usage";
    const LIMIT: Limit = Limit::UpTo(1_000);
    type Filter = UsageFilter;
    type Sort = OneOrder;
    type Response = UsageResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<UsageFilter, ApiError> {
        let (schema, wanted) = (text, "it must be the id of a tenant");
        let read = (TenantId::parse, wanted);
        let tenant = parameters.parsed("tenant_id", "Tenant. Required.", schema, read)?;
        let tenant = tenant.map(|tenant| tenant.to_string());
        let missing = || ApiError::invalid("Missing required parameter: tenant_id");
        parameters.require(tenant.is_some(), missing)?;
        filter(parameters, tenant)
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        page(call).await
    }
}

pub(in crate::api) const USAGE: Declaration = usage::<OwnUsage>("Reports what was used");
pub(in crate::api) const TENANT_USAGE: Declaration =
    usage::<TenantUsage>("Reports what a tenant used");

const fn usage<L: List<Filter = UsageFilter, Sort = OneOrder>>(
    summary: &'static str,
) -> Declaration {
    Declaration::new(summary, |method| on(method, respond_either::<L>))
        .query(list::parameters::<L>)
        .returns::<L::Response>(
            200,
            "A page of groups; with `Accept: text/csv`, all of them as CSV.",
        )
}

/// JSON, page by page, or CSV.
async fn respond_either<L: List<Filter = UsageFilter, Sort = OneOrder>>(
    state: State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    path_id: PathId,
    headers: HeaderMap,
    query: RawQuery,
) -> Result<Response, ApiError> {
    let text = query.0.as_deref().unwrap_or_default();
    let mut parameters = Parameters::reading(text, L::PLANE);
    let is_focus = format_of(&mut parameters)?;
    let is_csv = is_focus || prefers_csv(&headers);
    if !is_csv {
        return respond::<L>(state, operation, caller, path_id, query).await;
    }
    for name in ["limit", "cursor"] {
        if parameters.unbound_text(name, "")?.is_some() {
            return Err(parameters.refusal(name, "CSV has all rows; leave it out"));
        }
    }
    let mut filter = ListRequest::<L>::parse(text)?.filter;
    if is_focus {
        csv::for_focus(&mut filter, &parameters)?;
    }
    let (tenant, report) = report(&state, &caller, &filter).await?;
    match is_focus {
        true => csv::focus(&state, &tenant, report).await,
        false => csv::table(report),
    }
}

/// Whether CSV comes first among the types that a client accepts.
fn prefers_csv(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut types = values
        .flat_map(|value| value.split(','))
        .filter_map(|it| it.split(';').next());
    types
        .find(|it| ["text/csv", "application/json", "*/*"].contains(&it.trim()))
        .is_some_and(|it| it.trim() == "text/csv")
}

/// Declares the parameter `format`: whether it asks for the columns of FOCUS.
fn format_of(parameters: &mut Parameters<'_>) -> Result<bool, ApiError> {
    let about = "`focus`: CSV with the columns of FOCUS 1.2, of what was charged in `USD_MICROCENTS`; a row for each group and day.";
    let format = parameters.other(|| parameters::query("format", about, words(&["focus"])));
    let is_focus = |text: &str| (text == "focus").then_some(());
    Ok(format.word("format", is_focus, &["focus"])?.is_some())
}

/// Declares the other parameters.
fn filter(
    parameters: &mut Parameters<'_>,
    tenant: Option<String>,
) -> Result<UsageFilter, ApiError> {
    let mut day = |name, about| {
        let schema = || json!({"type": "string", "format": "date"});
        let wanted = "it must be a day such as 2026-07-04";
        parameters.parsed(name, about, schema, (Written::day, wanted))
    };
    let about = "First day, in UTC; 29 days before the last one if absent.";
    let from = day("from", about)?.map(|day| day.0);
    let to = day("to", "Last day, in UTC; today if absent.")?.map(|day| day.0);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        let what = format!("{} is after to {}", from.date(), to.date());
        return Err(parameters.refusal("from", &what));
    }
    let about =
        "What makes a group: any of these, separated by commas. Absent: one group for each unit.";
    let schema =
        || json!({"type": "array", "items": words(UsageGroup::WORDS), "uniqueItems": true});
    let wanted = format!(
        "it must be any of {}, separated by commas, each once",
        UsageGroup::WORDS.join(", ")
    );
    let groups = parameters.parsed("group_by", about, schema, (Written::groups, &wanted))?;
    let filter = UsageFilter {
        tenant,
        from,
        to,
        unit: parameters.word("unit", "Unit.")?,
        segments: parameters.segments()?,
        action_kind: parameters.text("action_kind", "Kind of the action.")?,
        action_name: parameters.text("action_name", "Name of the action.")?,
        key_id: parameters.text(
            "key_id",
            "The API key that reserved, or reported the usage event.",
        )?,
        groups: groups.map(|groups| groups.0).unwrap_or_default(),
    };
    format_of(parameters)?;
    Ok(filter)
}

/// A value of a parameter, and its text for cursors.
struct Written<T>(T, String);

impl<T> std::fmt::Display for Written<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl Written<Day> {
    fn day(text: &str) -> Option<Self> {
        Some(Self(Day::parse_date(text.trim())?, text.trim().to_owned()))
    }
}

impl Written<Vec<UsageGroup>> {
    fn groups(text: &str) -> Option<Self> {
        let mut groups = Vec::new();
        for word in text.split(',') {
            let group = UsageGroup::parse(word.trim()).filter(|group| !groups.contains(group))?;
            groups.push(group);
        }
        Some(Self(groups, text.to_owned()))
    }
}

/// A page of the groups of a report, which is made anew for each page.
async fn page<L: List<Filter = UsageFilter, Sort = OneOrder>>(
    call: &mut ListCall<L>,
) -> Result<Page<UsageRow, OneOrder>, ApiError> {
    if let Caller::Tenant(caller) = &call.caller {
        let tenant = caller.tenant.clone();
        call.list.bind("tenant", tenant);
    }
    let query = call.query().await;
    let filter = query
        .as_ref()
        .map_or_else(|_| call.list.filter.clone(), |query| query.filter.clone());
    // Without the permission, the client does not learn what is wrong with a cursor.
    if query.is_err() {
        permitted(&call.state, &call.caller, &filter).await?;
    }
    let query = query?;
    let (_, report) = report(&call.state, &call.caller, &filter).await?;
    let sort = Sort {
        by: OneOrder::Only,
        descending: true,
    };
    let coverage = Coverage {
        is_complete: report.is_complete,
        from: report.complete_from.date(),
    };
    let by = report.groups.by().to_owned();
    let position = |key: &str, charged: i64| (std::cmp::Reverse(charged), key.to_owned());
    let after = query
        .after
        .map(|after| position(&after.id, after.number().unwrap_or_default()));
    let rest = report.groups.sorted().into_iter();
    let rest = rest.skip_while(|(key, sum)| {
        after
            .as_ref()
            .is_some_and(|after| position(key, sum.used.charged) <= *after)
    });
    let mut rows: Vec<_> = rest.take(query.limit + 1).collect();
    let has_more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let last = rows.last().filter(|_| has_more);
    let next = last.map(|(key, sum)| Position::new(sum.used.charged, key));
    let rows = rows
        .into_iter()
        .filter_map(|(_, sum)| sum.row(&by))
        .collect();
    Ok(Page {
        coverage: Some(coverage),
        ..Page::new(rows, sort, next)
    })
}

/// The tenant that a request is about, and the fence of the caller.
///
/// # Errors
/// Refused is another tenant than the key's, and a key without the permission.
async fn permitted(
    state: &AppState,
    caller: &Caller,
    filter: &UsageFilter,
) -> Result<(TenantId, ScopeFilter), ApiError> {
    let named = filter.tenant.as_deref();
    match caller {
        Caller::Admin(_) => {
            let tenant = named.and_then(TenantId::parse);
            let tenant = tenant.ok_or_else(|| ApiError::internal("no tenant is named"))?;
            Ok((tenant, ScopeFilter::default()))
        }
        Caller::Tenant(caller) => {
            own_tenant(state, caller, named).await?;
            let fence = state.ledger.authenticate(caller, "balances:read").await?;
            Ok((caller.tenant.clone(), fence))
        }
    }
}

/// The report of a request, and the tenant that it is about.
async fn report(
    state: &AppState,
    caller: &Caller,
    filter: &UsageFilter,
) -> Result<(TenantId, UsageReport), ApiError> {
    let (tenant, fence) = permitted(state, caller, filter).await?;
    let permit = state.list_limits.sorts.take(&tenant).ok_or_else(|| {
        StoreError::from(Refusal::from(TooManySorts {
            tenant: tenant.clone(),
            limit: SortPermits::PER_TENANT,
            advice: "ask for fewer days",
        }))
    })?;
    let report = state.ledger.usage(&fence, &tenant, filter).await?;
    drop(permit);
    Ok((tenant, report))
}
