//! Prints measurements, for people or as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::args::{LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::{Difference, Figures, disagreement};
use super::load;
use super::recorder::{ErrorCount, Summary};
use super::service::{ALLOCATED, Service};
use crate::tools::table::Table;

/// A report that ends the process with an exit code.
pub(super) trait BenchReport: Serialize {
    /// Whether every ledger agrees, and no more requests failed than allowed.
    fn is_well(&self, max_error_rate: f64) -> bool;

    /// Tables and sentences for people.
    fn text(&self) -> String;
}

/// One run of the load, and the ledgers afterwards.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub workload: Workload,
    pub clients: u16,
    pub scopes: u8,
    pub tenant: String,
    /// Measured time, without warm-up.
    pub seconds: f64,
    pub operations: Vec<Summary>,
    pub requests: u64,
    pub errors: Vec<ErrorCount>,
    pub error_rate: f64,
    pub ledger: LedgerReport,
    /// Processor time of the generator per request; `None` where the system does not report it.
    pub generator_us_per_request: Option<f64>,
}

/// Whether the ledgers agree with the responses.
#[derive(Debug, Serialize)]
pub(super) struct LedgerReport {
    pub agrees: bool,
    /// The figures that every scope must have.
    pub expected: Figures,
    pub differences: Vec<Difference>,
    /// Operations whose outcome stayed unknown, so that their effect cannot be accounted for.
    pub unresolved: u64,
    /// Responses that contradict their request or an earlier response.
    pub contradictions: u64,
    pub first_contradiction: Option<String>,
}

impl Report {
    /// Runs the load with a tenant of its own, and compares the tenant's ledgers with the responses.
    pub async fn measure(
        service: &Service,
        load: &LoadArgs,
        progress: bool,
    ) -> Result<Self, BenchError> {
        let tenant = service.provision(load.scopes).await?;
        let measured = load::run(service, &tenant, load, progress).await?;
        let differences = service.check(&tenant, &measured.recorder.totals).await?;
        let recorder = measured.recorder;
        let requests = recorder.attempts.max(1) as f64;
        let cpu_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests;
        Ok(Self {
            workload: load.workload,
            clients: load.clients,
            scopes: load.scopes,
            tenant: tenant.id,
            seconds: measured.elapsed.as_secs_f64(),
            operations: recorder.summaries(measured.elapsed),
            requests: recorder.attempts,
            errors: recorder.errors(),
            error_rate: recorder.failed as f64 / requests,
            ledger: LedgerReport {
                agrees: differences.is_empty() && recorder.unresolved == 0 && recorder.wrong == 0,
                expected: recorder.totals.expected(ALLOCATED),
                differences,
                unresolved: recorder.unresolved,
                contradictions: recorder.wrong,
                first_contradiction: recorder.wrong_example,
            },
            generator_us_per_request: measured.generator_cpu.map(cpu_us),
        })
    }

    /// All operations together.
    pub fn all(&self) -> Summary {
        self.operations.last().cloned().unwrap_or_default()
    }
}

impl BenchReport for Report {
    fn is_well(&self, max_error_rate: f64) -> bool {
        self.ledger.agrees && self.error_rate <= max_error_rate
    }

    fn text(&self) -> String {
        let (name, scopes) = (clients(self.workload, self.clients), self.scopes);
        let headings = "operation, count, per s, p50, p90, p99, p99.9, max";
        let mut table = Table::new(1, headings.split(", "));
        for summary in &self.operations {
            let counts = [
                summary.count.to_string(),
                format!("{:.0}", summary.per_second),
            ];
            let times = [
                summary.p50_us,
                summary.p90_us,
                summary.p99_us,
                summary.p999_us,
                summary.max_us,
            ];
            let row = [summary.operation.clone()].into_iter().chain(counts);
            table.row(row.chain(times.map(time)));
        }
        let (rate, requests) = (self.error_rate * 100.0, self.requests);
        let mut text = format!(
            "{name}, {scopes} scopes, {:.1} s, tenant {}\n\n{table}\n",
            self.seconds, self.tenant
        );
        text += &match self.errors.is_empty() {
            true => format!("errors: none in {requests} requests\n"),
            false => format!("errors: {rate:.3} % of {requests} requests\n"),
        };
        for error in &self.errors {
            let ErrorCount { first, count } = error;
            let (status, code, message) = (first.status, &first.code, &first.message);
            text += &format!("  {count:>8}  {status:>3} {code}  {message}\n");
        }
        text += &self.ledger.text(scopes);
        if let Some(us) = self.generator_us_per_request {
            text += &format!("generator: {us:.1} µs of processor time per request\n");
        }
        text
    }
}

impl LedgerReport {
    fn text(&self, scopes: u8) -> String {
        if self.agrees {
            let (reserved, spent) = (self.expected.reserved, self.expected.spent);
            return format!(
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})\n"
            );
        }
        let mut text = disagreement("ledger", &self.differences);
        if self.unresolved > 0 {
            text += &format!("  {} operations have no known outcome\n", self.unresolved);
        }
        if let Some(example) = &self.first_contradiction {
            text += &format!(
                "  {} responses contradict, first {example}\n",
                self.contradictions
            );
        }
        text
    }
}

/// The name of a run.
pub(super) fn clients(what: impl fmt::Display, clients: u16) -> String {
    let plural = if clients == 1 { "" } else { "s" };
    format!("{what}, {clients} client{plural}")
}

/// Microseconds with three digits, in the unit that fits.
pub(super) fn time(us: f64) -> String {
    let (number, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    match number {
        number if number < 10.0 => format!("{number:.2} {unit}"),
        number if number < 100.0 => format!("{number:.1} {unit}"),
        number => format!("{number:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (us, text) in [
            (3.456, "3.46 µs"),
            (34.56, "34.6 µs"),
            (345.6, "346 µs"),
            (3_456.0, "3.46 ms"),
            (34_560.0, "34.6 ms"),
            (345_600.0, "346 ms"),
            (3_456_000.0, "3.46 s"),
        ] {
            assert_eq!(time(us), text);
        }
    }
}
