//! The routes of both planes, made from the index, and their names in metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::routing::MethodRouter;
use tower::ServiceExt;

use crate::api::auth::authenticate::{Guard, authenticate};
use crate::api::errors::{ApiError, Code};
use crate::api::evidence;
use crate::api::openapi;
use crate::api::operation::{Callers, Operation, Plane};
use crate::api::operations::OperationId;
use crate::api::state::{AppState, Handles};
use crate::api::trace;
use crate::config::{CorsOrigins, ServeConfig};
use crate::domain::dialect::Dialect;
use crate::egress::Egress;
use crate::store::Store;
use crate::telemetry::{Around, MEASURED_OTHER, Measured, pass};

/// The routers of the planes.
pub struct Planes {
    /// The API's address.
    pub api: Router,
    /// The address for operators; `None` when `api` serves everything.
    pub admin: Option<Router>,
    /// All operations, for requests that this process makes itself.
    pub operations: Router,
    /// What their handlers act on.
    pub state: AppState,
}

/// Paths below these are for operators: on an address of their own, if there is one.
const OPERATOR_PATHS: [&str; 2] = ["/v1/admin", "/v1/auth"];

/// Operations on one tenant, which the path of a bulk action hides: a tenant may have the id `bulk-action`.
const HIDDEN: [OperationId; 2] = [OperationId::GetTenant, OperationId::UpdateTenant];

/// The routers of both planes: on one address, or on two if operators have one of their own.
pub fn planes(config: &ServeConfig, store: &Store, egress: Egress) -> Planes {
    let routes = Routes {
        state: Handles::shared(config, store, egress),
        origins: &config.http.cors_origins,
    };
    let operations = routes.serve(|_| true, plane_of_unknown_path);
    let (api, admin) = match config.http.admin_listen {
        None => (operations.clone(), None),
        Some(_) => {
            // Both kinds of keys may ask who they are, each on its own address.
            let admin = |id: OperationId| is_for_operators(id.path());
            let api = |id: OperationId| !admin(id) || id == OperationId::IntrospectAuth;
            let admin = routes.serve(admin, |_| Plane::Admin);
            (routes.serve(api, |_| Plane::Runtime), Some(admin))
        }
    };
    Planes {
        api,
        admin,
        operations,
        state: routes.state,
    }
}

fn is_for_operators(path: &str) -> bool {
    OPERATOR_PATHS.iter().any(|prefix| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn plane_of_unknown_path(path: &str) -> Plane {
    match is_for_operators(path) {
        true => Plane::Admin,
        false => Plane::Runtime,
    }
}

struct Routes<'a> {
    state: AppState,
    origins: &'a CorsOrigins,
}

impl Routes<'_> {
    /// One address: the operations that it serves, and the plane whose rules an unknown path follows.
    fn serve(&self, serves: impl Fn(OperationId) -> bool, unknown: fn(&str) -> Plane) -> Router {
        let dialect = self.state.access.dialect();
        let description = openapi::router(dialect);
        let ids = (dialect, Plane::Runtime);
        let mut router = trace::outermost(description, ids, self.origins, Around((), pass));
        let mut paths = Vec::new();
        for id in OperationId::ALL.iter().copied().filter(|id| serves(*id)) {
            let operation = id.operation();
            let path = operation.path_in(dialect);
            if !paths.contains(&operation.path) {
                paths.push(operation.path);
                router = router.merge(self.method_not_allowed(&path, operation));
            }
            router = router.merge(self.route(&path, operation));
            if id == OperationId::BulkActionTenants {
                for hidden in HIDDEN {
                    router = router.merge(self.route(operation.path, hidden.operation()));
                }
            }
        }
        let [runtime, admin] = [Plane::Runtime, Plane::Admin].map(|plane| {
            let not_found = Router::new().fallback(no_such_path);
            self.guard(not_found, plane, None)
        });
        router.fallback(move |request: Request| {
            let not_found = match unknown(request.uri().path()) {
                Plane::Runtime => runtime.clone(),
                Plane::Admin => admin.clone(),
            };
            not_found.oneshot(request)
        })
    }

    fn route(&self, path: &str, operation: &'static Operation) -> Router {
        let handler = (operation.declaration.handler)(operation.filter);
        let route = Router::new().route(path, handler.with_state(self.state.clone()));
        match operation.callers {
            Callers::Public => self.open(route),
            _ => self.guard(route, operation.plane, Some(operation)),
        }
    }

    /// The path of an operation, the first there, under a method that the path does not have.
    fn method_not_allowed(&self, path: &str, first: &Operation) -> Router {
        let fallback = MethodRouter::new().fallback(no_such_method);
        let route = Router::new().route(path, fallback);
        match first.callers {
            Callers::Public => self.open(route),
            _ => self.guard(route, first.plane, None),
        }
    }

    /// The layers around a route that anybody may call, from the pages of any origin too.
    fn open(&self, router: Router) -> Router {
        let (state, dialect) = (self.state.clone(), self.state.access.dialect());
        let (ids, limited) = ((dialect, Plane::Runtime), Around(state, evidence::limit));
        trace::outermost(router, ids, &CorsOrigins::Any, limited)
    }

    /// Authenticates, and puts the layers around that every route has.
    fn guard(&self, router: Router, plane: Plane, operation: Option<&'static Operation>) -> Router {
        let state = self.state.clone();
        let dialect = state.access.dialect();
        let guard = Guard {
            state,
            plane,
            operation,
        };
        let guarded = Around(Arc::new(guard), authenticate);
        trace::outermost(router, (dialect, plane), self.origins, guarded)
    }
}

