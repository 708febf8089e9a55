//! The audit chain of a tenant, and the sealer of chains.

use std::time::Duration;

use budget_authority::admin::Failure;
use budget_authority::dispatcher::{SealPass, Sealer, ViewMetrics};
use budget_authority::domain::cause::Actor;
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::dispatcher::lease::Taken;
use budget_authority::store::{Day, Lease, Store};
use budget_authority::tools::verify::audit::{AuditReport, verify_audit};
use prometheus::Registry;

use super::admin_fixture::{admin_key, cause, tenant_id};
use super::days::{Entry, days_around};
use super::redis_fixture::RedisFixture;
use super::tenant_fixture::TenantFixture;

pub const KEEP: Duration = Duration::from_secs(400 * 86_400);
pub const LEASE: Duration = Duration::from_secs(60);

pub fn sealer(store: &Store) -> Sealer {
    sealer_counting(store, &Registry::new())
}

/// A sealer with metrics.
pub fn sealer_counting(store: &Store, registry: &Registry) -> Sealer {
    let views = ViewMetrics::register(registry).expect("a fresh registry");
    Sealer::new(store.clone(), KEEP, views, registry).expect("a fresh registry")
}

/// Seals every partition, and adds the entries to the view over all logs.
pub async fn seal_everything(store: &Store) {
    let leases = every_lease(store).await;
    let sealer = sealer(store);
    let pass = async || sealer.run_once(&leases, |_| {}).await;
    while pass().await.expect("Redis answers").more {}
}

/// The lease of every partition.
pub async fn every_lease(store: &Store) -> Vec<Lease> {
    let partitions: Vec<_> = Partition::all().collect();
    let alive = ["d".to_owned()];
    let mine = |taken| match taken {
        Some(Taken::Mine(lease)) => Some(lease),
        _ => None,
    };
    loop {
        let taken = store.take_leases("d", LEASE, &alive, LEASE, &partitions);
        let taken = taken.await.expect("an answer").into_iter();
        let leases: Vec<_> = taken.filter_map(mine).collect();
        // A node that does not know the script yet leaves its partitions out.
        if leases.len() == partitions.len() {
            return leases;
        }
    }
}

/// Appends an entry as a script does, but at any time.
pub fn append(store: &Store, tenant: &str, at_ms: i64, fields: &[(&str, &str)]) {
    let redis = super::redis::shared();
    let partition = TenantId::parse(tenant).map_or(Partition::FIRST, |id| id.partition());
    let (keys, day) = (store.keys(), Day::of_ms(at_ms));
    let chain = keys.chain(partition, tenant);
    let sequence: i64 = redis.run(&["HINCRBY", &chain, "sequence", "1"]);
    let (sequence, at) = (sequence.to_string(), at_ms.to_string());
    let (log, id) = (keys.audit(partition, tenant, day), format!("{at_ms}-*"));
    let mut words = vec!["XADD", &log, &id, "sequence", &sequence, "at_ms", &at];
    words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    redis.run::<String>(&words);
    redis.run::<i64>(&["SADD", &keys.unsealed(partition), tenant]);
}

impl TenantFixture {
    /// A tenant without audit entries, on a store of its own.
    pub async fn unaudited() -> Self {
        Self::bare(&RedisFixture::new().store, "acme").await
    }

    pub fn chain_key(&self) -> String {
        self.store.keys().chain(self.partition(), self.name())
    }

    pub fn log_key(&self, day: Day) -> String {
        let keys = self.store.keys();
        keys.audit(self.partition(), self.name(), day)
    }

    /// The logs of all days that the test may see.
    pub fn log_keys(&self) -> [String; 3] {
        days_around(&self.store).map(|day| self.log_key(day))
    }

    /// The entries of its log.
    pub fn audit_log(&self) -> Vec<Entry> {
        self.entries_of(|keys, day| keys.audit(self.partition(), self.name(), day))
    }

    /// Removes an entry from its log.
    pub fn drop_entry(&self, id: &str) {
        let drop = |log: String| self.redis().run::<i64>(&["XDEL", &log, id]);
        assert_eq!(self.log_keys().map(drop).iter().sum::<i64>(), 1);
    }

    /// The seals of all days that the test may see.
    pub fn seals_keys(&self) -> [String; 3] {
        let keys = self.store.keys();
        days_around(&self.store).map(|day| keys.seals(self.partition(), self.name(), day))
    }

    /// The newest of them that have a field: the number of an entry, or `last`.
    pub fn seals_with(&self, field: &str) -> String {
        let has = |seals: &String| self.redis().run(&["HEXISTS", seals, field]);
        let seals = self.seals_keys().into_iter().rev().find(has);
        seals.unwrap_or_else(|| panic!("no seal has {field}"))
    }

    /// Appends this many entries of now.
    pub async fn record_failures(&self, entries: usize) {
        let (cause, tenant) = (cause(Actor::Admin(None)), tenant_id(self.name()));
        let operator = admin_key();
        for _ in 0..entries {
            let failure = Failure {
                cause: &cause,
                method: "POST",
                path: "/v1/admin/budgets",
                status: 409,
                code: "DUPLICATE_RESOURCE",
                message: "no",
                tenant: Some(&tenant),
                caller: Some(&operator),
            };
            self.admin.audit_failure(&failure).await;
        }
    }

    /// Appends this many entries of a past day, as a script of that time.
    pub async fn write_audit_entries(&self, day: Day, entries: i64) {
        let (keys, partition) = (self.store.keys(), self.partition());
        let log = keys.audit(partition, self.name(), day);
        let chain = self.chain_key();
        for number in 0..entries {
            let at_ms = (day.start_ms() + 1_000 * number).to_string();
            let sequence: i64 = self.redis().run(&["HINCRBY", &chain, "sequence", "1"]);
            let sequence = sequence.to_string();
            let id = format!("{at_ms}-0");
            self.redis().run::<String>(&[
                "XADD",
                &log,
                &id,
                "sequence",
                &sequence,
                "at_ms",
                &at_ms,
                "operation",
                "fundBudget",
                "status",
                "200",
            ]);
        }
        let (days, member) = (keys.days(partition), format!("{}:{day}", self.name()));
        self.redis().run::<i64>(&["ZADD", &days, "1", &member]);
        self.redis()
            .run::<i64>(&["SADD", &keys.unsealed(partition), self.name()]);
    }

    /// Seals all that is there.
    pub async fn seal(&self) -> SealPass {
        let (sealer, lease) = (sealer(&self.store), self.lease("d", LEASE).await);
        let mut sum = SealPass::default();
        loop {
            let pass = sealer
                .run_once(&[lease], |_| {})
                .await
                .expect("Redis answers");
            sum.sealed += pass.sealed;
            sum.missing += pass.missing;
            sum.failed += pass.failed;
            if !pass.more {
                return sum;
            }
        }
    }

    pub async fn audit_report(&self) -> AuditReport {
        let report = verify_audit(&self.store, &[], |_| {}).await;
        report.expect("Redis answers")
    }
}
