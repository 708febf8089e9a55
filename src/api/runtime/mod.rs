//! The runtime plane: what agents and their gateways call.

pub mod refunds;
pub mod reservations;
pub mod usage;
pub mod usage_events;

use serde_json::json;

use crate::api::errors::ApiError;
use crate::api::extract::{RuntimeCall, runtime_bodies};
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::parameters::query as parameter;
use crate::api::operation::{Declaration, Plane, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::budget::Balance;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::dialect::Dialect;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::refusal::AccessRefusal;
use crate::domain::reservation::{
    CommitRequest, CommitResponse, DecisionRequest, DecisionResponse, RefundRequest,
    ReleaseRequest, ReleaseResponse, ReservationCreateRequest, ReservationCreateResponse,
};
use crate::domain::scope::Level;
use crate::evidence::Endpoint;
use crate::ledger::{
    BalanceFilter, EventCreateRequest, EventCreateResponse, ReservationExtendRequest,
    ReservationExtendResponse,
};
use crate::listing::{ListQuery, OneOrder};
use crate::store::StoreError;

runtime_bodies!(
    DecisionRequest: Some(Endpoint::Decide),
    ReservationCreateRequest: Some(Endpoint::Reserve),
    CommitRequest: Some(Endpoint::Commit),
    ReleaseRequest: Some(Endpoint::Release),
    RefundRequest: None,
    ReservationExtendRequest: None,
    EventCreateRequest: None,
);

pub(in crate::api) const DECIDE: Declaration = declare!(
    decide,
    "Decides whether an action would be allowed; holds nothing"
)
.takes_change::<DecisionRequest>()
.returns::<DecisionResponse>(200, "The decision, a denial included.")
.refuses(&[409]);

async fn decide(call: RuntimeCall<DecisionRequest>) -> Returns<DecisionResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let mut decision = ledger.decide(caller, &call.body, &call.cause).await?;
    decision.observed = decision.observed.filter(|_| shows_extensions(&call.state));
    Ok(CheckedJson::ok(decision))
}

/// Clients of the other dialect refuse members that they do not know.
pub(super) fn shows_extensions(state: &AppState) -> bool {
    state.dialect == Dialect::Service
}

pub(in crate::api) const RESERVE: Declaration = declare!(
    reserve,
    "Holds an amount on every budget that encloses the subject, or on none"
)
.takes_change::<ReservationCreateRequest>()
.returns::<ReservationCreateResponse>(200, "The hold, or the outcome of a dry run.")
.refuses(&[404, 409]);

async fn reserve(
    call: RuntimeCall<ReservationCreateRequest>,
) -> Returns<ReservationCreateResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let mut held = ledger.reserve(caller, &call.body, &call.cause).await?;
    held.observed = held.observed.filter(|_| shows_extensions(&call.state));
    Ok(CheckedJson::ok(held))
}

pub(in crate::api) const COMMIT: Declaration = declare!(
    commit,
    "Charges what an action cost and returns the rest of its hold"
)
.takes_change::<CommitRequest>()
.returns::<CommitResponse>(200, "The charged amount.")
.refuses(&[404, 409, 410]);

async fn commit(call: RuntimeCall<CommitRequest, ReservationId>) -> Returns<CommitResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let committed = ledger.commit(caller, &call.path, &call.body, &call.cause);
    Ok(CheckedJson::ok(committed.await?))
}

pub(in crate::api) const RELEASE: Declaration =
    declare!(release, "Returns a hold without a charge")
        .takes_change::<ReleaseRequest>()
        .returns::<ReleaseResponse>(200, "The returned amount.")
        .refuses(&[404, 409, 410]);

async fn release(
    call: RuntimeCall<ReleaseRequest, ReservationId, Caller>,
) -> Returns<ReleaseResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let released = ledger.release(caller, &call.path, &call.body, &call.cause);
    Ok(CheckedJson::ok(released.await?))
}

pub(in crate::api) const EXTEND: Declaration = declare!(extend, "Extends a reservation")
    .takes_change::<ReservationExtendRequest>()
    .returns::<ReservationExtendResponse>(200, "The new expiry.")
    .refuses(&[404, 409, 410]);

