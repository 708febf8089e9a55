//! `turn.lua`: writes what the time that has passed makes of ledgers.

use crate::domain::budget::projection::{IDENTITY, LedgerTurn, SOURCES};
use crate::domain::budget::turn::Figures;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::driver::node::Lane;
use crate::store::signature::signature;
use crate::store::target::about;
use crate::store::{ExtraRoundTrip, Store, StoreError, outcome};

signature! {
    /// Turns ledgers of one tenant: writes the results that were computed from their records, each if its record is still the same.
    /// So a turn happens once, whoever comes first.
    ///
    /// The entries of ledgers that are gone or closed leave the index; ledgers whose record has changed are left alone.
    TURN: Turn -> TurnReply = "dispatcher/turn", flags "allow-oom";
    keys of partition of tenant {
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(), over_limit_or_in_debt(), turns();
    }
    each { write budgets: budget }
    args {
        day,
        tenant: &'a TenantId,
        context: &'a str,
        /// Of each ledger: scope, unit, turns_at_ms, allocated, spent, debt; 1 if a period has begun; the number of words in names and values of the fields that
        /// it was computed from, and these; the same of the fields that it sets; the number of events, and of each its type, the number
        /// of words in names and values of its data, and these.
        words: Vec<String>,
    }
    replies { clock, tenant_unreadable, turned: Turned { now_ms: i64, count: i64, corrupt: Vec<String> } }
    writes "On turned: the ledgers, their bases, their places in the index of those that turn and of those over their limit or in debt, \
events. Otherwise nothing."
}

/// Ledgers that one call turns at most: about a millisecond.
pub const PAGE_LEDGERS: usize = 10;

/// The outcome of turns.
#[derive(Debug)]
pub struct TurnedLedgers {
    /// How many turned.
    pub count: i64,
    /// The entries of those that are corrupt, in the index of ledgers that turn.
    pub corrupt: Vec<String>,
}

impl Store {
    /// Turns ledgers of one tenant, at most [`PAGE_LEDGERS`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn turn(
        &self,
        lane: Lane,
        tenant: &TenantId,
        turns: &[LedgerTurn],
        cause: &Cause,
    ) -> Result<TurnedLedgers, StoreError> {
        let keys = self.keys().of(tenant.partition());
        let key = |turn: &LedgerTurn| keys.budget(tenant.as_str(), &turn.unit, turn.scope.as_str());
        let call = Turn {
            tenant,
            budgets: turns.iter().map(key).collect(),
            context: &cause.lines(),
            words: turns.iter().flat_map(words).collect(),
        };
        let TurnReply::Turned { count, corrupt, .. } = outcome(self.run(lane, &call).await)?;
        Ok(TurnedLedgers { count, corrupt })
    }

    /// The fields of a tenant's ledgers that their turns depend on, by their entries in the index of ledgers that turn.
    ///
    /// # Errors
    /// [`StoreError`]; within it, for a key that holds something else.
    pub async fn turning_ledgers(
        &self,
        tenant: &TenantId,
        entries: &[String],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let keys = self.keys().of(tenant.partition());
        let key = |entry: &String| {
            let mut words = entry.splitn(3, ' ').skip(1);
            let (unit, scope) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            keys.budget(tenant.as_str(), unit, scope)
        };
        let fields = [&IDENTITY[..], &SOURCES[..]].concat();
        self.records(entries.iter().map(key), &fields).await
    }

    /// Turns the ledgers that a request must wait for, to a time in milliseconds since the epoch.
    ///
    /// # Errors
    /// [`StoreError`]; also for a ledger whose record cannot be read.
    pub async fn turn_first(
        &self,
        tenant: &TenantId,
        ledgers: &[Record],
        until_ms: i64,
        cause: &Cause,
    ) -> Result<(), StoreError> {
        self.extra_round_trip(ExtraRoundTrip::TurnFirst);
        let turn = |record: &Record| LedgerTurn::of(record, until_ms, true).transpose();
        let turns: Result<Vec<LedgerTurn>, _> = ledgers.iter().filter_map(turn).collect();
        let mut turns = about(Some(tenant), turns)?;
        // While a clock is in doubt, what is due by it alone does not turn.
        turns.retain(|turn| turn.is_due || !turn.was_planned);
        for page in turns.chunks(PAGE_LEDGERS) {
            let turned = self
                .turn(Lane::Request, tenant, page, &cause.turn_met())
                .await?;
            if let Some(corrupt) = turned.corrupt.into_iter().next() {
                return Err(StoreError::Corrupt(corrupt).about(tenant));
            }
        }
        Ok(())
    }
}

/// A turn as the script reads it.
fn words(turn: &LedgerTurn) -> Vec<String> {
    let mut words = vec![
        turn.scope.to_string(),
        turn.unit.clone(),
        turn.turns_at_ms.clone(),
    ];
    let Figures {
        allocated,
        spent,
        debt,
    } = turn.figures;
    words.extend([allocated, spent, debt].map(|figure| figure.to_string()));
    words.push(u8::from(turn.renews).to_string());
    let source = |(name, value): &(&str, Option<String>)| {
        [(*name).to_owned(), value.clone().unwrap_or_default()]
    };
    let field = |(name, value): &(&str, String)| [(*name).to_owned(), value.clone()];
    counted(&mut words, turn.sources.iter().flat_map(source));
    counted(&mut words, turn.fields.iter().flat_map(field));
    words.push(turn.events.len().to_string());
    for (event_type, data) in &turn.events {
        words.push((*event_type).to_owned());
        let data = data
            .iter()
            .flat_map(|(name, value)| [name.clone(), value.clone()]);
        counted(&mut words, data);
    }
    words
}

/// Appends how many there are, and them.
fn counted(words: &mut Vec<String>, more: impl Iterator<Item = String>) {
    let at = words.len();
    words.push(String::new());
    words.extend(more);
    words[at] = (words.len() - at - 1).to_string();
}
