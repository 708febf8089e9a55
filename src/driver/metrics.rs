//! Metrics of connections and scripts.

use crate::domain::words::words;
use crate::metrics::metrics;

metrics! {
    /// Metrics of the connections and scripts. No label carries a tenant, key or address.
    pub struct StoreMetrics {
        /// Round trip of a script to Redis, without waiting for a connection.
        pub script_duration: HistogramVec["script"] buckets [
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        ] = "budget_script_duration_seconds",
        /// Round trips to Redis beyond the one that a request needs.
        pub extra_round_trips: IntCounterVec["reason"] = "budget_extra_round_trips_total",
        /// Members of a batch: calls for one slot that went together because others were in flight.
        pub batch_members: Histogram buckets [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] = "budget_batch_members",
        /// How long a member of a batch waited until it was sent.
        pub batch_queued: Histogram buckets [
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        ] = "budget_batch_queued_seconds",
        /// Members of batches that raised an error, such as for a corrupt record; the others ran.
        pub batch_members_failed: IntCounter = "budget_batch_members_failed_total",
        /// Connections opened for requests, reconnects included.
        pub connections_opened: IntCounter = "budget_redis_connections_opened_total",
        /// Failed attempts to open a connection.
        pub connection_failures: IntCounter = "budget_redis_connection_failures_total",
        /// Changes of a primary: by Sentinel, in a cluster slot, or another process of Redis at the same address.
        pub primary_changes: IntCounter = "budget_redis_primary_changes_total",
        /// 1 while the deployment's record in Redis is gone or another one than at the start, so that nothing is served.
        pub other_data: IntGauge = "budget_deployment_record_differs",
        /// Primaries that did not answer the last readiness probe.
        pub unreachable_primaries: IntGauge = "budget_redis_primaries_unreachable",
        /// Writes of requests that fewer replicas had in time than BUDGET_REDIS_WAIT demands; they are 503.
        pub too_few_replicas: IntCounter = "budget_redis_too_few_replicas_total",
        /// Times that background work could not read a key, because it holds something else than it should.
        pub unreadable_keys: IntCounter = "budget_redis_unreadable_keys_total",
        /// The share of maxmemory that the fullest primary uses; 0 without a limit.
        pub memory_used: Gauge = "budget_redis_memory_used_ratio",
        /// What the tenant takes that has stored the most, of those that store something while a node is at 75 % of its memory; else 0.
        pub largest_stock: IntGauge = "budget_largest_tenant_stock_bytes",
    }
}

words! {
    /// Why a request needed another round trip to Redis; the label of the metric.
    ExtraRoundTrip: "snake_case" {
        /// The node did not know the script.
        NoScript = "noscript",
        /// The slot belongs to another node.
        Moved,
        /// The slot is migrating to another node.
        Ask,
        /// A node asked to retry: its slot migrates, it is loading, or a failover is in progress.
        TryAgain = "tryagain",
        /// The node is a replica.
        ReadOnly = "readonly",
        /// The connection was reopened.
        Reconnect,
        /// The batch that the call went in ended before it.
        Again,
        /// The policy was selected from an outdated set, or for another time.
        Stale,
        /// Holds past their grace period were expired first.
        SweepFirst,
        /// Ledgers whose period or increase is over turned first.
        TurnFirst,
        /// Budgets were created first, by templates.
        CreateFirst,
        /// The caller assumed another UTC day than Redis.
        Clock,
        /// The process looked up the tenant of an API key that it had not seen.
        FirstUse,
        /// The API key was checked before a large body was read.
        LargeBody,
        /// A page of a list read its index again.
        Paging,
        /// The id belongs to another partition than the caller's, and was read there.
        ForeignId,
        /// Redis had no memory for the request, so it was looked up whether it was made before.
        Full,
        /// An admin key names no tenant, so the owner of the reservation or policy was looked up.
        Owner,
    }
}

impl StoreMetrics {
    /// Shows each reason from the start, at zero, since a rate needs a value before the first case.
    pub fn show_reasons(&self) {
        for reason in ExtraRoundTrip::ALL {
            self.extra_round_trips.with_label_values(&[reason.as_str()]);
        }
    }

    /// Counts one more round trip.
    pub fn extra_round_trip(&self, reason: ExtraRoundTrip) {
        self.extra_round_trips
            .with_label_values(&[reason.as_str()])
            .inc();
    }
}
