//! `ledger verify`: recomputes every ledger from its records and says what differs. `audit verify` is in [`audit`].
//!
//! Checked is, for each ledger: `reserved` is the sum of the active holds; `spent` and `debt` are their base plus what the
//! records charged; `remaining` is `allocated` less all three. For each tenant: an active reservation and its place among
//! the due ones belong together, with the right time; the partition knows the tenant's earliest; each day with records is
//! registered for retention; a ledger stands in the index of debts and limits as it is. What the sweeper put into quarantine
//! is listed. For all tenants together: the counts of each partition are those of its records.
//!
//! The system may run meanwhile. The ledgers of a tenant are read at one moment of Redis's clock, and each record counts
//! as it stood at that moment, which its own times tell: one made later does not count, one that ended later counts as
//! active. Where a record changed within that very millisecond, either reading is accepted. A base that
//! moved meanwhile (funding, retention), and any difference, makes the tenant be read again; a difference is reported
//! when it shows twice alike.

pub mod audit;
mod collect;
mod counts;
mod inventory;
mod records;
mod report;
mod sums;
mod walk;

use std::io::Write;

use clap::Args;

pub use report::{Difference, LedgerRow, Quarantined, Report};

use crate::domain::ids::TenantId;
use crate::store::{Store, StoreError};
use collect::Collector;
use inventory::Inventory;

/// How often a tenant is read until its ledgers hold still.
const ATTEMPTS: usize = 6;

/// What to verify and how to show it; the store's settings come beside it.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// Only this tenant; all by default
    #[arg(long, value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Show the ledgers that are right as well
    #[arg(long)]
    pub all: bool,
}

fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).ok_or_else(|| "a tenant id has 3 to 64 of a-z, 0-9 and -".to_owned())
}

/// Verifies the ledgers of one tenant or of all. `progress` is told now and then how far it has come.
///
/// # Errors
/// [`StoreError`] when Redis cannot be read; nothing is known then.
pub async fn verify(
    store: &Store,
    tenant: Option<&TenantId>,
    mut progress: impl FnMut(&Report),
) -> Result<Report, StoreError> {
    let inventory = Inventory::take(store, tenant).await?;
    let mut report = Report::default();
    for (tenant, found) in &inventory.tenants {
        let mut before: Option<Report> = None;
        for attempt in 1..=ATTEMPTS {
            let mut part = Collector::read(store, tenant, found, inventory.taken_ms, &mut |rows| {
                report.rows_read += rows;
                progress(&report);
            })
            .await?;
            let settled = part.unsettled.is_empty();
            let agrees = before
                .as_ref()
                .is_some_and(|before| before.differences == part.differences);
            if (settled && (part.differences.is_empty() || agrees)) || attempt == ATTEMPTS {
                report.add(&mut part);
                break;
            }
            before = Some(part);
        }
    }
    if tenant.is_none() {
        counts::verify(store, &inventory, &mut report).await?;
    }
    report.quarantine(store, tenant, &inventory).await?;
    Ok(report)
}

/// Runs `ledger verify` and prints its outcome; answers the process's exit code: 0 all is right, 1 something differs or
/// would not hold still, 2 it could not be verified.
pub async fn run(store: &Store, args: &VerifyArgs, mut output: impl Write) -> u8 {
    let mut told = std::time::Instant::now();
    let progress = |report: &Report| {
        if told.elapsed().as_secs() >= 3 {
            told = std::time::Instant::now();
            eprintln!(
                "{} tenants verified, {} records read",
                report.tenants, report.rows_read
            );
        }
    };
    let report = match verify(store, args.tenant.as_ref(), progress).await {
        Ok(report) => report,
        Err(error) => {
            eprintln!("the ledgers could not be verified: {error}");
            return 2;
        }
    };
    match nothing_to_verify(store, args.tenant.as_ref(), &report).await {
        Ok(None) => {}
        Ok(Some(why)) => {
            eprintln!("{why}");
            return 2;
        }
        Err(error) => {
            eprintln!("the ledgers could not be verified: {error}");
            return 2;
        }
    }
    let text = if args.json {
        report.json()
    } else {
        report.table(args.all)
    };
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Ok(()) => u8::from(!report.is_right()),
        Err(_) => 2,
    }
}

/// Why nothing was looked at: a misspelt name must not pass for a ledger that is right.
async fn nothing_to_verify(
    store: &Store,
    tenant: Option<&TenantId>,
    report: &Report,
) -> Result<Option<String>, StoreError> {
    let prefix = store.keys().prefix();
    let found = !report.ledgers.is_empty() || report.reservations > 0 || report.posts > 0;
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
