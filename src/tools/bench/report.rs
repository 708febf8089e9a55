//! Prints measurements, for people or as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::args::{LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::{Difference, Figures};
use super::load;
use super::recorder::{ErrorCount, Summary};
use super::service::{ALLOCATED, Service};
use crate::tools::table::Table;

/// A report that ends the process with an exit code.
pub(super) trait BenchReport: Serialize + fmt::Display {
    /// Whether every ledger agrees, and no more requests failed than allowed.
    fn is_well(&self, max_error_rate: f64) -> bool;
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
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scopes) = (clients(self.workload, self.clients), self.scopes);
        let (seconds, tenant) = (self.seconds, &self.tenant);
        writeln!(
            f,
            "{name}, {scopes} scopes, {seconds:.1} s, tenant {tenant}\n"
        )?;
        let headings = [
            "operation",
            "count",
            "per s",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
        ];
        let mut table = Table::new(1, headings);
        for summary in &self.operations {
            table.row([
                summary.operation.to_owned(),
                summary.count.to_string(),
                format!("{:.0}", summary.per_second),
                time(summary.p50_us),
                time(summary.p90_us),
                time(summary.p99_us),
                time(summary.p999_us),
                time(summary.max_us),
            ]);
        }
        writeln!(f, "{table}")?;
        let (rate, requests) = (self.error_rate * 100.0, self.requests);
        match self.errors.is_empty() {
            true => writeln!(f, "errors: none in {requests} requests")?,
            false => writeln!(f, "errors: {rate:.3} % of {requests} requests")?,
        }
        for error in &self.errors {
            let ErrorCount {
                status,
                code,
                count,
                message,
            } = error;
            writeln!(f, "  {count:>8}  {status:>3} {code}  {message}")?;
        }
        self.ledger.write(f, scopes)?;
        if let Some(us) = self.generator_us_per_request {
            writeln!(f, "generator: {us:.1} µs of processor time per request")?;
        }
        Ok(())
    }
}

impl LedgerReport {
    fn write(&self, f: &mut fmt::Formatter<'_>, scopes: u8) -> fmt::Result {
        if self.agrees {
            let (reserved, spent) = (self.expected.reserved, self.expected.spent);
            return writeln!(
                f,
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})"
            );
        }
        write_disagreement(f, "ledger", &self.differences)?;
        if self.unresolved > 0 {
            writeln!(f, "  {} operations have no known outcome", self.unresolved)?;
        }
        match &self.first_contradiction {
            Some(example) => writeln!(
                f,
                "  {} responses contradict, first {example}",
                self.contradictions
            ),
            None => Ok(()),
        }
    }
}

/// Writes each ledger that disagrees with the responses.
pub(super) fn write_disagreement(
    f: &mut fmt::Formatter<'_>,
    ledger: &str,
    differences: &[Difference],
) -> fmt::Result {
    writeln!(f, "{ledger}: does NOT agree with the responses")?;
    differences
        .iter()
        .try_for_each(|difference| writeln!(f, "{difference}"))
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
