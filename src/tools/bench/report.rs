//! Prints what was measured, for people or as JSON.

use std::fmt::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::args::{LoadArgs, Workload};
use super::ledger::{Difference, Figures};
use super::load::Measured;
use super::recorder::{ErrorCount, Summary};

/// One run of the load, and what the ledgers showed afterwards.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub workload: Workload,
    pub clients: u16,
    pub scopes: u8,
    pub tenant: String,
    /// Measured, without warm-up.
    pub seconds: f64,
    pub operations: Vec<Summary>,
    pub requests: u64,
    pub errors: Vec<ErrorCount>,
    pub error_rate: f64,
    pub ledger: LedgerReport,
    /// Processor time of the generator per request; `None` where the system does not tell.
    pub generator_us_per_request: Option<f64>,
}

/// Whether the ledgers show what the answers said.
#[derive(Debug, Serialize)]
pub(super) struct LedgerReport {
    pub agrees: bool,
    /// What every scope must show.
    pub expected: Figures,
    pub differences: Vec<Difference>,
    /// Operations whose outcome stayed unknown; what they did cannot be accounted for.
    pub unresolved: u64,
    /// Answers that contradict their request or an earlier answer.
    pub contradictions: u64,
    pub first_contradiction: Option<String>,
}

impl Report {
    pub fn new(
        load: &LoadArgs,
        tenant: String,
        measured: Measured,
        expected: Figures,
        differences: Vec<Difference>,
    ) -> Self {
        let recorder = measured.books.recorder;
        let requests = recorder.attempts.max(1) as f64;
        let cpu_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests;
        Self {
            workload: load.workload,
            clients: load.clients,
            scopes: load.scopes,
            tenant,
            seconds: measured.elapsed.as_secs_f64(),
            operations: recorder.summaries(measured.elapsed),
            requests: recorder.attempts,
            errors: recorder.errors(),
            error_rate: recorder.failed as f64 / requests,
            ledger: LedgerReport {
                agrees: differences.is_empty() && recorder.unresolved == 0 && recorder.wrong == 0,
                expected,
                differences,
                unresolved: recorder.unresolved,
                contradictions: recorder.wrong,
                first_contradiction: recorder.wrong_example,
            },
            generator_us_per_request: measured.generator_cpu.map(cpu_us),
        }
    }

    /// All operations together.
    pub fn all(&self) -> Summary {
        self.operations.last().cloned().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scopes) = (clients(self.workload.as_str(), self.clients), self.scopes);
        let seconds = self.seconds;
        writeln!(
            f,
            "{name}, {scopes} scopes, {seconds:.1} s, tenant {}\n",
            self.tenant
        )?;
        writeln!(
            f,
            "{:<10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "operation", "count", "per s", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for summary in &self.operations {
            let Summary {
                operation,
                count,
                per_second,
                ..
            } = summary;
            write!(f, "{operation:<10}{count:>10}{per_second:>10.0}")?;
            let Summary {
                p50_us,
                p90_us,
                p99_us,
                p999_us,
                max_us,
                ..
            } = *summary;
            for us in [p50_us, p90_us, p99_us, p999_us, max_us] {
                write!(f, "{:>10}", time(us))?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.write_errors(f)?;
        self.ledger.write(f, self.scopes)?;
        if let Some(us) = self.generator_us_per_request {
            writeln!(f, "generator: {us:.1} µs of processor time per request")?;
        }
        Ok(())
    }
}

impl Report {
    fn write_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.errors.is_empty() {
            return writeln!(f, "errors: none in {} requests", self.requests);
        }
        let (rate, requests) = (self.error_rate * 100.0, self.requests);
        writeln!(f, "errors: {rate:.3} % of {requests} requests")?;
        for ErrorCount {
            status,
            code,
            count,
            message,
        } in &self.errors
        {
            writeln!(f, "  {count:>8}  {status:>3} {code}  {message}")?;
        }
        Ok(())
    }
}

impl LedgerReport {
    fn write(&self, f: &mut fmt::Formatter<'_>, scopes: u8) -> fmt::Result {
        if self.agrees {
            let Figures {
                reserved, spent, ..
            } = self.expected;
            return writeln!(
                f,
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})"
            );
        }
        writeln!(f, "ledger: does NOT agree with the answers")?;
        if self.unresolved > 0 {
            writeln!(f, "  {} operations have no known outcome", self.unresolved)?;
        }
        if self.contradictions > 0 {
            let example = self.first_contradiction.as_deref().unwrap_or("");
            writeln!(
                f,
                "  {} answers contradict, first {example}",
                self.contradictions
            )?;
        }
        write_differences(f, &self.differences)
    }
}

/// Each ledger that shows something else than it must.
pub(super) fn write_differences(
    f: &mut fmt::Formatter<'_>,
    differences: &[Difference],
) -> fmt::Result {
    for Difference {
        scope,
        source,
        expected,
        found,
    } in differences
    {
        writeln!(f, "  {scope} in {source}\n    expected {}", line(expected))?;
        let found = found.as_ref().map_or("nothing".to_owned(), line);
        writeln!(f, "    found    {found}")?;
    }
    Ok(())
}

fn line(figures: &Figures) -> String {
    let Figures {
        allocated,
        remaining,
        reserved,
        spent,
        debt,
    } = figures;
    let mut text = format!("allocated {allocated}, remaining {remaining}, reserved {reserved}");
    // Writing to a string cannot fail.
    let _ = write!(text, ", spent {spent}, debt {debt}");
    text
}

/// The name of a run.
pub(super) fn clients(what: &str, clients: u16) -> String {
    let plural = if clients == 1 { "" } else { "s" };
    format!("{what}, {clients} client{plural}")
}

/// Microseconds in the unit that reads best, three digits.
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
    fn times_read_well() {
        let texts = [
            3.456,
            34.56,
            345.6,
            3456.0,
            34_560.0,
            345_600.0,
            3_456_000.0,
        ]
        .map(time);
        assert_eq!(
            texts,
            [
                "3.46 µs", "34.6 µs", "346 µs", "3.46 ms", "34.6 ms", "346 ms", "3.46 s"
            ]
        );
    }
}
