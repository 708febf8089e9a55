//! How a subscription is delivered to, and from when on it is told of anomalies.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::fields::Value;

/// Most utilization thresholds of one subscription.
const UTILIZATIONS_MAX: usize = 20;

/// How failed deliveries are repeated: after the n-th failed attempt, `initial_delay_ms` times `backoff_multiplier` to the
/// power of n-1, at most `max_delay_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookRetryPolicy)]
pub struct RetryPolicy {
    /// Attempts after the first.
    #[schema(minimum = 0, maximum = 10, default = 5, required = false)]
    pub max_retries: i64,
    /// Pause after the first failed attempt, in milliseconds.
    #[schema(minimum = 100, maximum = 60_000, default = 1_000, required = false)]
    pub initial_delay_ms: i64,
    /// By what each further pause is longer than the one before.
    #[schema(minimum = 1.0, maximum = 10.0, default = 2.0, required = false)]
    pub backoff_multiplier: f64,
    /// Longest pause, in milliseconds.
    #[schema(
        minimum = 1_000,
        maximum = 3_600_000,
        default = 60_000,
        required = false
    )]
    pub max_delay_ms: i64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 5,
            initial_delay_ms: 1_000,
            backoff_multiplier: 2.0,
            max_delay_ms: 60_000,
        }
    }
}

impl RetryPolicy {
    /// Reads the member of a request; what is absent has its default.
    pub fn read(value: Value<'_>) -> Option<Self> {
        let default = Self::default();
        value.object(|policy| {
            let max_retries = policy.optional("max_retries", |v| v.integer(0..=10));
            let initial = policy.optional("initial_delay_ms", |v| v.integer(100..=60_000));
            let multiplier = policy.optional("backoff_multiplier", |v| v.number(1.0..=10.0));
            let longest = policy.optional("max_delay_ms", |v| v.integer(1_000..=3_600_000));
            Some(Self {
                max_retries: max_retries.unwrap_or(default.max_retries),
                initial_delay_ms: initial.unwrap_or(default.initial_delay_ms),
                backoff_multiplier: multiplier.unwrap_or(default.backoff_multiplier),
                max_delay_ms: longest.unwrap_or(default.max_delay_ms),
            })
        })
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The stored form.
    pub fn stored(&self) -> String {
        serde_json::to_string(self).expect("numbers serialize")
    }
}

/// From when on a subscription is told of anomalies. What is absent has its default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookThresholdConfig)]
pub struct Thresholds {
    /// Shares of a budget at whose crossing `budget.threshold_crossed` is told. Absent: 0.8, 0.95 and 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = utilizations_schema, required = false)]
    pub budget_utilization: Option<Vec<f64>>,
    /// Kept; burn rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1.5, default = 3.0, nullable = false)]
    pub burn_rate_multiplier: Option<f64>,
    /// Kept; burn rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 86_400, default = 300, nullable = false)]
    pub burn_rate_window_seconds: Option<i64>,
    /// Kept; rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0, default = 0.1, nullable = false)]
    pub denial_rate_threshold: Option<f64>,
    /// Kept; rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0, default = 0.05, nullable = false)]
    pub expiry_rate_threshold: Option<f64>,
    /// Kept; rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0, default = 0.1, nullable = false)]
    pub auth_failure_rate_threshold: Option<f64>,
    /// Kept; rates are not watched yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 86_400, default = 300, nullable = false)]
    pub rate_window_seconds: Option<i64>,
}

fn utilizations_schema() -> utoipa::openapi::schema::Array {
    use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
    let share = ObjectBuilder::new()
        .schema_type(Type::Number)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
        .minimum(Some(0.0))
        .maximum(Some(1.0));
    let about = "Shares of a budget at whose crossing `budget.threshold_crossed` is told, to six decimals, 20 at most. \
                 Absent: 0.8, 0.95 and 1.";
    ArrayBuilder::new()
        .description(Some(about))
        .items(share)
        .build()
}

impl Thresholds {
    /// The thresholds of a subscription that names none, in millionths.
    pub const DEFAULT_MILLIONTHS: [i64; 3] = [800_000, 950_000, 1_000_000];

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        const WINDOW: std::ops::RangeInclusive<i64> = 60..=86_400;
        value.object(|config| {
            let utilization = config.optional("budget_utilization", |value| {
                value.array(UTILIZATIONS_MAX, |share| share.number(0.0..=1.0))
            });
            let burn_rate = config.optional("burn_rate_multiplier", |v| v.number(1.5..=f64::MAX));
            let burn_window = config.optional("burn_rate_window_seconds", |v| v.integer(WINDOW));
            let mut rate = |name| config.optional(name, |value| value.number(0.0..=1.0));
            let denials = rate("denial_rate_threshold");
            let expiries = rate("expiry_rate_threshold");
            let auth_failures = rate("auth_failure_rate_threshold");
            let rate_window = config.optional("rate_window_seconds", |v| v.integer(WINDOW));
            let rounded = |shares: Vec<f64>| {
                let millionths = shares.into_iter().map(|share| (share * 1e6).round());
                millionths.map(|share| share / 1e6).collect()
            };
            Some(Self {
                budget_utilization: utilization.map(rounded),
                burn_rate_multiplier: burn_rate,
                burn_rate_window_seconds: burn_window,
                denial_rate_threshold: denials,
                expiry_rate_threshold: expiries,
                auth_failure_rate_threshold: auth_failures,
                rate_window_seconds: rate_window,
            })
        })
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The stored form.
    pub fn stored(&self) -> String {
        serde_json::to_string(self).expect("numbers serialize")
    }

    /// The shares of a budget that are named, in millionths, ascending; 0 is never crossed.
    pub fn millionths(&self) -> Vec<i64> {
        let shares = self.budget_utilization.iter().flatten();
        let mut millionths: Vec<i64> = shares.map(|share| (share * 1e6).round() as i64).collect();
        millionths.retain(|share| *share > 0);
        millionths.sort_unstable();
        millionths.dedup();
        millionths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::read_body;
    use crate::domain::json::Json;

    fn read<T>(text: &str, read: impl Fn(Value<'_>) -> Option<T>) -> Result<T, String> {
        let body = Json::parse(format!("{{\"v\":{text}}}").as_bytes()).expect("JSON");
        read_body(body, |body| body.required("v", read)).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_retry_policy_is_whole_and_bounded() {
        let policy = read(
            r#"{"max_retries":0,"backoff_multiplier":1}"#,
            RetryPolicy::read,
        );
        let policy = policy.expect("a policy");
        assert_eq!((policy.max_retries, policy.max_delay_ms), (0, 60_000));
        assert_eq!(RetryPolicy::from_stored(&policy.stored()), Some(policy));
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
            assert!(read(text, RetryPolicy::read).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_kept_to_six_decimals_and_counted_in_millionths() {
        let config =
            r#"{"budget_utilization":[0.5000004,1,0.1234567,0.5,0],"rate_window_seconds":60}"#;
        let config = read(config, Thresholds::read).expect("thresholds");
        assert_eq!(config.millionths(), [123_457, 500_000, 1_000_000]);
        assert_eq!(
            Thresholds::from_stored(&config.stored()),
            Some(config.clone())
        );
        assert!(
            config
                .stored()
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
            assert!(read(text, Thresholds::read).is_err(), "{text}");
        }
    }
}