async fn extend(
    call: RuntimeCall<ReservationExtendRequest, ReservationId>,
) -> Returns<ReservationExtendResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let extended = ledger.extend(caller, &call.path, &call.body, &call.cause);
    Ok(CheckedJson::ok(extended.await?))
}

pub(in crate::api) const CREATE_EVENT: Declaration = declare!(
    create_event,
    "Charges what was already spent, without a reservation"
)
.takes_change::<EventCreateRequest>()
.returns::<EventCreateResponse>(201, "The charged amount.")
.refuses(&[404, 409]);

async fn create_event(call: RuntimeCall<EventCreateRequest>) -> Returns<EventCreateResponse> {
    let (ledger, caller) = (&call.state.ledger, &call.caller);
    let charged = ledger.charge(caller, &call.body, &call.cause);
    Ok(CheckedJson::created(charged.await?))
}

/// A tenant may name itself in a filter, and nobody else.
///
/// # Errors
/// 403 for another tenant; before that, 401 when the key is not valid.
async fn own_tenant(
    state: &AppState,
    caller: &RuntimeCaller,
    named: Option<&str>,
) -> Result<(), ApiError> {
    if named.is_none_or(|named| named == caller.tenant.as_str()) {
        return Ok(());
    }
    state.ledger.authenticate(caller, "").await?;
    Err(StoreError::from(AccessRefusal::OtherTenant).into())
}

/// Binds the cursors of a list to its tenant; `None` when no tenant of the given name can exist.
///
/// # Errors
/// Refused is another tenant than the key's, and a cursor of another list.
async fn bind_tenant<L: List>(
    call: &mut ListCall<L>,
    named: Option<&str>,
) -> Result<Option<(TenantId, ListQuery<L::Filter, L::Sort>)>, ApiError> {
    let Some(tenant) = tenant_of(&call.caller, named)? else {
        return Ok(None);
    };
    if let Caller::Tenant(caller) = &call.caller {
        own_tenant(&call.state, caller, named).await?;
    }
    call.list.bind("tenant", &tenant);
    let (ledger, query) = (&call.state.ledger, call.query().await);
    // Without the permission to list, the client does not learn what is wrong with a cursor either.
    if let (Err(_), Caller::Tenant(caller)) = (&query, &call.caller) {
        let permission = call.operation.callers.permission();
        ledger.authenticate(caller, permission).await?;
    }
    Ok(Some((tenant, query?)))
}

/// The tenant whose rows are listed; `None` when no tenant of the given name can exist.
fn tenant_of(caller: &Caller, named: Option<&str>) -> Result<Option<TenantId>, ApiError> {
    match (caller, named) {
        (Caller::Tenant(caller), _) => Ok(Some(caller.tenant.clone())),
        (Caller::Admin(_), Some(named)) => Ok(TenantId::parse(named)),
        (Caller::Admin(_), None) => Err(ApiError::invalid(
            "tenant query parameter is required when using admin key authentication",
        )),
    }
}

list_response! {
    /// A page of balances, by scope path and then unit.
    BalanceResponse {
        /// The budgets.
        balances: Balance,
        has_more { required: false }
    }
}

struct Balances;

impl List for Balances {
    const NAME: &'static str = "balances";
    const PLANE: Plane = Plane::Runtime;
    const LIMIT: Limit = Limit::UpTo(200);
    type Filter = BalanceFilter;
    type Sort = OneOrder;
    type Response = BalanceResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<BalanceFilter, ApiError> {
        let about = "Tenant of the API key. At least one level is required.";
        let (tenant, segments) = parameters.levels(about)?;
        parameters.require(tenant.is_some() || !segments.is_empty(), || {
            let levels = Level::WORDS.join(", ");
            ApiError::invalid(format!("At least one of {levels} is required as a filter"))
        })?;
        let children = parameters.other(|| {
            let about = "Without effect: deeper scopes are always included.";
            let schema = json!({"type": "boolean", "default": false});
            parameter("include_children", about, schema)
        });
        children.word(
            "include_children",
            |word| word.parse::<bool>().ok(),
            &["true", "false"],
        )?;
        Ok(BalanceFilter { tenant, segments })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let tenant = call.tenant_caller()?.tenant.clone();
        call.list.bind("tenant", tenant);
        let (caller, query) = (call.tenant_caller()?, call.query().await?);
        own_tenant(&call.state, caller, query.filter.tenant.as_deref()).await?;
        Ok(call.state.ledger.balances(caller, &query).await?)
    }
}

