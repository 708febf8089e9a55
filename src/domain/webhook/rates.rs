//! The rates that a subscription watches, and their limits.

use std::fmt;

use super::{Subscription, Thresholds};
use crate::domain::event::types::{EventCategory, EventType, EventTypeName};
use crate::domain::record::{Record, RecordError};
use crate::domain::words::words;

words! {
    /// A share of a tenant's requests or reservations that is watched.
    Metric: "snake_case" {
        /// Denied of all creates and decisions.
        DenialRate,
        /// Expired of all reservations that have ended.
        ExpiryRate,
        /// Refused of all attempts with the tenant's API keys.
        AuthFailureRate,
    }
}

impl Metric {
    /// The event that is emitted when it is too high.
    pub fn event_type(self) -> EventType {
        match self {
            Self::DenialRate => EventType::ReservationDenialRateSpike,
            Self::ExpiryRate => EventType::ReservationExpiryRateSpike,
            Self::AuthFailureRate => EventType::ApiKeyAuthFailureRateSpike,
        }
    }
}

/// From when on a rate is unusual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// A share that is exceeded; of a burn rate, the multiple of what is usual.
    pub above: f64,
    /// The time over which the rate is taken.
    pub window_seconds: i64,
}

impl RateLimit {
    /// What a subscription with these thresholds watches of a rate that emits events of this type; `None` for other types.
    pub fn of(event_type: &str, thresholds: Option<&Thresholds>) -> Option<Self> {
        use EventType as Type;
        let default = Thresholds::default();
        let given = thresholds.unwrap_or(&default);
        let window = given.rate_window_seconds;
        let (above, usual, window) = match EventType::parse(event_type)? {
            Type::ReservationDenialRateSpike => (given.denial_rate_threshold, 0.1, window),
            Type::ReservationExpiryRateSpike => (given.expiry_rate_threshold, 0.05, window),
            Type::ApiKeyAuthFailureRateSpike => (given.auth_failure_rate_threshold, 0.1, window),
            Type::BudgetBurnRateAnomaly => {
                let window = given.burn_rate_window_seconds;
                (given.burn_rate_multiplier, 3.0, window)
            }
            _ => return None,
        };
        Some(Self {
            above: above.unwrap_or(usual),
            window_seconds: window.unwrap_or(300),
        })
    }

    /// The limit that an event is about, by its facts; `None` for one of another type.
    pub(super) fn of_event(event_type: &str, facts: &Record) -> Result<Option<Self>, RecordError> {
        let field = match EventType::parse(event_type) {
            Some(EventType::BudgetBurnRateAnomaly) => "data.multiplier_limit",
            _ if Self::of(event_type, None).is_some() => "data.threshold_rate",
            _ => return Ok(None),
        };
        let above = facts.text(field)?.parse();
        Ok(Some(Self {
            above: above.map_err(|_| RecordError::of(field))?,
            window_seconds: facts.integer("data.window_seconds")?,
        }))
    }
}

/// `<limit>:<window>`.
impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.above, self.window_seconds)
    }
}

/// Whether a subscription selects events of this type by type or by category.
pub(super) fn selects_type(
    types: &[EventTypeName],
    categories: &[EventCategory],
    event_type: EventType,
) -> bool {
    categories.contains(&event_type.category())
        || types
            .iter()
            .any(|name| name.as_str() == event_type.as_str())
}

impl Subscription {
    /// What it watches besides the usual, as records have it.
    pub fn watched(&self) -> String {
        let (filter, thresholds) = (self.scope_filter.as_deref(), self.thresholds.as_ref());
        watched(
            &self.event_types,
            &self.event_categories,
            filter,
            thresholds,
        )
    }
}

