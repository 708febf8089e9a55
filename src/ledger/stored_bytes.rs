//! Limits the bytes of their own choice that the requests of a tenant store in a minute: metadata, action, subject, metrics.

use super::Ledger;
use super::facts::Facts;

/// Requests with at most this many bytes are not counted; the rest of their record takes more.
const UNCOUNTED_BYTES: usize = 512;

impl Ledger {
    /// Sets the limit in bytes for each tenant and minute; 0 for none.
    #[must_use]
    pub fn stored_bytes_per_minute(mut self, limit: u64) -> Self {
        self.stored_bytes_max = i64::try_from(limit).unwrap_or(i64::MAX);
        self
    }

    /// `<bytes> <limit>` for the script of a request that stores so many bytes; `None` if they are not counted.
    pub(super) fn counted_bytes(&self, bytes: usize) -> Option<String> {
        let counts = self.stored_bytes_max > 0 && bytes > UNCOUNTED_BYTES;
        // The envelope of evidence repeats them.
        let copies = if self.attests() { 2 } else { 1 };
        counts.then(|| format!("{} {}", copies * bytes, self.stored_bytes_max))
    }
}

/// The bytes of values that a record keeps.
pub(super) fn bytes_of(facts: &Facts) -> usize {
    facts.iter().map(|(_, value)| value.len()).sum()
}
