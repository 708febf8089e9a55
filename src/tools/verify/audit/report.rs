//! The report of `audit verify`, for people and as JSON.

use serde::Serialize;

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
