//! Compares the usage of days with the charges and refunds of the records.

use std::collections::BTreeMap;

use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::usage::{Combination, Used};
use crate::store::tools::verify::StoredRecord;
use crate::store::{Day, Store, StoreError, UsageOf};

/// What was charged, how often, and what was given back.
type Figures = [i128; 3];

/// Usage of a day in a unit: as counted, and as the records have it.
#[derive(Debug, Default)]
struct OfDay {
    counted: Figures,
    /// What happened before it was read, and what may have happened by then.
    least: Figures,
    most: Figures,
    /// Whether a total went beyond 64 bits, so that it cannot be compared.
    is_saturated: bool,
}

/// Usage while a tenant is read.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// When reading it began and ended.
    read_ms: (i64, i64),
    days: BTreeMap<(Day, Unit), OfDay>,
}

impl Usage {
    /// Reads the usage of each day that may be compared. Before the ledgers, so that the records have all that it has.
    pub(super) async fn read(store: &Store, tenant: &TenantId) -> Result<Self, StoreError> {
        let first = compared_from(store, tenant).await?;
        let began_ms = store.read_ledgers(tenant, &[]).await?.now_ms;
        let spans: Vec<_> = Day::between(first.start_ms(), began_ms)
            .map(UsageOf::Day)
            .collect();
        let mut days: BTreeMap<(Day, Unit), OfDay> = BTreeMap::new();
        let count = |span: UsageOf, field: &str, value: &str| {
            if let Some((combination, used)) = Combination::parse(field).zip(Used::parse(value)) {
                let of_day = days
                    .entry((span.first_day(), combination.unit))
                    .or_default();
                let figures = [used.charged.into(), used.count.into(), used.refunded.into()];
                add(&mut of_day.counted, figures);
                of_day.is_saturated |= used.is_saturated;
            }
            Ok(())
        };
        store.each_usage(tenant, &spans, count).await?;
        let ended_ms = store.read_ledgers(tenant, &[]).await?.now_ms;
        Ok(Self {
            read_ms: (began_ms, ended_ms),
            days,
        })
    }

    /// What differs, of the days of which all records exist, and all usage: the day with its unit, and the difference.
    pub(super) async fn differences(
        &self,
        store: &Store,
        tenant: &TenantId,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let first = compared_from(store, tenant).await?;
        let mut differences = Vec::new();
        for ((day, unit), of_day) in self.days.range((first, Unit::UsdMicrocents)..) {
            for (place, what) in ["charged", "count", "refunded"].into_iter().enumerate() {
                let (counted, least) = (of_day.counted[place], of_day.least[place]);
                let is_right = (least..=of_day.most[place]).contains(&counted);
                if !is_right && !of_day.is_saturated {
                    let detail = format!("{what} is {counted}, its records give {least}");
                    differences.push((format!("{} {unit}", day.date()), detail));
                }
            }
        }
        Ok(differences)
    }

    fn add(&mut self, at_ms: i64, unit: Unit, figures: Figures) {
        let of_day = self.days.entry((Day::of_ms(at_ms), unit)).or_default();
        let (began_ms, ended_ms) = self.read_ms;
        if at_ms < began_ms {
            add(&mut of_day.least, figures);
        }
        if at_ms <= ended_ms {
            add(&mut of_day.most, figures);
        }
    }

    /// Counts what a record charged, and gave back. `charged`: when, and how much.
    pub(super) fn record(&mut self, row: &StoredRecord, charged: Option<(i64, i64)>) {
        let unit = row.field("unit").and_then(Unit::parse);
        let Some((unit, (at_ms, amount))) = unit.zip(charged) else {
            return;
        };
        self.add(at_ms, unit, [amount.into(), 1, 0]);
        for line in row.field("refunds").unwrap_or_default().lines() {
            let mut words = line.split(' ').map(|word| word.parse().ok());
            if let (Some(Some(at_ms)), Some(Some(amount))) = (words.next(), words.next()) {
                let amount: i64 = amount;
                self.add(at_ms, unit, [0, 0, amount.into()]);
            }
        }
    }
}

fn add(to: &mut Figures, figures: Figures) {
    to.iter_mut().zip(figures).for_each(|(to, by)| *to += by);
}

/// The first day of which usage was counted from its beginning on, no record was removed, and none was merged into its month.
async fn compared_from(store: &Store, tenant: &TenantId) -> Result<Day, StoreError> {
    let counted_from = store.usage_from().await?;
    let purged_ms = store.purged_ms(tenant).await?;
    let first = purged_ms.map_or(counted_from, |ms| counted_from.max(Day::of_ms(ms).plus(1)));
    let months = std::iter::successors(Some(first.month(0)), |month| Some(month.month(1)));
    let months: Vec<_> = months.take_while(|month| *month <= store.today()).collect();
    let merged = store.merged_months(tenant, &months).await?;
    let merged = merged
        .into_iter()
        .flatten()
        .map(|merged| merged.until.plus(1));
    Ok(merged.max().map_or(first, |after| first.max(after)))
}
