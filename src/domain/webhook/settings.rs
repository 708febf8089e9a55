//! How events are delivered to a subscription, and when anomalies emit events.

use serde_json::json;

use crate::domain::fields::{Range, Read, object, plain_field};

object! {
    /// How failed deliveries are repeated: after the n-th failed attempt, `initial_delay_ms` times `backoff_multiplier` to the
    /// power of n-1, at most `max_delay_ms`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct RetryPolicy as "WebhookRetryPolicy": Read + Serialize + Json {
        /// Attempts after the first.
        pub max_retries: i64 { range: 0..=10, default: 5 },
        /// Delay after the first failed attempt, in milliseconds.
        pub initial_delay_ms: i64 { range: 100..=60_000, default: 1_000 },
        /// Factor by which each further delay is longer than the one before.
        pub backoff_multiplier: f64 { range: 1.0..=10.0, default: 2.0 },
        /// Longest delay, in milliseconds.
        pub max_delay_ms: i64 { range: 1_000..=3_600_000, default: 60_000 },
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        // Each member above has one, so none is missing.
        Self::parse_json("{}").expect("every member has a default")
    }
}

/// A share from 0 to 1, kept to six decimals.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct Share(f64);

plain_field!(
    Share,
    (),
    |(), _| json!({"type": "number", "format": "double", "minimum": 0, "maximum": 1}),
    |value, ()| {
        let share = f64::read(value, &Range::of(0.0..=1.0))?;
        Some(Self((share * 1e6).round() / 1e6))
    }
);

object! {
    /// When anomalies emit events. Absent members have their defaults.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Thresholds as "WebhookThresholdConfig": Read + Serialize + Json {
        /// Shares of a budget whose crossing emits `budget.threshold_crossed`, to six decimals, 20 at most. Absent: 0.8,
        /// 0.95 and 1.
        pub budget_utilization: Option<Vec<Share>> { unpublished_items: ..=20 },
        /// How many times the usual rate a budget is charged at when that emits `budget.burn_rate_anomaly`.
        pub burn_rate_multiplier: Option<f64> { range: 1.5.., default: 3.0 },
        /// Window of the rate, in seconds. The usual rate is that of the twelve windows before.
        pub burn_rate_window_seconds: Option<i64> { range: 60..=86_400, default: 300 },
        /// Share of creates and decisions above which the tenant's denials emit `reservation.denial_rate_spike`.
        pub denial_rate_threshold: Option<f64> { range: 0.0..=1.0, default: 0.1 },
        /// Share of ended reservations above which those that expired emit `reservation.expiry_rate_spike`.
        pub expiry_rate_threshold: Option<f64> { range: 0.0..=1.0, default: 0.05 },
        /// Share of attempts above which refused API keys emit `api_key.auth_failure_rate_spike`.
        pub auth_failure_rate_threshold: Option<f64> { range: 0.0..=1.0, default: 0.1 },
        /// The time over which these shares are taken, in seconds.
        pub rate_window_seconds: Option<i64> { range: 60..=86_400, default: 300 },
    }
}

impl Thresholds {
    /// The thresholds of a subscription that names none, in millionths.
    pub const DEFAULT_MILLIONTHS: [i64; 3] = [800_000, 950_000, 1_000_000];

    /// The shares of a budget that are named, in millionths, ascending; 0 is never crossed.
    pub fn millionths(&self) -> Vec<i64> {
        let shares = self.budget_utilization.iter().flatten();
        let mut millionths: Vec<i64> = shares.map(|share| (share.0 * 1e6).round() as i64).collect();
        millionths.retain(|share| *share > 0);
        millionths.sort_unstable();
        millionths.dedup();
        millionths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Caps;

    #[test]
    fn a_retry_policy_is_complete_and_bounded() {
        let policy = RetryPolicy::parse_json(r#"{"max_retries":0,"backoff_multiplier":1}"#);
        let policy = policy.expect("a policy");
        assert_eq!((policy.max_retries, policy.max_delay_ms), (0, 60_000));
        assert_eq!(RetryPolicy::parse_json(&policy.to_json()), Some(policy));
        for text in [
            r#"{"max_retries":11}"#,
            r#"{"max_retries":"1"}"#,
            r#"{"initial_delay_ms":99}"#,
            r#"{"backoff_multiplier":0.99}"#,
            r#"{"backoff_multiplier":"2"}"#,
            r#"{"max_delay_ms":3600001}"#,
            r#"{"jitter":1}"#,
            "[]",
        ] {
            assert!(RetryPolicy::parse_json(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_stored_value_is_read_regardless_of_current_bounds() {
        for text in [
            r#"{"max_retries":11}"#,
            r#"{"initial_delay_ms":99}"#,
            r#"{"backoff_multiplier":0.99}"#,
        ] {
            assert!(RetryPolicy::parse_stored(text).is_some(), "{text}");
        }
        assert!(RetryPolicy::parse_stored(r#"{"max_retries":"1"}"#).is_none());
        let caps = format!(
            r#"{{"max_tokens":-1,"tool_allowlist":["{}"]}}"#,
            "x".repeat(257)
        );
        assert!(Caps::parse_json(&caps).is_none());
        assert!(Caps::parse_stored(&caps).is_some());
    }

    #[test]
    fn shares_are_kept_to_six_decimals_and_counted_in_millionths() {
        let config =
            r#"{"budget_utilization":[0.5000004,1,0.1234567,0.5,0],"rate_window_seconds":60}"#;
        let config = Thresholds::parse_json(config).expect("thresholds");
        assert_eq!(config.millionths(), [123_457, 500_000, 1_000_000]);
        assert_eq!(
            Thresholds::parse_json(&config.to_json()),
            Some(config.clone())
        );
        assert!(
            config
                .to_json()
                .starts_with(r#"{"budget_utilization":[0.5,1.0,0.123457,0.5,0.0],"#)
        );
        for text in [
            r#"{"budget_utilization":[1.000001]}"#,
            r#"{"budget_utilization":[-0.1]}"#,
            r#"{"burn_rate_multiplier":1.4}"#,
            r#"{"denial_rate_threshold":2}"#,
            r#"{"rate_window_seconds":59}"#,
            r#"{"surprise":1}"#,
        ] {
            assert!(Thresholds::parse_json(text).is_none(), "{text}");
        }
    }
}
