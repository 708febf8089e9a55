//! Metrics of connections and scripts.

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};

/// Metrics of the connections and scripts. No label carries a tenant, key or address.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    /// `budget_script_duration_seconds{script}`.
    pub script_duration: HistogramVec,
    /// `budget_extra_round_trips_total{reason}`.
    pub extra_round_trips: IntCounterVec,
    /// `budget_redis_connections_opened_total`.
    pub connections_opened: IntCounter,
    /// `budget_redis_connection_failures_total`.
    pub connection_failures: IntCounter,
    /// `budget_redis_primary_changes_total`.
    pub primary_changes: IntCounter,
    /// `budget_redis_primaries_unreachable`.
    pub unreachable_primaries: IntGauge,
}

/// Why a request needed another round trip to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraTrip {
    /// The node did not know the script.
    NoScript,
    /// The slot belongs to another node.
    Moved,
    /// The slot is migrating to another node.
    Ask,
    /// A node asked to retry: its slot migrates, it is loading, or a failover is in progress.
    TryAgain,
    /// The node is a replica.
    ReadOnly,
    /// The connection was reopened.
    Reconnect,
    /// The policy was selected from an outdated set, or for another time.
    Stale,
    /// Holds past their grace period were expired first.
    SweepFirst,
    /// The caller assumed another UTC day than Redis.
    Clock,
    /// The process looked up the tenant of an API key that it had not seen.
    FirstUse,
    /// A page of a list read its index again.
    Paging,
    /// The id belongs to another partition than the caller's, and was read there.
    ForeignId,
    /// An admin key names no tenant, so the owner of the reservation or policy was looked up.
    Owner,
}

impl ExtraTrip {
    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoScript => "noscript",
            Self::Moved => "moved",
            Self::Ask => "ask",
            Self::TryAgain => "tryagain",
            Self::ReadOnly => "readonly",
            Self::Reconnect => "reconnect",
            Self::Stale => "stale",
            Self::SweepFirst => "sweep_first",
            Self::Clock => "clock",
            Self::FirstUse => "first_use",
            Self::Paging => "paging",
            Self::ForeignId => "foreign_id",
            Self::Owner => "owner",
        }
    }
}

impl StoreMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken, so at most once per registry.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            script_duration: register_histogram_vec_with_registry!(
                "budget_script_duration_seconds",
                "Round trip of a script to Redis, without waiting for a connection.",
                &["script"],
                vec![
                    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                    0.5, 1.0, 2.5,
                ],
                registry
            )?,
            extra_round_trips: register_int_counter_vec_with_registry!(
                "budget_extra_round_trips_total",
                "Round trips to Redis beyond the one that a request needs.",
                &["reason"],
                registry
            )?,
            connections_opened: register_int_counter_with_registry!(
                "budget_redis_connections_opened_total",
                "Connections opened for requests, reconnects included.",
                registry
            )?,
            connection_failures: register_int_counter_with_registry!(
                "budget_redis_connection_failures_total",
                "Failed attempts to open a connection for requests.",
                registry
            )?,
            primary_changes: register_int_counter_with_registry!(
                "budget_redis_primary_changes_total",
                "Changes of a primary, by Sentinel or in a cluster slot.",
                registry
            )?,
            unreachable_primaries: register_int_gauge_with_registry!(
                "budget_redis_primaries_unreachable",
                "Primaries that did not answer the last readiness probe.",
                registry
            )?,
        })
    }

    /// Counts one more round trip.
    pub fn extra_trip(&self, reason: ExtraTrip) {
        self.extra_round_trips
            .with_label_values(&[reason.as_str()])
            .inc();
    }
}