async fn no_such_path() -> ApiError {
    ApiError::not_found("No such path")
}

/// The router adds `Allow`.
async fn no_such_method(method: Method) -> ApiError {
    let message = format!("The path does not have the method {method}");
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        Code::InvalidRequest,
        message,
    )
}

/// Names of durations of the admin plane: few series, however many operations it has.
const READ: &str = "admin read";
const CHANGE: &str = "admin change";

/// Paths of probes and documents, and their names in metrics.
const OTHERS: [(&str, &str); 8] = [
    ("/live", "/live"),
    ("/ready", "/ready"),
    ("/actuator/health", "/ready"),
    ("/actuator/health/liveness", "/live"),
    ("/actuator/health/readiness", "/ready"),
    ("/v1/openapi.json", "/v1/openapi.json"),
    ("/docs", "/docs"),
    ("/", "/"),
];

/// The operations as metrics name them: each has a count of its own, those of the runtime plane a duration of their own too.
pub fn measured(dialect: Dialect) -> Vec<Measured> {
    let operations = OperationId::ALL.iter().map(|id| id.operation());
    let operations =
        operations.map(|operation| measured_as(operation, operation.path_in(dialect).into()));
    let hidden = HIDDEN.map(|id| {
        let path = OperationId::BulkActionTenants.path().to_owned();
        measured_as(id.operation(), path)
    });
    let others = OTHERS.map(|(path, name)| Measured {
        method: Method::GET,
        path: path.to_owned(),
        name: format!("GET {name}"),
        timed_as: MEASURED_OTHER.to_owned(),
    });
    operations.chain(hidden).chain(others).collect()
}

fn measured_as(operation: &Operation, path: String) -> Measured {
    let name = format!("{} {}", operation.method, operation.path);
    let timed_as = match (operation.plane, &operation.method) {
        (Plane::Runtime, _) => name.clone(),
        (Plane::Admin, &Method::GET) => READ.to_owned(),
        (Plane::Admin, _) => CHANGE.to_owned(),
    };
    Measured {
        method: operation.method.clone(),
        path,
        name,
        timed_as,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn operator_paths_match_whole_segments() {
        assert!(is_for_operators("/v1/admin") && is_for_operators("/v1/admin/x"));
        assert!(is_for_operators("/v1/auth/x") && !is_for_operators("/v1/authors"));
        assert!(!is_for_operators("/v1/administrators") && !is_for_operators("/v1/balances"));
    }

    #[test]
    fn every_operation_has_a_counter_and_few_have_a_histogram() {
        for dialect in [Dialect::Service, Dialect::Cycles] {
            let measured = measured(dialect);
            let names: BTreeSet<_> = measured.iter().map(|one| &one.name).collect();
            let timed: BTreeSet<_> = measured.iter().map(|one| &one.timed_as).collect();
            assert_eq!(names.len(), OperationId::ALL.len() + 5);
            assert_eq!(timed.len(), 16 + 3, "{timed:?}");
        }
    }
}
