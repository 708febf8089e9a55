//! Records of a past day, as the scripts of the runtime plane left them then.

use std::time::Duration;

use budget_authority::store::{Day, Lease, Store};

use super::redis_fixture::now_ms;
use super::tenant_fixture::TenantFixture;

const DAY_MS: i64 = 86_400_000;
const LEASE: Duration = Duration::from_secs(60);

/// How a record of the past ended.
#[derive(Clone, Copy)]
pub enum End {
    Committed { charged: i64, debt: i64 },
    Released,
    Expired,
    Active,
}

/// A tenant with records of one past day, and the ledger that they leave.
pub struct PastDay {
    pub tenant: TenantFixture,
    pub day: Day,
    pub lease: Lease,
    pub now_ms: i64,
}

impl PastDay {
    pub async fn new(store: &Store, days_ago: i64) -> Self {
        let tenant = TenantFixture::bare(store, "acme").await;
        let now_ms = now_ms(store).await;
        let lease = tenant.lease("d", LEASE).await;
        let day = Day::of_ms(now_ms - days_ago * DAY_MS);
        Self {
            tenant,
            day,
            lease,
            now_ms,
        }
    }

    pub fn index(&self) -> String {
        self.tenant
            .store
            .keys()
            .reservations(self.lease.partition, "acme", self.day)
    }

    pub fn member(&self) -> String {
        format!("acme:{}", self.day)
    }

    pub async fn look_again_at(&self) -> Option<i64> {
        let days = self.tenant.store.keys().days(self.lease.partition);
        self.tenant.run(&["ZSCORE", &days, &self.member()]).await
    }

    /// A reservation created at the day's start and ended at a time.
    pub async fn record(&mut self, end: End, ended_ms: i64) -> String {
        let id = format!("r{}_{:024x}", self.lease.partition, rand::random::<u64>());
        let key = self.tenant.reservation_key(&id);
        let (created, ended) = (self.day.start_ms().to_string(), ended_ms.to_string());
        let ledger = self.tenant.ledger_key();
        let common = [
            "HSET",
            &key,
            "create_hash",
            "h",
            "tenant",
            "acme",
            "unit",
            "TOKENS",
            "estimate",
            "10",
            "scope_path",
            "tenant:acme",
            "budgeted",
            "1",
            "created_at_ms",
            &created,
            "expires_at_ms",
            &created,
            "grace_ms",
            "0",
        ];
        self.tenant.queue(&common);
        match end {
            End::Committed { charged, debt } => {
                let (charged, debt, spent) = (
                    charged.to_string(),
                    debt.to_string(),
                    (charged - debt).to_string(),
                );
                self.tenant.queue(&[
                    "HSET",
                    &key,
                    "status",
                    "COMMITTED",
                    "charged",
                    &charged,
                    "finalized_at_ms",
                    &ended,
                ]);
                if debt != "0" {
                    let over_limit_or_in_debt = self
                        .tenant
                        .store
                        .keys()
                        .over_limit_or_in_debt(self.lease.partition);
                    let entry = format!("debt {} TOKENS tenant:{}", self.tenant.id, self.tenant.id);
                    self.tenant
                        .queue(&["ZINCRBY", &over_limit_or_in_debt, &debt, &entry]);
                    self.tenant.queue(&["HSET", &key, "debt.1", &debt]);
                }
                self.tenant.queue(&["HINCRBY", &ledger, "spent", &spent]);
                self.tenant.queue(&["HINCRBY", &ledger, "debt", &debt]);
            }
            End::Released => self.tenant.queue(&[
                "HSET",
                &key,
                "status",
                "RELEASED",
                "finalized_at_ms",
                &ended,
            ]),
            End::Expired => {
                self.tenant
                    .queue(&["HSET", &key, "status", "EXPIRED", "expired_at_ms", &ended])
            }
            End::Active => self.tenant.queue(&["HSET", &key, "status", "ACTIVE"]),
        }
        let (index, member) = (self.index(), self.member());
        self.tenant.queue(&["ZADD", &index, &created, &id]);
        let days = self.tenant.store.keys().days(self.lease.partition);
        self.tenant.queue(&["ZADD", &days, "NX", &created, &member]);
        self.tenant.queue(&["HSET", &ledger, "status", "ACTIVE"]);
        self.tenant.write().await;
        id
    }

    /// An event posted at the day's start; its record's key.
    pub async fn post(&mut self) -> String {
        let keys = self.tenant.store.keys().clone();
        let partition = self.lease.partition;
        let id = format!("e{partition}_{:024x}", rand::random::<u64>());
        let (key, index) = (
            keys.usage_event(partition, &id),
            keys.usage_events(partition, "acme", self.day),
        );
        let created = self.day.start_ms().to_string();
        let mut words = vec!["HSET", &key, "status", "APPLIED", "tenant", "acme"];
        words.extend(["unit", "TOKENS", "scope_path", "tenant:acme"]);
        words.extend(["budgeted", "1", "charged", "3", "created_at_ms", &created]);
        self.tenant.queue(&words);
        self.tenant.queue(&["ZADD", &index, &created, &id]);
        let (days, member) = (keys.days(partition), self.member());
        self.tenant.queue(&["ZADD", &days, "NX", &created, &member]);
        self.tenant.write().await;
        key
    }

    pub async fn base(&self) -> (i64, i64) {
        let base: (Option<i64>, Option<i64>) = self
            .tenant
            .run(&[
                "HMGET",
                &self.tenant.ledger_key(),
                "base_spent",
                "base_debt",
            ])
            .await;
        (base.0.unwrap_or(0), base.1.unwrap_or(0))
    }

    pub async fn figures(&self) -> [i64; 5] {
        self.tenant
            .run::<i64>(&["HSETNX", &self.tenant.ledger_key(), "remaining", "0"])
            .await;
        self.tenant.figures().await
    }

    pub async fn exists(&self, key: &str) -> bool {
        self.tenant.run(&["EXISTS", key]).await
    }
}
