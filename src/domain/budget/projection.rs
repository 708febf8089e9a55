//! A ledger at a later time than its record's: what its turn changes, for the script that writes it and for readers, who do not write.

use std::borrow::Cow;

use super::increase::{BudgetIncrease, Increases};
use super::ledger::{BudgetLedger, BudgetStatus};
use super::limit::Windows;
use super::period::{BudgetPeriod, RolloverPolicy};
use super::turn::{Figures, Periods, turned};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::ScopePath;

/// `turns_at_ms` of a ledger in which nothing has moved since its last turn. It is in no index, and turns when it is used.
pub const IDLE: &str = "0";

/// `turns_at_ms` of a ledger whose terms have changed: its next turn finds out when it is due.
pub const UNPLANNED: &str = "1";

/// The fields that a turn is computed from. While they are as they were, so is its result.
pub const SOURCES: [&str; 17] = [
    "turns_at_ms",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "overdraft_limit",
    "period_every",
    "period_zone",
    "period_anchor_ms",
    "period_allocated",
    "carry_limit",
    "rollover_policy",
    "period_start",
    "period_end",
    "limits",
    "increases",
    "epoch",
];

/// The fields that say which ledger turns, and whether it may.
pub const IDENTITY: [&str; 5] = ["ledger_id", "tenant", "scope", "unit", "status"];

/// An event of a turn: its type, and names and values of its data.
pub type TurnEvent = (&'static str, Vec<(String, String)>);

/// What the turn of one ledger changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerTurn {
    /// Tenant that owns the ledger.
    pub tenant: TenantId,
    /// Scope of the ledger.
    pub scope: ScopePath,
    /// Unit of the ledger, as it is stored.
    pub unit: String,
    /// The fields that it was computed from, as they were; `None` for one that is absent.
    pub sources: Vec<(&'static str, Option<String>)>,
    /// The figures afterwards.
    pub figures: Figures,
    /// When it turns next, in milliseconds since the epoch; [`IDLE`], or empty if it never does.
    pub turns_at_ms: String,
    /// Other fields, with their new values.
    pub fields: Vec<(&'static str, String)>,
    /// Events, cause before effect.
    pub events: Vec<TurnEvent>,
    /// Whether something was due.
    pub is_due: bool,
    /// Whether a period has begun, so that the ledger is judged anew by its limit.
    pub renews: bool,
    /// Whether it was known when it turns next. If not, the turn finds it out.
    pub was_planned: bool,
}

impl LedgerTurn {
    /// The turn of a ledger to a time, in milliseconds since the epoch, for a request that uses it now, or for the sweep. `None` if
    /// nothing of it ever turns.
    ///
    /// # Errors
    /// [`RecordError`] names the field that is missing or cannot be read.
    pub fn of(record: &Record, now_ms: i64, is_used: bool) -> Result<Option<Self>, RecordError> {
        let Some(turns_at) = record.get("turns_at_ms").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let was_idle = turns_at == IDLE;
        let figures = figures(record)?;
        let periods = periods(record)?;
        let mut increases = increases(record)?;
        let turned = turned(figures, periods.as_ref(), &increases.timed(), now_ms);
        let ended = increases.ended(now_ms);
        let windows: Windows = record.optional("limits")?.unwrap_or_default();
        let is_window_over = windows.turns_at_ms().is_some_and(|at_ms| at_ms <= now_ms);
        let windows = windows.at(now_ms);
        let end_ms = match (turned.begun, &periods) {
            (Some((bounds, _)), _) => Some(bounds.end_ms),
            (None, periods) => periods.as_ref().map(|periods| periods.end_ms),
        };
        let ends_ms = [end_ms, windows.turns_at_ms(), increases.first_end_ms()];
        let next_ms = ends_ms.into_iter().flatten().min();
        let is_due = turned.begun.is_some() || is_window_over || !ended.is_empty();
        let rests = !is_used
            && !was_idle
            && is_due
            && windows.is_unused()
            && increases.is_empty()
            && is_at_rest(record, periods.is_some(), turned.figures)?;
        let turns_at_ms = match next_ms {
            _ if rests => IDLE.to_owned(),
            Some(next_ms) => next_ms.to_string(),
            None => String::new(),
        };
        let (mut fields, mut events) = (Vec::new(), Vec::new());
        if is_window_over {
            fields.push(("limits", windows.to_string()));
        }
        if !ended.is_empty() {
            fields.push(("increases", increases.to_string()));
        }
        for increase in &ended {
            events.push((increase.until.as_ms(), increase_ended(record, increase)?));
        }
        if let Some((bounds, carried)) = turned.begun {
            let epoch: i64 = record.optional("epoch")?.unwrap_or(0);
            let [start, end] = [bounds.start_ms, bounds.end_ms].map(moment);
            if !was_idle {
                let started = period_started(record, figures, carried, [&start, &end])?;
                events.push((bounds.start_ms, started));
            }
            fields.extend([
                ("period_start", start),
                ("period_end", end),
                ("epoch", (epoch + 1).to_string()),
            ]);
        }
        // What ends when a period begins comes first.
        events.sort_by_key(|(at_ms, _)| *at_ms);
        let source = |name: &'static str| (name, record.get(name).map(ToOwned::to_owned));
        Ok(Some(Self {
            tenant: record.read("tenant")?,
            scope: record.read("scope")?,
            unit: record.text("unit")?.to_owned(),
            sources: SOURCES.map(source).into(),
            figures: turned.figures,
            was_planned: turns_at == turns_at_ms,
            turns_at_ms,
            fields,
            events: events.into_iter().map(|(_, event)| event).collect(),
            is_due,
            renews: turned.begun.is_some(),
        }))
    }
}

/// A ledger's record as it is at a time, in milliseconds since the epoch, whether a script has written that or not.
///
/// # Errors
/// [`RecordError`] names the field that is missing or cannot be read.
pub fn projected(record: &Record, now_ms: i64) -> Result<Cow<'_, Record>, RecordError> {
    if record.get("status") == Some(BudgetStatus::Closed.as_str()) {
        return Ok(Cow::Borrowed(record));
    }
    let record = with_windows(record, now_ms)?;
    let Some(turn) = LedgerTurn::of(&record, now_ms, false)?.filter(|turn| turn.is_due) else {
        return Ok(record);
    };
    let Figures {
        allocated,
        spent,
        debt,
    } = turn.figures;
    let taken = i128::from(spent) + i128::from(debt) + i128::from(record.integer("reserved")?);
    let remaining = i64::try_from(i128::from(allocated) - taken);
    let remaining = remaining.map_err(|_| RecordError::of("remaining"))?;
    let over = debt > record.integer("overdraft_limit")?;
    let over = ("is_over_limit", if over { "1" } else { "0" }.to_owned());
    let over = Some(over).filter(|_| turn.renews);
    let figures = [
        ("allocated", allocated),
        ("spent", spent),
        ("debt", debt),
        ("remaining", remaining),
    ];
    let figures = figures.map(|(name, figure)| (name, figure.to_string()));
    let fields = figures.into_iter().chain(turn.fields).chain(over);
    let record = fields.fold(record.into_owned(), |record, (name, value)| {
        record.with(name, value)
    });
    Ok(Cow::Owned(record))
}

/// The same for the windows that scripts roll.
fn with_windows(record: &Record, now_ms: i64) -> Result<Cow<'_, Record>, RecordError> {
    let Some(limits) = record.get("limits").filter(|text| !text.is_empty()) else {
        return Ok(Cow::Borrowed(record));
    };
    let windows = record.read::<Windows>("limits")?.at(now_ms).to_string();
    Ok(match windows == limits {
        true => Cow::Borrowed(record),
        false => Cow::Owned(record.clone().with("limits", windows)),
    })
}

