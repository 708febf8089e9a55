//! What a verification of audit chains found, for people and as JSON.

use serde::Serialize;

/// The outcome of `audit verify`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditReport {
    /// Every chain.
    pub chains: Vec<ChainRow>,
    /// What is not as it was sealed.
    pub findings: Vec<Finding>,
    /// Entries read in all, repetitions included.
    #[serde(skip)]
    pub entries_read: u64,
}

/// A chain as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainRow {
    /// Whose.
    pub tenant: String,
    /// Where it lies.
    pub partition: String,
    /// Number of the last entry that retention removed: what came before cannot be verified any more.
    pub anchor_sequence: u64,
    /// Entries that are proved to be as they were appended.
    pub verified: u64,
    /// Entries behind them that are not sealed yet.
    pub unsealed: u64,
    /// Number of the last sealed entry.
    pub sealed_sequence: u64,
    /// Its hash. Kept elsewhere, it proves later that the chain up to here is still this one.
    pub sealed_hash: String,
}

/// Something that is not as it was sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whose chain.
    pub tenant: String,
    /// Where it lies.
    pub partition: String,
    /// `altered`, `dropped`, `inserted` or `seal`.
    pub kind: &'static str,
    /// Number of the entry, where it has one.
    pub sequence: Option<u64>,
    /// What is wrong.
    pub detail: String,
}

impl AuditReport {
    /// One JSON object, and a line break.
    pub fn json(&self) -> String {
        let mut text =
            serde_json::to_string(self).expect("a report has nothing that JSON cannot hold");
        text.push('\n');
        text
    }

    /// A line for each finding and each chain, then one for all.
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
