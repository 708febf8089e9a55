//! `audit verify`: proves that no entry of an audit chain was altered, dropped or inserted since its anchor, the last entry
//! that retention removed.
//!
//! Each entry has the next sequence number, is in the log of its day, and its seal is the hash of the entry before it; the
//! first seal is the anchor's hash, and the hash of the last sealed entry is the chain's. Of unsealed entries only the
//! numbers can be checked. Someone who can write every key could also write a whole new chain; the report therefore has
//! number and hash of the last sealed entry, to be kept elsewhere and compared.
//!
//! The service may run meanwhile: entries appended after the start are not read, and when retention removes something, the
//! chain is read again.

mod chain;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::{inventory, print_outcome, progress};
use crate::domain::tenant::{NO_TENANT, SYSTEM, UNKNOWN_CALLER};
use crate::store::{Store, StoreError};
use crate::tools::keys::tenant_id;

/// How often a chain is read at most, while retention changes it.
const ATTEMPTS: usize = 3;

/// Settings of `budget-authority audit verify`.
#[derive(Debug, Clone, Args)]
pub struct AuditVerifyArgs {
    /// Only these tenants, or __admin__, __unauth__, __system__; repeated or comma-separated; all by default
    #[arg(long = "tenant", value_name = "TENANT", value_delimiter = ',', value_parser = chain_name)]
    pub tenants: Vec<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

fn chain_name(text: &str) -> Result<String, String> {
    match text {
        NO_TENANT | UNKNOWN_CALLER | SYSTEM => Ok(text.to_owned()),
        text => tenant_id(text).map(|tenant| tenant.to_string()),
    }
}

/// Verifies the chains of these names, or all, and calls `progress` now and then.
///
/// # Errors
/// [`StoreError`] when Redis cannot be read.
pub async fn verify_audit(
    store: &Store,
    names: &[String],
    mut progress: impl FnMut(&AuditReport),
) -> Result<AuditReport, StoreError> {
    let mut report = AuditReport::default();
    for (id, days) in inventory::chains(store, names).await? {
        let mut attempt = 1;
        let (row, findings) = loop {
            let read = &mut report.entries_read;
            let verified = chain::verify(store, &id, &days, |rows| *read += rows).await?;
            if !verified.changed || attempt == ATTEMPTS {
                break (verified.row, verified.findings);
            }
            attempt += 1;
        };
        report.chains.push(row);
        report.findings.extend(findings);
        progress(&report);
    }
    Ok(report)
}

/// Runs `audit verify` and prints its report; returns the exit code of the process.
pub async fn run_audit(store: &Store, args: &AuditVerifyArgs, output: impl Write) -> u8 {
    let progress = progress(|report: &AuditReport| {
        let (chains, entries) = (report.chains.len(), report.entries_read);
        format!("{chains} chains verified, {entries} entries read")
    });
    let verified = verify_audit(store, &args.tenants, progress).await;
    let verified = verified.map(|report| {
        let missing = missing(&args.tenants, &report);
        (report, missing)
    });
    let (is_right, text) = (AuditReport::is_right, AuditReport::text);
    print_outcome(store, verified, is_right, args.json, text, output)
}

/// The chain that does not exist, if any: a misspelt name must not pass as correct.
fn missing(names: &[String], report: &AuditReport) -> Option<String> {
    let known = |name: &String| report.chains.iter().any(|row| row.tenant == *name);
    match names.iter().find(|name| !known(name)) {
        Some(name) => Some(format!("audit log of `{name}`")),
        None => report.chains.is_empty().then(|| "audit log".to_owned()),
    }
}

/// The report of `audit verify`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditReport {
    /// Every chain.
    pub chains: Vec<ChainRow>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Entries read, repetitions included.
    #[serde(skip)]
    pub entries_read: u64,
}

/// A verified chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainRow {
    /// Id of the tenant, or the name for no tenant.
    pub tenant: String,
    /// Name of the partition.
    pub partition: String,
    /// Sequence number of the last entry that retention removed; earlier entries cannot be verified.
    pub anchor_sequence: u64,
    /// Entries proved to be as they were appended.
    pub verified: u64,
    /// Unsealed entries after them.
    pub unsealed: u64,
    /// Sequence number of the last sealed entry.
    pub sealed_sequence: u64,
    /// Hash of the last sealed entry. Kept elsewhere, it later proves that the chain up to it is unchanged.
    pub sealed_hash: String,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Id of the tenant, or the name for no tenant.
    pub tenant: String,
    /// Name of the partition.
    pub partition: String,
    /// `altered`, `dropped`, `inserted` or `seal`.
    pub kind: &'static str,
    /// Sequence number of the entry, if it has one.
    pub sequence: Option<u64>,
    /// A sentence for people.
    pub detail: String,
}

impl AuditReport {
    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.findings.is_empty()
    }

    /// A line per finding and per chain, then the totals.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for found in &self.findings {
            let number = found.sequence.map_or(String::new(), |n| format!(" {n}"));
            text += &format!(
                "{} ({}): {}{number}: {}\n",
                found.tenant, found.partition, found.kind, found.detail
            );
        }
        for row in &self.chains {
            text += &format!(
                "{} ({}): {} entries verified after {}, {} not sealed yet; head {} {}\n",
                row.tenant,
                row.partition,
                row.verified,
                row.anchor_sequence,
                row.unsealed,
                row.sealed_sequence,
                row.sealed_hash
            );
        }
        let sum = |of: fn(&ChainRow) -> u64| self.chains.iter().map(of).sum::<u64>();
        text + &format!(
            "{} chains, {} entries verified, {} not sealed yet: {}\n",
            self.chains.len(),
            sum(|row| row.verified),
            sum(|row| row.unsealed),
            match self.findings.len() {
                0 => "nothing was altered, dropped or inserted".to_owned(),
                count => format!("{count} findings"),
            }
        )
    }
}