/// What a subscription with these selectors watches besides the usual: thresholds of utilization in millionths, and limits of
/// rates as `<metric>:<limit>:<window>`; blanks between. A burn rate is of ledgers, so those that are meant follow.
pub fn watched(
    types: &[EventTypeName],
    categories: &[EventCategory],
    scope_filter: Option<&str>,
    thresholds: Option<&Thresholds>,
) -> String {
    let selects = |event_type| selects_type(types, categories, event_type);
    let mut words = Vec::new();
    if let Some(thresholds) = thresholds
        && selects(EventType::BudgetThresholdCrossed)
    {
        words.extend(thresholds.millionths().iter().map(i64::to_string));
    }
    for &metric in Metric::ALL {
        let event_type = metric.event_type();
        let limit = RateLimit::of(event_type.as_str(), thresholds);
        let is_usual = limit == RateLimit::of(event_type.as_str(), None);
        if let Some(limit) = limit.filter(|_| !is_usual && selects(event_type)) {
            words.push(format!("{metric}:{limit}"));
        }
    }
    let burn_rate = EventType::BudgetBurnRateAnomaly;
    if let Some(limit) = RateLimit::of(burn_rate.as_str(), thresholds)
        && selects(burn_rate)
    {
        let filter = scope_filter
            .unwrap_or_default()
            .bytes()
            .map(|byte| match byte {
                b'!'..=b'$' | b'&'..=b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02x}"),
            });
        let filter: String = filter.collect();
        words.push(format!("burn_rate:{limit}:{filter}"));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;

    #[test]
    fn a_rate_has_its_own_threshold_and_the_window_of_its_kind() {
        let given = Thresholds::parse_json(
            r#"{"burn_rate_multiplier":2,"burn_rate_window_seconds":60,"expiry_rate_threshold":0.5,"rate_window_seconds":90}"#,
        );
        for (event_type, default, own) in [
            ("reservation.denial_rate_spike", (0.1, 300), (0.1, 90)),
            ("reservation.expiry_rate_spike", (0.05, 300), (0.5, 90)),
            ("api_key.auth_failure_rate_spike", (0.1, 300), (0.1, 90)),
            ("budget.burn_rate_anomaly", (3.0, 300), (2.0, 60)),
        ] {
            let of = |thresholds: Option<&Thresholds>| {
                let limit = RateLimit::of(event_type, thresholds).expect("a rate");
                (limit.above, limit.window_seconds)
            };
            assert_eq!(
                (of(None), of(given.as_ref())),
                (default, own),
                "{event_type}"
            );
        }
        assert_eq!(RateLimit::of("reservation.denied", given.as_ref()), None);
    }

    #[test]
    fn watched_limits_round_trip_as_words() {
        let types = |names: &[&str]| -> Vec<EventTypeName> {
            let parse = |name: &&str| EventTypeName::parse(name).expect("a type");
            names.iter().map(parse).collect()
        };
        let given = Thresholds::parse_json(
            r#"{"budget_utilization":[0.9,0.5],"denial_rate_threshold":0.25,"rate_window_seconds":600,"burn_rate_multiplier":1.5}"#,
        );
        let all = [EventCategory::Budget, EventCategory::Reservation];
        assert_eq!(
            watched(&[], &all, Some("tenant:acme/app:a b*"), given.as_ref()),
            "500000 900000 denial_rate:0.25:600 expiry_rate:0.05:600 burn_rate:1.5:300:tenant:acme/app:a%20b*"
        );
        assert_eq!(watched(&[], &all, None, None), "burn_rate:3:300:");
        let denials = types(&["reservation.denial_rate_spike"]);
        assert_eq!(
            watched(&denials, &[], None, given.as_ref()),
            "denial_rate:0.25:600"
        );
        assert_eq!(watched(&denials, &[], None, None), "");
        assert_eq!(
            watched(&types(&["tenant.created"]), &[], None, given.as_ref()),
            ""
        );
    }

    #[test]
    fn an_event_names_the_exceeded_limit() {
        let facts = Record::from_iter([
            ("data.threshold_rate", "0.1"),
            ("data.multiplier_limit", "3"),
            ("data.window_seconds", "60"),
        ]);
        let of = |event_type| RateLimit::of_event(event_type, &facts).expect("complete facts");
        let limit = |above| {
            Some(RateLimit {
                above,
                window_seconds: 60,
            })
        };
        assert_eq!(of("reservation.expiry_rate_spike"), limit(0.1));
        assert_eq!(of("budget.burn_rate_anomaly"), limit(3.0));
        assert_eq!(of("budget.threshold_crossed"), None);
        let damaged = Record::from_iter([("data.threshold_rate", "much")]);
        let error = RateLimit::of_event("reservation.denial_rate_spike", &damaged);
        assert_eq!(error, Err(RecordError::of("data.threshold_rate")));
    }
}