impl BudgetLedger {
    /// The ledger of a record as it is at a time, in milliseconds since the epoch, whether it has turned by then or not.
    ///
    /// # Errors
    /// [`RecordError`] names the field that is missing or cannot be read.
    pub fn at(record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        Self::from_record(projected(record, now_ms)?.as_ref())
    }
}

fn figures(record: &Record) -> Result<Figures, RecordError> {
    Ok(Figures {
        allocated: record.integer("allocated")?,
        spent: record.integer("spent")?,
        debt: record.integer("debt")?,
    })
}

fn increases(record: &Record) -> Result<Increases, RecordError> {
    Ok(record.optional("increases")?.unwrap_or_default())
}

fn periods(record: &Record) -> Result<Option<Periods>, RecordError> {
    let Some(period) = record.optional::<BudgetPeriod>("period")? else {
        return Ok(None);
    };
    let policy: Option<RolloverPolicy> = record.optional("rollover_policy")?;
    Ok(Some(Periods {
        schedule: period.schedule(),
        renewal: period.renewal(policy.unwrap_or(RolloverPolicy::None)),
        end_ms: record.read::<Moment>("period_end")?.as_ms(),
    }))
}

/// Whether nothing is held or owed, so that no event can be due before something moves.
fn is_at_rest(record: &Record, renews: bool, figures: Figures) -> Result<bool, RecordError> {
    let is_spent = renews && figures.spent > 0;
    Ok(record.integer("reserved")? == 0 && !is_spent && figures.debt == 0)
}

fn moment(ms: i64) -> String {
    Moment::from_ms(ms).map_or_else(String::new, |moment| moment.to_string())
}

fn increase_ended(record: &Record, increase: &BudgetIncrease) -> Result<TurnEvent, RecordError> {
    let data = [
        ("ledger_id", record.text("ledger_id")?.to_owned()),
        ("unit", record.text("unit")?.to_owned()),
        ("increase_id", increase.increase_id.clone()),
        ("amount", increase.amount.value().to_string()),
        ("until_ms", increase.until.as_ms().to_string()),
    ];
    let data = data.map(|(name, value)| (format!("data.{name}"), value));
    Ok(("budget.increase_ended", data.into()))
}

fn period_started(
    record: &Record,
    previous: Figures,
    carried: i64,
    [start, end]: [&str; 2],
) -> Result<TurnEvent, RecordError> {
    let text = |name: &str| record.text(name).map(ToOwned::to_owned);
    let data = [
        ("ledger_id", text("ledger_id")?),
        ("unit", text("unit")?),
        ("operation", "PERIOD".to_owned()),
        ("period_start", start.to_owned()),
        ("period_end", end.to_owned()),
        ("carried", carried.to_string()),
        ("previous.allocated", previous.allocated.to_string()),
        ("previous.spent", previous.spent.to_string()),
        ("previous.debt", previous.debt.to_string()),
        ("previous.period_start", text("period_start")?),
        ("previous.period_end", text("period_end")?),
    ];
    let data = data.map(|(name, value)| (format!("data.{name}"), value));
    Ok(("budget.period_started", data.into()))
}
