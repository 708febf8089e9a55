//! Bounds how much of their own choice the requests of a tenant store in a minute: metadata, action, subject, metrics.

use super::Ledger;
use super::facts::Facts;

/// Requests with no more than this are not counted: the rest of their record takes more.
const UNCOUNTED_BYTES: usize = 512;

impl Ledger {
    /// With a limit of bytes for each tenant and minute; 0 for none.
    #[must_use]
    pub fn stored_bytes_per_minute(mut self, limit: u64) -> Self {
        self.stored_bytes_max = i64::try_from(limit).unwrap_or(i64::MAX);
        self
    }

    /// What a request counts that stores so many bytes, if it counts, and the limit, as a script takes them.
    pub(super) fn counted(&self, bytes: usize) -> Option<String> {
        let counts = self.stored_bytes_max > 0 && bytes > UNCOUNTED_BYTES;
        // An envelope has all of it once more.
        let copies = if self.attests() { 2 } else { 1 };
        counts.then(|| format!("{} {}", copies * bytes, self.stored_bytes_max))
    }
}

/// The bytes of what a record keeps of a request.
pub(super) fn bytes_of(facts: &Facts) -> usize {
    facts.iter().map(|(_, value)| value.len()).sum()
}
