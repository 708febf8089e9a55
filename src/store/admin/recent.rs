//! Recent events of all tenants, from the view of events. It costs the same however many there are.

use std::collections::BTreeMap;

use crate::domain::event::types::EventType;
use crate::store::dispatcher::views::View;
use crate::store::records::command;
use crate::store::{Day, Store, StoreError};

const MINUTE_MS: i64 = 60_000;

/// How many events there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Of all types.
    pub total: i64,
    /// Of each type that there was.
    pub by_type: Vec<(EventType, i64)>,
}

impl Store {
    /// How many events happened between two times, both included, in milliseconds.
    pub async fn count_events(&self, from_ms: i64, to_ms: i64) -> Result<EventCounts, StoreError> {
        let kinds: Vec<Option<EventType>> = std::iter::once(None)
            .chain(EventType::ALL.iter().copied().map(Some))
            .collect();
        let days: Vec<_> = Day::between(from_ms, to_ms).collect();
        let count = |kind: Option<EventType>, day: Day| {
            let kind = kind.map(EventType::as_str);
            let key = self.keys().view(View::Events.as_str(), kind, day);
            command("ZCOUNT", key, (from_ms, to_ms))
        };
        let mut commands = Vec::with_capacity(kinds.len() * days.len());
        for kind in &kinds {
            commands.extend(days.iter().map(|day| count(*kind, *day)));
        }
        let mut found = self.read_all::<i64>(commands).await?.into_iter();
        let mut counts = EventCounts::default();
        for kind in kinds {
            let sum = found.by_ref().take(days.len()).sum();
            match kind {
                None => counts.total = sum,
                Some(kind) if sum > 0 => counts.by_type.push((kind, sum)),
                Some(_) => {}
            }
        }
        Ok(counts)
    }

    /// Reservations that were denied, by reason, in the whole minutes between two times in milliseconds and the last one as
    /// far as it has come.
    pub async fn denials_by_reason(
        &self,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<BTreeMap<String, i64>, StoreError> {
        let last = to_ms - to_ms.rem_euclid(MINUTE_MS);
        let minutes = (0..).map(|back| last - back * MINUTE_MS);
        let minutes = minutes.take_while(|minute| *minute >= from_ms);
        let counts = minutes.map(|minute| {
            let key = self.keys().denials_of_minute(minute);
            command("ZRANGE", key, (0, -1, "WITHSCORES"))
        });
        let counts: Vec<Vec<(String, f64)>> = self.read_all(counts).await?;
        let mut denials = BTreeMap::new();
        for (reason, count) in counts.into_iter().flatten() {
            *denials.entry(reason).or_default() += count as i64;
        }
        Ok(denials)
    }
}
