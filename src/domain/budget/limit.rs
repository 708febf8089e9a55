//! Limits over windows of time: how they are requested, stored and returned.

use std::fmt;

use crate::domain::amount::Amount;
use crate::domain::fields::{Read as _, object, plain_field};
use crate::domain::moment::Moment;
use crate::domain::period::{Every, Purpose, Schedule, Zone};
use crate::domain::record::{Record, RecordError, Recorded, stored_text};

/// Most limits of a budget.
pub const LIMITS_MAX: usize = 4;

object! {
    /// A limit over windows of time: what is charged within a window, and what is held, stays within an amount.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetLimit: Read + Serialize {
        /// Length of a window: an ISO 8601 duration of one component, from `PT1M` to `P10Y`.
        pub every: Every { rules: Purpose::Window },
        /// Time zone, by its IANA name. Windows of days and longer follow it.
        pub time_zone: Zone { default: Zone::UTC },
        /// Start of any window. Absent: 2024-01-01T00:00 in the time zone, so days begin at midnight, weeks on Monday, months on the
        /// first.
        pub anchor: Option<Moment>,
        /// How much a window allows.
        pub amount: Amount,
    }
    check |limit, object| {
        if !Schedule::takes_anchor(limit.anchor) {
            object.refuse_member("anchor", Schedule::ANCHOR_WANTED);
        }
    }
}

object! {
    /// A limit of a budget, and how much of it the present window has used.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WindowLimit: Serialize {
        /// Length of a window.
        pub every: Every,
        /// Time zone, by its IANA name.
        pub time_zone: Zone,
        /// Start of any window. Absent: 2024-01-01T00:00 in the time zone.
        pub anchor: Option<Moment>,
        /// How much a window allows.
        pub amount: Amount,
        /// Charged in this window.
        pub used: Amount,
        /// Start of this window.
        pub window_start: Moment,
        /// End of this window, and start of the next one.
        pub window_end: Moment,
    }
}

/// Whether two limits have the same windows, so that one of them is of no use. Names the second.
pub fn repeated(limits: &[BudgetLimit]) -> Option<usize> {
    let windows = |limit: &BudgetLimit| (limit.every, limit.time_zone.clone(), limit.anchor);
    (1..limits.len()).find(|&at| {
        limits[..at]
            .iter()
            .any(|one| windows(one) == windows(&limits[at]))
    })
}

/// A limit as a ledger stores it. Times in milliseconds since the epoch, amounts in the unit of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    amount: i64,
    /// Charged since `counted_from_ms`.
    used: i64,
    start_ms: i64,
    end_ms: i64,
    /// The start of the window; in the first one, when the limit was set.
    counted_from_ms: i64,
    every: Every,
    zone: Zone,
    anchor: Option<Moment>,
}

impl Window {
    fn new(limit: &BudgetLimit, now_ms: i64) -> Self {
        let mut window = Self {
            amount: limit.amount.value(),
            used: 0,
            start_ms: i64::MIN,
            end_ms: i64::MIN,
            counted_from_ms: now_ms,
            every: limit.every,
            zone: limit.time_zone.clone(),
            anchor: limit.anchor,
        };
        let bounds = window.schedule().bounds(now_ms);
        (window.start_ms, window.end_ms) = (bounds.start_ms, bounds.end_ms);
        window
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(self.every, &self.zone, self.anchor)
    }

    /// Begins the window that contains a time, unless this one does or began later.
    fn roll(&mut self, now_ms: i64) {
        if now_ms < self.end_ms {
            return;
        }
        let bounds = self.schedule().bounds(now_ms);
        self.start_ms = bounds.start_ms.max(self.end_ms);
        (self.end_ms, self.counted_from_ms, self.used) = (bounds.end_ms, self.start_ms, 0);
    }

    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [amount, used, start, end, from, _, every, zone, anchor] = words[..] else {
            return None;
        };
        let anchor = Some(anchor).filter(|text| *text != "-");
        let anchor = anchor.map(|ms| Moment::from_ms(ms.parse().ok()?));
        Some(Self {
            amount: amount.parse().ok()?,
            used: used.parse().ok()?,
            start_ms: start.parse().ok()?,
            end_ms: end.parse().ok()?,
            counted_from_ms: from.parse().ok()?,
            every: Every::parse(every, Purpose::Window)?,
            zone: Zone::parse(zone)?,
            anchor: match anchor {
                Some(read) => Some(read?),
                None => None,
            },
        })
    }
}

