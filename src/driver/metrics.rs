//! What the store counts.

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// Metrics of the connections and scripts. No label carries a tenant, key or address.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    /// `budget_script_duration_seconds{script}`: the round trip to Redis; waiting for a connection is not counted.
    pub script_duration: HistogramVec,
    /// `budget_extra_round_trips_total{reason}`: round trips beyond the one that a request needs.
    pub extra_round_trips: IntCounterVec,
    /// `budget_redis_connections_opened_total`: connections opened for requests, reconnects included.
    pub connections_opened: IntCounter,
    /// `budget_redis_connection_failures_total`: attempts to open such a connection that failed.
    pub connection_failures: IntCounter,
    /// `budget_redis_primary_changes_total`: changes of the primary seen, by Sentinel or in a cluster slot.
    pub primary_changes: IntCounter,
    /// `budget_redis_masters_unreachable`: nodes that hold data and did not answer the last readiness probe.
    pub unreachable_masters: IntGauge,
}

/// Why a request took another round trip to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraTrip {
    /// The node did not know the script.
    NoScript,
    /// The slot belongs to another node.
    Moved,
    /// The slot is on its way to another node.
    Ask,
    /// A node asked to try again: its slot is on the move, it is loading, a failover is going on.
    TryAgain,
    /// The node is a replica.
    ReadOnly,
    /// The connection had to be opened anew.
    Reconnect,
    /// The policy was selected among others than the present ones, or for another time.
    Stale,
    /// Holds past their grace were expired first.
    SweepFirst,
    /// The day that the caller assumed was over.
    Clock,
    /// The first use of an API key in this process: whose it is had to be looked up.
    FirstUse,
    /// A page of a list takes another look at its index.
    Paging,
    /// The id belongs to another partition than the caller, and was read there.
    ForeignId,
    /// An admin key names no owner: whose reservation or policy it is had to be looked up.
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
        let duration = HistogramOpts::new(
            "budget_script_duration_seconds",
            "Round trip of a script to Redis, without waiting for a connection.",
        )
        .buckets(vec![
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
            2.5,
        ]);
        let metrics = Self {
            script_duration: HistogramVec::new(duration, &["script"])?,
            extra_round_trips: IntCounterVec::new(
                Opts::new(
                    "budget_extra_round_trips_total",
                    "Round trips to Redis beyond the one that a request needs.",
                ),
                &["reason"],
            )?,
            connections_opened: IntCounter::new(
                "budget_redis_connections_opened_total",
                "Connections opened for requests, reconnects included.",
            )?,
            connection_failures: IntCounter::new(
                "budget_redis_connection_failures_total",
                "Failed attempts to open a connection for requests.",
            )?,
            primary_changes: IntCounter::new(
                "budget_redis_primary_changes_total",
                "Changes of the primary seen.",
            )?,
            unreachable_masters: IntGauge::new(
                "budget_redis_masters_unreachable",
                "Nodes that hold data and did not answer the last readiness probe.",
            )?,
        };
        registry.register(Box::new(metrics.script_duration.clone()))?;
        registry.register(Box::new(metrics.extra_round_trips.clone()))?;
        registry.register(Box::new(metrics.connections_opened.clone()))?;
        registry.register(Box::new(metrics.connection_failures.clone()))?;
        registry.register(Box::new(metrics.primary_changes.clone()))?;
        registry.register(Box::new(metrics.unreachable_masters.clone()))?;
        Ok(metrics)
    }

    /// Counts one more round trip.
    pub fn extra_trip(&self, reason: ExtraTrip) {
        self.extra_round_trips
            .with_label_values(&[reason.as_str()])
            .inc();
    }
}
