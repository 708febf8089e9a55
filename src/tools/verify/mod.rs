//! `ledger verify`: recomputes every ledger from its records and reports differences. `audit verify` is in [`audit`].
//!
//! - Each ledger: `reserved` is the sum of the active holds; `spent` and `debt` are their base plus the charges of the
//!   records; `remaining` is `allocated` minus all three; the indexes of ledgers over limit or in debt, and of those that turn, are
//!   correct.
//! - Each tenant: exactly the active reservations are in the due index, with the right time; the partition's index has the
//!   tenant's earliest; each day with records is registered for retention.
//! - Each day of usage whose records all exist: what was charged and refunded, and how many charges there were.
//! - Each partition: its counts are those of its records. Records in quarantine are listed.
//!
//! The service may run meanwhile. The ledgers of a tenant are read at one moment of Redis's clock, and each record counts as
//! it was at that moment: one made later does not count, one that ended later counts as active. When a record changed within
//! that millisecond, both states are accepted. When a base changed meanwhile (funding, retention), or anything differs, the
//! tenant is read again; a difference is reported only if two reads in a row show it.

pub mod audit;
mod collect;
mod inventory;
mod records;
mod report;
mod totals;
mod usage;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

pub use report::{Difference, LedgerRow, Quarantined, Report};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Store, StoreError};
use crate::telemetry::error_chain;
use crate::tools::keys::tenant_id;
use collect::Collector;
use inventory::Inventory;

/// How often a tenant is read at most.
const ATTEMPTS: usize = 6;

/// The time between two lines of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(3);

/// Settings of `budget-authority ledger verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// Only this tenant; all by default
    #[arg(long, value_parser = tenant_id)]
    pub tenant: Option<TenantId>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Show all ledgers, also those that are right
    #[arg(long)]
    pub all: bool,
}

/// Verifies the ledgers of one tenant or of all, and calls `progress` now and then.
///
/// # Errors
/// [`StoreError`] when Redis cannot be read.
pub async fn verify(
    store: &Store,
    tenant: Option<&TenantId>,
    mut progress: impl FnMut(&Report) + Send,
) -> Result<Report, StoreError> {
    let inventory = Inventory::read(store, tenant).await?;
    let mut report = Report::default();
    for (tenant, days) in &inventory.tenants {
        let mut last = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let mut count = |rows| {
                report.rows_read += rows;
                progress(&report);
            };
            let found = Collector::read(store, tenant, days, inventory.read_ms, &mut count);
            let mut found = found.await?;
            // No difference counts as repeated.
            let is_repeated = found.differences.is_empty() || found.differences == last;
            if (is_repeated && found.unverified.is_empty()) || attempt == ATTEMPTS {
                report.add(&mut found);
                break;
            }
            last = found.differences;
        }
    }
    if tenant.is_none() {
        verify_counts(store, &inventory, &mut report).await?;
    }
    report.quarantine(store, tenant, &inventory).await?;
    Ok(report)
}

/// Runs `ledger verify` and prints its report; returns the exit code of the process.
pub async fn run(store: &Store, args: &VerifyArgs, output: impl Write) -> u8 {
    let progress = progress(|report: &Report| {
        let (tenants, records) = (report.tenants, report.rows_read);
        format!("{tenants} tenants verified, {records} records read")
    });
    let tenant = args.tenant.as_ref();
    let verified = async {
        let report = verify(store, tenant, progress).await?;
        let missing = missing(store, tenant, &report).await?;
        Ok((report, missing))
    };
    let (verified, text) = (verified.await, |report: &Report| report.table(args.all));
    print_outcome(store, verified, Report::is_right, args.json, text, output)
}

/// What does not exist, if there was nothing to verify: a misspelt tenant must not pass as correct.
async fn missing(
    store: &Store,
    tenant: Option<&TenantId>,
    report: &Report,
) -> Result<Option<String>, StoreError> {
    let found = !report.ledgers.is_empty() || report.reservations > 0 || report.usage_events > 0;
    Ok(match tenant {
        None if report.tenants == 0 => Some("tenant".to_owned()),
        Some(tenant) if !found && store.get_tenant(tenant).await?.is_none() => {
            Some(format!("tenant `{tenant}`"))
        }
        _ => None,
    })
}

/// Verifies the counts of all partitions with counts or tenants, which the overview adds up. Because the service may run
/// meanwhile, a difference is reported only when the counts did not change while the records were read.
async fn verify_counts(
    store: &Store,
    inventory: &Inventory,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut partitions = inventory.counted.clone();
    partitions.extend(inventory.tenants.keys().map(TenantId::partition));
    // The partition of the operator's own records.
    partitions.insert(Partition::FIRST);
    for partition in partitions {
        let mut last = None;
        for attempt in 1..=ATTEMPTS {
            let before = store.counts_of(partition).await?;
            let counted = store.recount(partition).await?;
            if before == counted {
                break;
            }
            let is_stable = before == store.counts_of(partition).await?;
            if is_stable && last.as_ref() == Some(&counted) {
                let fields: BTreeSet<_> = before.keys().chain(counted.keys()).collect();
                let sentences = fields.into_iter().filter_map(|field| {
                    let [stored, counted] =
                        [&before, &counted].map(|counts| counts.get(field).copied().unwrap_or(0));
                    let text = format!("{field} is {stored}, the records give {counted}");
                    (stored != counted).then_some(text)
                });
                report.differences.push(Difference {
                    tenant: "*".to_owned(),
                    what: "counts".to_owned(),
                    id: partition.to_string(),
                    detail: sentences.collect::<Vec<_>>().join("; "),
                });
                break;
            }
            if attempt == ATTEMPTS {
                report.unverified.push(format!("the counts of {partition}"));
            }
            last = is_stable.then_some(counted);
        }
    }
    Ok(())
}

/// Returns a function that prints a report's progress to standard error every [`PROGRESS_PERIOD`].
fn progress<R>(text: impl Fn(&R) -> String + Send) -> impl FnMut(&R) + Send {
    let mut printed = Instant::now();
    move |report| {
        if printed.elapsed() >= PROGRESS_PERIOD {
            printed = Instant::now();
            eprintln!("{}", text(report));
        }
    }
}

/// Prints a report as JSON, or as `text` makes it. The exit code: 0 when everything is right, 1 when something is wrong, 2
/// when the verification failed, or when what it should verify does not exist.
fn print_outcome<R: Serialize>(
    store: &Store,
    verified: Result<(R, Option<String>), StoreError>,
    is_right: fn(&R) -> bool,
    json: bool,
    text: impl Fn(&R) -> String,
    mut output: impl Write,
) -> u8 {
    let report = match verified {
        Ok((report, None)) => report,
        Ok((_, Some(missing))) => {
            let prefix = store.keys().prefix();
            eprintln!("there is no {missing} under the key prefix `{prefix}`");
            return 2;
        }
        Err(error) => {
            eprintln!("the verification failed: {}", error_chain(&error));
            return 2;
        }
    };
    let text = match json {
        true => serde_json::json!(report).to_string() + "\n",
        false => text(&report),
    };
    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Ok(()) => u8::from(!is_right(&report)),
        Err(_) => 2,
    }
}