/// A line of nine words, as `lua/lib/ledger/windows.lua` reads it. The sixth is the length of windows that are all equally long, which
/// the scripts roll themselves.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            amount,
            used,
            start_ms,
            end_ms,
            counted_from_ms,
            every,
            zone,
            anchor,
        } = self;
        write!(f, "{amount} {used} {start_ms} {end_ms} {counted_from_ms} ")?;
        match self.schedule().fixed_length_ms() {
            Some(length_ms) => write!(f, "{length_ms} {every} {zone} ")?,
            None => write!(f, "- {every} {zone} ")?,
        }
        match anchor {
            Some(anchor) => write!(f, "{}", anchor.as_ms()),
            None => f.write_str("-"),
        }
    }
}

/// The limits of a ledger, each with its present window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

impl Windows {
    /// Limits of which nothing is used yet, at a time in milliseconds since the epoch.
    pub fn of(limits: &[BudgetLimit], now_ms: i64) -> Self {
        Self(
            limits
                .iter()
                .map(|limit| Window::new(limit, now_ms))
                .collect(),
        )
    }

    /// The end of the first window that a script cannot roll, in milliseconds since the epoch.
    pub fn turns_at_ms(&self) -> Option<i64> {
        let turning = self.0.iter();
        let turning = turning.filter(|window| window.schedule().fixed_length_ms().is_none());
        turning.map(|window| window.end_ms).min()
    }

    /// Begins the windows that contain a time, in milliseconds since the epoch. What a later window has used stays.
    #[must_use]
    pub fn at(mut self, now_ms: i64) -> Self {
        for window in &mut self.0 {
            window.roll(now_ms);
        }
        self
    }

    /// Whether nothing is used in any window.
    pub fn is_unused(&self) -> bool {
        self.0.iter().all(|window| window.used == 0)
    }

    fn parse(text: &str) -> Option<Self> {
        let windows = text.lines().skip(1).map(Window::read);
        let windows = windows.collect::<Option<Vec<_>>>().map(Self)?;
        (windows.0.is_empty() == text.is_empty()).then_some(windows)
    }
}

/// The least room of all and the first end, so that scripts need not read more; then a line each.
impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows = self.0.iter();
        let room = windows.map(|window| window.amount - window.used);
        let ends_ms = self.0.iter().map(|window| window.end_ms);
        if let (Some(room), Some(end_ms)) = (room.min(), ends_ms.min()) {
            write!(f, "{room} {end_ms}")?;
        }
        for window in &self.0 {
            write!(f, "\n{window}")?;
        }
        Ok(())
    }
}

stored_text!(Windows, Windows::parse);
stored_text!(
    Vec<BudgetLimit>,
    |text| Self::parse_stored(text),
    |limits| Some(limits.to_json())
);

/// The limits of a budget, as responses have them. None is as good as absent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct WindowLimits(Vec<WindowLimit>);

plain_field!(WindowLimits as Vec<WindowLimit>);

