//! What metrics call the operations: each has a count of its own, those of the runtime plane a duration of their own too.

use axum::http::Method;

use crate::api::operation::{Operation, Plane};
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::telemetry::{MEASURED_OTHER, Measured};

/// What durations of the admin plane are called. So their series are few, however many operations it has.
const READ: &str = "admin read";
const CHANGE: &str = "admin change";

/// Probes and documents, by what they are called.
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

/// All that is measured of a dialect.
pub fn measured(dialect: Dialect) -> Vec<Measured> {
    let operations = OperationId::ALL.iter().map(|id| id.operation());
    let operations = operations.map(|operation| of(operation, operation.path_in(dialect).into()));
    // A tenant may have the id `bulk-action`.
    let hidden = [OperationId::GetTenant, OperationId::UpdateTenant].map(|id| {
        let path = OperationId::BulkActionTenants.path().to_owned();
        of(id.operation(), path)
    });
    let others = OTHERS.map(|(path, name)| Measured {
        method: Method::GET,
        path: path.to_owned(),
        name: format!("GET {name}"),
        timed_as: MEASURED_OTHER.to_owned(),
    });
    operations.chain(hidden).chain(others).collect()
}

fn of(operation: &Operation, path: String) -> Measured {
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
    fn every_operation_has_a_counter_and_few_have_a_histogram() {
        for dialect in [Dialect::Service, Dialect::Cycles] {
            let measured = measured(dialect);
            let names: BTreeSet<_> = measured.iter().map(|one| &one.name).collect();
            let timed: BTreeSet<_> = measured.iter().map(|one| &one.timed_as).collect();
            assert_eq!(names.len(), OperationId::ALL.len() + 5);
            assert_eq!(timed.len(), 11 + 3, "{timed:?}");
        }
    }
}
