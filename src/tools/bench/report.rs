//! Prints measurements, for people or as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::BenchError;
use super::args::{LoadArgs, Workload};
use super::load;
use super::recorder::{Failure, Summary, time};
use super::service::{Difference, Figures, Service, disagreement};
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
    pub errors: Vec<Failure>,
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
    expected: Figures,
    differences: Vec<Difference>,
    /// Operations whose outcome stayed unknown, so that their effect cannot be accounted for.
    unresolved: u64,
    /// Responses that contradict their request or an earlier response.
    contradictions: u64,
    first_contradiction: Option<String>,
}

impl Report {
    /// Runs the load with a tenant of its own, and compares the tenant's ledgers with the responses.
    pub async fn measure(
        service: &Service,
        load: &LoadArgs,
        progress: bool,
    ) -> Result<Self, BenchError> {
        let tenant = service.provision(load.scopes).await?;
        let recorder = load::run(service, &tenant, load, progress).await?;
        let differences = service.check(&tenant, recorder.change).await?;
        let is_certain = recorder.unresolved == 0 && recorder.contradictions == 0;
        let requests = recorder.attempts.max(1) as f64;
        let cpu_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests;
        Ok(Self {
            workload: load.workload,
            clients: load.clients,
            scopes: load.scopes,
            tenant: tenant.id,
            seconds: recorder.elapsed.as_secs_f64(),
            operations: recorder.summaries(),
            requests: recorder.attempts,
            errors: recorder.errors.into_values().collect(),
            error_rate: recorder.failed as f64 / requests,
            ledger: LedgerReport {
                agrees: differences.is_empty() && is_certain,
                expected: recorder.change.expected(),
                differences,
                unresolved: recorder.unresolved,
                contradictions: recorder.contradictions,
                first_contradiction: recorder.first_contradiction,
            },
            generator_us_per_request: recorder.generator_cpu.map(cpu_us),
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
        let headings = "operation, count, per s, p50, p90, p99, p99.9, max";
        let mut table = Table::new(1, headings.split(", "));
        for it in &self.operations {
            let (count, rate) = (it.count.to_string(), format!("{:.0}", it.per_second));
            let times = [it.p50_us, it.p90_us, it.p99_us, it.p999_us, it.max_us].map(time);
            let row = [it.operation.clone(), count, rate];
            table.row(row.into_iter().chain(times));
        }
        let (name, scopes) = (clients(self.workload, self.clients), self.scopes);
        let (seconds, tenant) = (self.seconds, &self.tenant);
        let (rate, requests) = (self.error_rate * 100.0, self.requests);
        let mut text =
            format!("{name}, {scopes} scopes, {seconds:.1} s, tenant {tenant}\n\n{table}\n");
        text += &match self.errors.is_empty() {
            true => format!("errors: none in {requests} requests\n"),
            false => format!("errors: {rate:.3} % of {requests} requests\n"),
        };
        for error in &self.errors {
            let (status, count) = (error.status, error.count);
            let (code, message) = (&error.code, &error.message);
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
            let (reserved, spent) = (self.expected["reserved"], self.expected["spent"]);
            return format!(
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})\n"
            );
        }
        let mut text = disagreement("ledger", &self.differences);
        if self.unresolved > 0 {
            text += &format!("  {} operations have no known outcome\n", self.unresolved);
        }
        if let Some(first) = &self.first_contradiction {
            let contradictions = self.contradictions;
            text += &format!("  {contradictions} responses contradict, first {first}\n");
        }
        text
    }
}

/// The name of a run.
pub(super) fn clients(what: impl fmt::Display, clients: u16) -> String {
    let plural = if clients == 1 { "" } else { "s" };
    format!("{what}, {clients} client{plural}")
}