impl Recorded for WindowLimits {
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError> {
        let windows: Windows = record.optional(field)?.unwrap_or_default();
        let unreadable = || RecordError::of(field);
        let unit = record.read("unit")?;
        let amount = |value| Amount::new(unit, value).ok_or_else(unreadable);
        let moment = |ms| Moment::from_ms(ms).ok_or_else(unreadable);
        let limit = |window: Window| {
            Ok(WindowLimit {
                amount: amount(window.amount)?,
                used: amount(window.used)?,
                window_start: moment(window.start_ms)?,
                window_end: moment(window.end_ms)?,
                every: window.every,
                time_zone: window.zone,
                anchor: window.anchor,
            })
        };
        let limits: Vec<_> = windows.0.into_iter().map(limit).collect::<Result<_, _>>()?;
        Ok((!limits.is_empty()).then_some(Self(limits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::read_body;
    use crate::domain::rows;

    const HOUR_MS: i64 = 3_600_000;
    /// 2026-03-29, when Berlin skips an hour.
    const NIGHT_MS: i64 = 1_774_738_800_000;

    fn limit(members: &str) -> BudgetLimit {
        let body = format!(r#"{{{members},"amount":{{"unit":"TOKENS","amount":50}}}}"#);
        read_body(&body).expect("a limit")
    }

    #[test]
    fn stored_windows_read_back() {
        let limits = [
            limit(r#""every":"PT1M""#),
            limit(r#""every":"P1D","time_zone":"Europe/Berlin""#),
            limit(r#""every":"P1W","anchor":"2026-01-05T06:00:00Z""#),
        ];
        let windows = Windows::of(&limits, NIGHT_MS + 5);
        let text = windows.to_string();
        assert_eq!(
            text,
            "50 1774738860000\n\
             50 0 1774738800000 1774738860000 1774738800005 60000 PT1M UTC -\n\
             50 0 1774738800000 1774821600000 1774738800005 - P1D Europe/Berlin -\n\
             50 0 1774245600000 1774850400000 1774738800005 604800000 P1W UTC 1767592800000"
        );
        assert_eq!(Windows::parse(&text), Some(windows.clone()));
        // The day of the shift has 23 hours.
        assert_eq!(windows.turns_at_ms(), Some(NIGHT_MS + 23 * HOUR_MS));
        assert_eq!(Windows::parse(""), Some(Windows::default()));
        assert_eq!(Windows::parse("50 1\n50 0 1 2"), None);
        assert_eq!(Windows::parse("50 1"), None);
    }

    #[test]
    fn a_window_begins_once_and_never_earlier() {
        let mut windows = Windows::of(&[limit(r#""every":"PT1H""#)], NIGHT_MS + 5);
        windows.0[0].used = 7;
        let present = windows.clone();
        assert_eq!(windows.clone().at(NIGHT_MS + HOUR_MS - 1), present);
        assert_eq!(windows.clone().at(NIGHT_MS - HOUR_MS), present);
        assert!(!windows.is_unused());
        let next = windows.at(NIGHT_MS + 30 * HOUR_MS + 9);
        assert!(next.is_unused());
        let start_ms = NIGHT_MS + 30 * HOUR_MS;
        assert_eq!(
            (
                next.0[0].start_ms,
                next.0[0].end_ms,
                next.0[0].counted_from_ms
            ),
            (start_ms, start_ms + HOUR_MS, start_ms)
        );
    }

    #[test]
    fn two_limits_have_different_windows() {
        let day = limit(r#""every":"P1D""#);
        let local = limit(r#""every":"P1D","time_zone":"Asia/Tokyo""#);
        assert_eq!(repeated(&[day.clone(), local.clone()]), None);
        assert_eq!(repeated(&[day.clone(), local, day]), Some(2));
    }

    #[test]
    fn what_is_wrong_with_a_limit_is_named() {
        for (members, wrong) in rows(
            r#""every":"PT30S" => every: must be minutes, hours, days
            "every":"P1D","time_zone":"Berlin" => time_zone: must be
            "every":"P1D","anchor":"1969-12-31T00:00:00Z" => anchor: must be in the years 1970 to 2100
            "every":"P1D","used":1 => used"#,
        ) {
            let body = format!(r#"{{{members},"amount":{{"unit":"TOKENS","amount":50}}}}"#);
            let message = read_body::<BudgetLimit>(&body).expect_err(members);
            assert!(message.contains(wrong), "{members}: {message}");
        }
    }
}
