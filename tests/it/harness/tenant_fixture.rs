//! One tenant: its records in Redis, what it owns, and its close.

use std::ops::Deref;

use budget_authority::admin::UpdatedTenant;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::caller::{Caller, RuntimeCaller};
use budget_authority::domain::ids::{IdempotencyKey, Partition, ReservationId, TenantId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::reservation::ReservationCreateRequest;
use budget_authority::domain::scope::Level;
use budget_authority::domain::subject::Subject;
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::domain::tenant::TenantUpdateRequest;
use budget_authority::ledger::Ledger;
use budget_authority::store::{Store, StoreError};
use redis::Cmd;

use super::admin_fixture::{AdminFixture, Ask, admin_key, ask, cause, new_key, scope};
use super::redis_fixture::{Fields, RedisFixture};

/// See the module documentation.
pub struct TenantFixture {
    admin: AdminFixture,
    pub ledger: Ledger,
    pub id: TenantId,
    pub caller: RuntimeCaller,
    pub(super) queued: Vec<(String, Cmd)>,
}

pub fn closed() -> TenantUpdateRequest {
    TenantUpdateRequest {
        status: Some(TenantStatus::Closed),
        ..TenantUpdateRequest::default()
    }
}

impl TenantFixture {
    /// A tenant that the admin plane created, with a key and nothing else, on a store of its own.
    pub async fn new() -> Self {
        Self::on(RedisFixture::new().store, "acme").await
    }

    /// The same on a store of the test's choice.
    pub async fn on(store: Store, name: &str) -> Self {
        let admin = AdminFixture::on(store);
        admin.tenant(name).await;
        let (key, ask) = (new_key(name), ask());
        let created = admin.admin.create_api_key(&key, &ask.request()).await;
        match super::admin_fixture::caller(&created.expect("a key")) {
            Caller::Tenant(caller) => Self::of(admin, caller),
            Caller::Admin(_) => panic!("a tenant's key"),
        }
    }

    /// A tenant of which nothing but its record is stored: no key, no event, no audit entry.
    pub async fn bare(store: &Store, name: &str) -> Self {
        let id = TenantId::parse(name).expect("a tenant id");
        let key = ApiKeyText::generate("sk_live_", id.partition());
        let caller = RuntimeCaller {
            key_id: key.key_id().clone(),
            key_hash: key.hash(),
            partition: id.partition(),
            tenant: id,
        };
        let tenant = Self::of(AdminFixture::on(store.clone()), caller);
        let key = tenant.tenant_key(name);
        let words = ["HSET", &key, "tenant_id", name, "name", name];
        let words = [&words[..], &["status", "ACTIVE"]].concat();
        tenant.run::<()>(&words).await;
        tenant
    }

    /// The facts of its events, oldest first.
    pub async fn event_facts(&self) -> Vec<Fields> {
        let (keys, partition) = (self.store.keys(), self.id.partition());
        self.log_facts(|day| keys.events(partition, self.id.as_str(), day))
            .await
    }

    fn of(admin: AdminFixture, caller: RuntimeCaller) -> Self {
        Self {
            ledger: Ledger::new(admin.store.clone(), 30),
            id: caller.tenant.clone(),
            caller,
            admin,
            queued: Vec::new(),
        }
    }

    /// With ledgers, a frozen one among them; holds on them; keys of each kind; subscriptions of each kind. Returns the ids
    /// of the holds.
    pub async fn populated() -> (Self, Vec<ReservationId>) {
        let tenant = Self::new().await;
        let ids = tenant.populate().await;
        (tenant, ids)
    }

    pub async fn populate(&self) -> Vec<ReservationId> {
        for place in ["", "/agent:a", "/agent:b", "/workspace:w"] {
            self.budget(place, 10_000).await;
        }
        let mut ids = Vec::new();
        for (n, place) in ["/agent:a", "/agent:b", "/agent:a"].iter().enumerate() {
            ids.push(
                self.hold(&format!("hold-{n}"), place, 100 + n as i64)
                    .await
                    .expect("held"),
            );
        }
        self.set_budget("/workspace:w", &["status", "FROZEN"]).await;
        for (status, expires) in [("REVOKED", ""), ("ACTIVE", "1000"), ("ACTIVE", "")] {
            let created = self
                .admin
                .admin
                .create_api_key(&new_key(self.name()), &ask().request())
                .await;
            let id = created.expect("a key").key_id.to_string();
            let key = self.keys().api_key(self.id.partition(), &id);
            self.run::<()>(&["HSET", &key, "status", status]).await;
            if !expires.is_empty() {
                self.run::<()>(&["HSET", &key, "expires_at_ms", expires])
                    .await;
            }
        }
        for (n, status) in ["ACTIVE", "PAUSED", "DISABLED"].iter().enumerate() {
            self.webhook(&format!("whsub_{n}"), status).await;
        }
        ids
    }

    /// The number of active holds.
    pub async fn active(&self) -> usize {
        let due = self.keys().due(self.id.partition(), self.name());
        self.run(&["ZCARD", &due]).await
    }

    /// A ledger of TOKENS below the tenant.
    pub async fn budget(&self, place: &str, allocated: i64) {
        let name = self.name();
        self.admin
            .budget(name, &format!("tenant:{name}{place}"), allocated)
            .await;
    }

    pub async fn set_budget(&self, place: &str, fields: &[&str]) {
        let name = self.name();
        let key = self.budget_key(name, &format!("tenant:{name}{place}"));
        self.run::<()>(&[&["HSET", &key], fields].concat()).await;
    }

    pub async fn webhook(&self, id: &str, status: &str) {
        let (keys, partition) = (self.keys(), self.id.partition());
        let key = keys.webhook(partition, id);
        self.run::<()>(&["HSET", &key, "status", status, "name", "hook"])
            .await;
        let list = keys.webhooks(partition, self.name());
        self.run::<()>(&["ZADD", &list, "1", id]).await;
    }

    /// Reserves TOKENS below the tenant for an hour.
    pub async fn hold(
        &self,
        key: &str,
        place: &str,
        amount: i64,
    ) -> Result<ReservationId, StoreError> {
        let name = self.name();
        let path = format!("tenant:{name}{place}");
        let levels = path.split('/').map(|segment| {
            let (level, value) = segment.split_once(':').expect("a segment");
            let level = match level {
                "tenant" => Level::Tenant,
                "agent" => Level::Agent,
                "workspace" => Level::Workspace,
                other => panic!("{other}"),
            };
            (level, value.to_owned())
        });
        let request = ReservationCreateRequest {
            idempotency_key: IdempotencyKey::parse(key).expect("a key"),
            subject: Subject::from_values(levels).expect("a subject"),
            action: budget_authority::domain::subject::Action {
                kind: "llm.completion".into(),
                name: "model".into(),
                tags: None,
            },
            estimate: super::admin_fixture::tokens(amount),
            ttl_ms: Some(3_600_000),
            grace_period_ms: 5_000,
            overage_policy: Some(OveragePolicy::Reject),
            dry_run: false,
            metadata: None,
            observe_mode: None,
        };
        let body = HashedRequest {
            request,
            payload_hash: PayloadHash::of_body(&Json::from(key)),
            attested: None,
        };
        let cause = cause(budget_authority::domain::cause::Actor::Admin(None));
        let reserved = self.ledger.reserve(&self.caller, &body, &cause).await?;
        Ok(reserved.reservation_id.expect("no dry run"))
    }

    /// Closes the tenant under one request.
    pub async fn close(&self) -> UpdatedTenant {
        self.close_as(&ask()).await
    }

    pub async fn close_as(&self, ask: &Ask) -> UpdatedTenant {
        let updated = self
            .admin
            .admin
            .update_tenant(&self.id, &closed(), &ask.request())
            .await;
        updated.expect("a closed tenant")
    }

    /// The flip alone, as of a process that dies right after it; the id of its request.
    pub async fn flip(&self) -> String {
        let ask = ask();
        let (admin, part) = (&self.admin.admin, std::time::Duration::ZERO);
        let flipped = admin
            .change_tenant(&self.id, &closed(), part, &ask.request())
            .await;
        assert!(flipped.expect("flipped").0);
        let request_id = ask.request().cause.request_id.as_ref();
        request_id.expect("a request id").as_str().to_owned()
    }

    /// The partition of its records.
    pub fn partition(&self) -> Partition {
        self.id.partition()
    }

    pub fn name(&self) -> &str {
        self.id.as_str()
    }

    pub fn keys(&self) -> &budget_authority::store::Keys {
        self.store.keys()
    }

    /// The ledger of TOKENS below the tenant.
    pub async fn ledger_at(
        &self,
        place: &str,
    ) -> budget_authority::domain::budget::ledger::BudgetLedger {
        let path = format!("tenant:{}{place}", self.name());
        let found = self
            .admin
            .admin
            .lookup_budget(&admin_key(), &scope(&path), Unit::Tokens)
            .await;
        found.expect("a ledger")
    }
}

impl Deref for TenantFixture {
    type Target = AdminFixture;

    fn deref(&self) -> &AdminFixture {
        &self.admin
    }
}
