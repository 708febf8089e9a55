//! Reads what a tenant used, from the hashes of days and months.

use std::collections::BTreeSet;

use super::records::{NO_ARGS, command, lossy};
use super::{Day, Keys, Store, StoreError};
use crate::domain::ids::{Partition, TenantId};

/// Hashes beside that of a day or month, for what it has no room for; `usage_place` chooses one.
pub const USAGE_HASHES: u32 = 32;

/// Hashes that one round trip reads: about a millisecond of Redis's time.
const HASHES_AT_ONCE: usize = 4;

/// A day, or the days of a month that were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageOf {
    /// A day.
    Day(Day),
    /// A month, by its first day.
    Month(Day),
}

/// Which days of a month were merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedMonth {
    /// The last one; those before it were merged, or had no usage.
    pub until: Day,
    /// How many steps have merged something.
    pub merges: i64,
}

impl UsageOf {
    /// The first day.
    pub fn first_day(self) -> Day {
        match self {
            Self::Day(day) | Self::Month(day) => day,
        }
    }

    /// The key of its hash; that of a hash beside it, by its number.
    pub fn key(self, keys: &Keys, tenant: &TenantId, number: Option<u32>) -> String {
        let (keys, tenant, number) = (
            keys.of(tenant.partition()),
            tenant.as_str(),
            number.map(|it| it.to_string()),
        );
        match (self, number) {
            (Self::Day(day), None) => keys.usage(tenant, day),
            (Self::Day(day), Some(number)) => keys.more_usage(tenant, day, number),
            (Self::Month(day), None) => keys.usage_of_month(tenant, &day.to_string()[..6]),
            (Self::Month(day), Some(number)) => {
                keys.more_usage_of_month(tenant, &day.to_string()[..6], number)
            }
        }
    }
}

impl Store {
    /// What was merged of months, by their first days; `None` where nothing was.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn merged_months(
        &self,
        tenant: &TenantId,
        months: &[Day],
    ) -> Result<Vec<Option<MergedMonth>>, StoreError> {
        let key = |month: &Day| UsageOf::Month(*month).key(self.keys(), tenant, None);
        let reads = months
            .iter()
            .map(|month| command("HMGET", key(month), &["until", "merges"][..]));
        let read: Vec<Vec<Option<String>>> = self.read_all(reads).await?;
        let merged = |fields: Vec<Option<String>>| {
            let mut fields = fields.into_iter().flatten();
            let until = Day::parse(&fields.next()?)?;
            let merges = fields.next()?.parse().ok()?;
            Some(MergedMonth { until, merges })
        };
        Ok(read.into_iter().map(merged).collect())
    }

    /// When the latest charge or refund was made of the tenant's records that were removed for their age; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn purged_ms(&self, tenant: &TenantId) -> Result<Option<i64>, StoreError> {
        let key = self.keys().purged(tenant.partition());
        self.read(command("HGET", key, tenant.as_str())).await
    }

    /// The hashes of a day's usage, that of the day first; the others by their numbers. None where nothing was used.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn usage_hashes(
        &self,
        partition: Partition,
        tenant: &str,
        day: Day,
    ) -> Result<Vec<Option<u32>>, StoreError> {
        let key = self.keys().usage(partition, tenant, day);
        let fields: usize = self.read(command("HLEN", key, NO_ARGS)).await?;
        let others = if fields > FIRST { USAGE_HASHES } else { 0 };
        let first = (fields > 0).then_some(None);
        Ok(first.into_iter().chain((0..others).map(Some)).collect())
    }

    /// The bytes that the usage of these days takes, and that of the last years' months. Combinations beside a hash are not measured,
    /// but counted.
    pub(super) async fn usage_bytes(
        &self,
        tenant: &TenantId,
        days: &BTreeSet<Day>,
    ) -> Result<i64, StoreError> {
        let months = (0..MONTHS_MEASURED).map(|ago| UsageOf::Month(self.today().month(-ago)));
        let spans = days.iter().map(|day| UsageOf::Day(*day)).chain(months);
        let keys: Vec<_> = spans
            .map(|span| span.key(self.keys(), tenant, None))
            .collect();
        let read = |key: &String| command("HGET", key.clone(), "combinations");
        let counted: Vec<Option<String>> = self.read_all(keys.iter().map(read)).await?;
        let beside = |counted: String| {
            let (count, bytes) = counted.split_once(' ')?;
            let (count, bytes): (i64, i64) = (count.parse().ok()?, bytes.parse().ok()?);
            let others = (count - FIRST as i64).max(0);
            Some(others * (COMBINATION_BYTES + bytes.checked_div(count)?))
        };
        let beside: i64 = counted.into_iter().flatten().filter_map(beside).sum();
        Ok(beside + self.memory_of(keys, &["SAMPLES", "0"]).await?)
    }

    /// Calls `visit` with each field of the hashes of days and months, and its value.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable, and those of `visit`.
    pub async fn each_usage(
        &self,
        tenant: &TenantId,
        spans: &[UsageOf],
        mut visit: impl FnMut(UsageOf, &str, &str) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut hashes: Vec<_> = spans.iter().map(|span| (*span, None)).collect();
        let mut next = 0;
        while next < hashes.len() {
            let page: Vec<_> = hashes[next..]
                .iter()
                .take(HASHES_AT_ONCE)
                .copied()
                .collect();
            next += page.len();
            let reads = page.iter().map(|(span, number)| {
                command("HGETALL", span.key(self.keys(), tenant, *number), NO_ARGS)
            });
            let read: Vec<Vec<(Vec<u8>, Vec<u8>)>> = self.read_all(reads).await?;
            for ((span, number), fields) in page.into_iter().zip(read) {
                if number.is_none() && fields.len() > FIRST {
                    hashes.extend((0..USAGE_HASHES).map(|number| (span, Some(number))));
                }
                for (field, value) in fields {
                    visit(span, &lossy(field), &lossy(value))?;
                }
            }
        }
        Ok(())
    }
}

/// What a combination takes in Redis besides its text.
const COMBINATION_BYTES: i64 = 78;

/// Months whose usage is measured, the present one included: as many as are kept by default.
const MONTHS_MEASURED: i64 = 26;

/// Only where a hash has this many combinations there are others beside it.
const FIRST: usize = 500;
