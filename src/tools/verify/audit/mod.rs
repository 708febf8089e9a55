//! `audit verify`: proves of each audit chain that no entry was altered, dropped or inserted since its anchor, which is where
//! retention has come to.
//!
//! Checked is, for each entry: its number follows the last one's; its seal is the hash of the entry before it; it lies in the
//! log of its own day. The hash of the last sealed entry is the chain's; the first entry's seal is the anchor's hash. What
//! was not sealed yet is counted: its numbers are checked, its content cannot be. Somebody who can write every key can also
//! write a whole new chain; the report tells number and hash of the head, so that they can be kept elsewhere and compared.
//!
//! The system may run meanwhile: what is appended while the logs are read is not looked at, and where retention removes
//! something the chain is read again.

mod inventory;
mod report;
mod walk;

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;

pub use report::{AuditReport, ChainRow, Finding};

use crate::domain::ids::TenantId;
use crate::domain::tenant::{NO_TENANT, SYSTEM, UNKNOWN_CALLER};
use crate::store::{Store, StoreError};
use inventory::{Found, Place};

/// How often a chain is read until retention lets it be.
const ATTEMPTS: usize = 3;
/// How often the progress is told.
const PROGRESS: Duration = Duration::from_secs(3);

/// Which chains to verify and how to show it; the store's settings come beside it.
#[derive(Debug, Clone, Args)]
pub struct AuditVerifyArgs {
    /// Only these tenants, or __admin__, __unauth__, __system__; all by default
    #[arg(value_name = "TENANT", value_parser = name)]
    pub tenants: Vec<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

fn name(text: &str) -> Result<String, String> {
    let stands_for_none = [NO_TENANT, UNKNOWN_CALLER, SYSTEM].contains(&text);
    match stands_for_none || TenantId::parse(text).is_some() {
        true => Ok(text.to_owned()),
        false => Err("a tenant id has 3 to 64 of a-z, 0-9 and -".to_owned()),
    }
}

/// Verifies the chains of these names, or of all. `progress` is told now and then how far it has come.
///
/// # Errors
/// [`StoreError`] when Redis cannot be read; nothing is known then.
pub async fn verify_audit(
    store: &Store,
    names: &[String],
    mut progress: impl FnMut(&AuditReport),
) -> Result<AuditReport, StoreError> {
    let mut report = AuditReport::default();
    for (place, found) in inventory::take(store, names).await? {
        let mut attempt = 1;
        let (row, findings) = loop {
            let read = &mut report.entries_read;
            let walked = walk::chain(store, &place, &found, |rows| *read += rows).await?;
            if !walked.moved || attempt == ATTEMPTS {
                break (walked.row, walked.findings);
            }
            attempt += 1;
        };
        report.chains.push(row);
        report.findings.extend(findings);
        progress(&report);
    }
    Ok(report)
}

/// Runs `audit verify` and prints its outcome; answers the process's exit code: 0 all is proved, 1 something was changed,
/// 2 it could not be verified.
pub async fn run_audit(store: &Store, args: &AuditVerifyArgs, mut output: impl Write) -> u8 {
    let mut told = Instant::now();
    let progress = |report: &AuditReport| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            eprintln!(
                "{} chains verified, {} entries read",
                report.chains.len(),
                report.entries_read
            );
        }
    };
    let report = match verify_audit(store, &args.tenants, progress).await {
        Ok(report) => report,
        Err(error) => {
            eprintln!("the audit logs could not be verified: {error}");
            return 2;
        }
    };
    if let Some(why) = nothing_to_verify(store, &args.tenants, &report) {
        eprintln!("{why}");
        return 2;
    }
    let text = match args.json {
        true => report.json(),
        false => report.text(),
    };
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Ok(()) => u8::from(!report.findings.is_empty()),
        Err(_) => 2,
    }
}

/// Why something was not looked at: a misspelt name must not pass for a log that is right.
fn nothing_to_verify(store: &Store, names: &[String], report: &AuditReport) -> Option<String> {
    let prefix = store.keys().prefix();
    let known = |name: &String| report.chains.iter().any(|row| row.tenant == *name);
    match names.iter().find(|name| !known(name)) {
        Some(name) => Some(format!(
            "there is no audit log of `{name}` under the key prefix `{prefix}`"
        )),
        None if report.chains.is_empty() => Some(format!(
            "there is no audit log under the key prefix `{prefix}`"
        )),
        None => None,
    }
}
