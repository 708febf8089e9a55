//! `ledger verify`: recomputes every ledger from its records and reports differences. `audit verify` is in [`audit`].
//!
//! - Each ledger: `reserved` is the sum of the active holds; `spent` and `debt` are their base plus the charges of the
//!   records; `remaining` is `allocated` minus all three; the index of ledgers over limit or in debt is correct.
//! - Each tenant: exactly the active reservations are in the due index, with the right time; the partition's index has the
//!   tenant's earliest; each day with records is registered for retention.
//! - Each partition: its counts are those of its records. Records in quarantine are listed.
//!
//! The service may run meanwhile. The ledgers of a tenant are read at one moment of Redis's clock, and each record counts as
//! it was at that moment: one made later does not count, one that ended later counts as active. When a record changed within
//! that millisecond, both states are accepted. When a base changed meanwhile (funding, retention), or anything differs, the
//! tenant is read again; a difference is reported only if two reads in a row show it.

pub mod audit;
mod collect;
mod counts;
mod inventory;
mod keys;
mod outcome;
mod records;
mod report;
mod scan;
mod totals;

use std::io::Write;

use clap::Args;

pub use report::{Difference, LedgerRow, Quarantined, Report};

use crate::domain::ids::TenantId;
use crate::store::{Store, StoreError};
use crate::tools::tenant_id::tenant_id;
use collect::Collector;
use inventory::Inventory;

/// How often a tenant is read at most.
const ATTEMPTS: usize = 6;

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
    mut progress: impl FnMut(&Report),
) -> Result<Report, StoreError> {
    let inventory = Inventory::read(store, tenant).await?;
    let mut report = Report::default();
    for (tenant, days) in &inventory.tenants {
        let mut last: Option<Report> = None;
        for attempt in 1..=ATTEMPTS {
            let mut found = Collector::read(store, tenant, days, inventory.read_ms, &mut |rows| {
                report.rows_read += rows;
                progress(&report);
            })
            .await?;
            let verified = found.unverified.is_empty();
            let agrees = last
                .as_ref()
                .is_some_and(|last| last.differences == found.differences);
            if (verified && (found.differences.is_empty() || agrees)) || attempt == ATTEMPTS {
                report.add(&mut found);
                break;
            }
            last = Some(found);
        }
    }
    if tenant.is_none() {
        counts::verify(store, &inventory, &mut report).await?;
    }
    report.quarantine(store, tenant, &inventory).await?;
    Ok(report)
}

/// Runs `ledger verify` and prints its report; returns the exit code of the process.
pub async fn run(store: &Store, args: &VerifyArgs, output: impl Write) -> u8 {
    let progress = outcome::progress(|report: &Report| {
        let (tenants, records) = (report.tenants, report.rows_read);
        format!("{tenants} tenants verified, {records} records read")
    });
    let tenant = args.tenant.as_ref();
    let verified = async {
        let report = verify(store, tenant, progress).await?;
        let nothing = nothing_to_verify(store, tenant, &report).await?;
        Ok((report, nothing))
    };
    let text = |report: &Report| report.table(args.all);
    outcome::print(verified.await, Report::is_right, args.json, text, output)
}

/// Returns the reason if there was nothing to verify: a misspelt tenant must not pass as correct.
async fn nothing_to_verify(
    store: &Store,
    tenant: Option<&TenantId>,
    report: &Report,
) -> Result<Option<String>, StoreError> {
    let prefix = store.keys().prefix();
    let found = !report.ledgers.is_empty() || report.reservations > 0 || report.usage_events > 0;
    Ok(match tenant {
        None if report.tenants == 0 => Some(format!(
            "there is no tenant under the key prefix `{prefix}`"
        )),
        Some(tenant) if !found && store.get_tenant(tenant).await?.is_none() => Some(format!(
            "there is no tenant `{tenant}` under the key prefix `{prefix}`"
        )),
        _ => None,
    })
}