pub(in crate::api) const LIST_BALANCES: Declaration =
    list::<Balances>("Lists the balances of budgets", "A page of balances.");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::{ListRequest, query_of};
    use crate::domain::ids::{DeploymentSecret, TenantId};
    use crate::domain::rows;
    use crate::domain::scope::SegmentFilter;
    use crate::listing::{Page, Position, Sort};

    fn parse(query: &str) -> ListRequest<Balances> {
        ListRequest::parse(query).unwrap_or_else(|error| panic!("{query}: {}", error.message()))
    }

    fn refusal(query: &str) -> String {
        let refused = query_of::<Balances>(query);
        refused.expect_err(query).message()
    }

    #[test]
    fn a_filter_is_required_and_a_blank_one_is_ignored() {
        for query in [
            "",
            "limit=10",
            "tenant=",
            "tenant=%20%20&agent=",
            "team=x",
            "include_children=true",
        ] {
            let required = "At least one of tenant, workspace, app, workflow, agent, toolset is required as a filter";
            assert_eq!(refusal(query), required, "{query}");
        }
        let list = parse("workspace=Prod&agent=%20&unknown=1&include_children=false");
        let prod = SegmentFilter::new([(Level::Workspace, "prod")]);
        assert_eq!(list.filter.segments, prod);
        assert_eq!(list.filter.tenant, None);
        let query = list.query(&DeploymentSecret::generate()).unwrap();
        assert_eq!(query.limit, 50);
    }

    #[test]
    fn parameters_are_named_when_they_are_wrong() {
        for (query, message) in rows(
            "agent=a&limit=0 => Invalid limit: 0; it must be an integer from 1 to 200
            agent=a&limit=201 => Invalid limit: 201; it must be an integer from 1 to 200
            agent=a&limit=abc => Invalid limit: abc; it must be an integer from 1 to 200
            agent=a&limit=%2B5 => Invalid limit: +5; it must be an integer from 1 to 200
            agent=a&include_children=yes => Invalid include_children: yes; allowed: true, false
            agent=a&agent=b => Invalid agent: given more than once",
        ) {
            assert_eq!(refusal(query), message);
        }
    }

    #[test]
    fn a_cursor_continues_after_its_row_and_is_bound_to_tenant_and_filters() {
        let secret = DeploymentSecret::generate();
        let [acme, other] = ["acme", "other"].map(|tenant| TenantId::parse(tenant).unwrap());
        let of = |query: &str, tenant: &TenantId| {
            let mut list = parse(query);
            list.bind("tenant", tenant);
            list
        };
        let last = Position::of_id("tenant:acme/agent:x 2 CREDITS");
        let sort = Sort {
            by: OneOrder::Only,
            descending: true,
        };
        let page = Page::<(), _>::new(Vec::new(), sort, Some(last.clone()));
        let first = of("agent=x&limit=1", &acme);
        let cursor = first.next_cursor(&page, &secret).unwrap();
        let next = |query: &str, tenant: &TenantId| {
            of(&format!("{query}&cursor={cursor}"), tenant).query(&secret)
        };
        for query in [
            "agent=x",
            "agent=X&limit=200",
            "agent=x&tenant=acme",
            "agent=x&include_children=true",
        ] {
            let after = next(query, &acme).unwrap().after;
            assert_eq!(after, Some(last.clone()), "{query}");
        }
        assert!(next("agent=x", &other).is_err());
        assert!(next("agent=y", &acme).is_err());
        assert!(next("agent=x&app=a", &acme).is_err());
    }

    #[test]
    fn a_value_with_a_slash_is_not_two_segments() {
        let bound = |query: &str| {
            let mut parameters = Parameters::reading(query, Plane::Runtime);
            Balances::filter(&mut parameters).expect(query);
            parameters.bound()
        };
        assert_eq!(bound("workspace=A&app=b"), bound("app=B&workspace=a"));
        assert_ne!(bound("workspace=a&app=b"), bound("workspace=a/app:b"));
    }
}
