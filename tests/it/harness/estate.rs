//! A tenant that owns something of each kind, to be closed, and the check that all of it has ended as it must: each once.

use budget_authority::admin::{TenantUpdate, UpdatedTenant};
use budget_authority::domain::amount::Unit;
use budget_authority::domain::caller::{Caller, RuntimeCaller};
use budget_authority::domain::ids::{IdempotencyKey, ReservationId, TenantId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::scope::Level;
use budget_authority::domain::subject::Subject;
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::ledger::{Ledger, LedgerError, Reserve, Reserved};
use budget_authority::store::{Day, Store};
use redis::FromRedisValue;

use super::desk::{Ask, Desk, admin_key, ask, cause, new_key, scope};

/// See the module documentation.
pub struct Estate {
    pub desk: Desk,
    pub ledger: Ledger,
    pub tenant: TenantId,
    pub caller: RuntimeCaller,
}

pub fn closed() -> TenantUpdate {
    TenantUpdate {
        status: Some(TenantStatus::Closed),
        ..TenantUpdate::default()
    }
}

impl Estate {
    /// A tenant with a key and nothing else, on a store of its own.
    pub async fn new() -> Self {
        Self::on(super::store(&super::redis::shared().url()), "acme").await
    }

    pub async fn on(store: Store, name: &str) -> Self {
        let desk = Desk::on(store.clone());
        desk.tenant(name).await;
        let created = desk
            .admin
            .create_api_key(&new_key(name), &ask().request())
            .await;
        let created = created.expect("a key");
        let Caller::Tenant(caller) = super::desk::caller(&created) else {
            panic!("a tenant's key");
        };
        Self {
            ledger: Ledger::new(store, 600, 30),
            tenant: caller.tenant.clone(),
            caller,
            desk,
        }
    }

    /// With ledgers, a frozen one among them; holds on them; keys of each kind; subscriptions of each kind. Answers the ids
    /// of the holds.
    pub async fn furnished() -> (Self, Vec<ReservationId>) {
        let estate = Self::new().await;
        let ids = estate.furnish().await;
        (estate, ids)
    }

    pub async fn furnish(&self) -> Vec<ReservationId> {
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
                .desk
                .admin
                .create_api_key(&new_key(self.name()), &ask().request())
                .await;
            let id = created.expect("a key").key.key_id().to_string();
            let key = self.keys().api_key(self.tenant.partition(), &id);
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

    /// Writes a root ledger, `budgets` agents' ledgers and `holds` holds on both, as `reserve.lua` leaves them.
    pub async fn crowd(&self, budgets: usize, holds: usize) {
        let (keys, partition, name) = (self.keys().clone(), self.tenant.partition(), self.name());
        let store = &self.desk.store;
        store.node_times().await.expect("a time");
        let now_ms = store.clock().now_ms();
        let now = now_ms.to_string();
        let mut commands = Vec::new();
        let mut queue = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            commands.push((words[1].to_owned(), command));
        };
        let amount = |hold: usize| 1 + hold % 7;
        let mut held = vec![0; budgets];
        for hold in 0..holds {
            let agent = hold % budgets;
            held[agent] += amount(hold);
            let id = format!("r{partition}_{hold:024x}");
            let record = keys.reservation(partition, &id);
            let (scope, estimate) = (
                format!("tenant:{name}/agent:a{agent}"),
                amount(hold).to_string(),
            );
            // One a millisecond: a walk along an index of one score only would be slow.
            let created_ms = now_ms - hold as i64;
            let day = Day::of_ms(created_ms);
            let [now, expires, due] =
                [0, 3_599_000, 3_600_000].map(|later_ms| (created_ms + later_ms).to_string());
            let fields = format!(
                "status ACTIVE create_hash h tenant {name} unit TOKENS estimate {estimate} scope_path {scope} \
                 overage_policy REJECT created_at_ms {now} expires_at_ms {expires} grace_ms 1000 max_extensions 10"
            );
            let fields: Vec<_> = fields.split(' ').collect();
            queue(&[&["HSET", &record, "budgeted", "1 2"], &fields[..]].concat());
            queue(&["ZADD", &keys.reservations(partition, name, day), &now, &id]);
            queue(&["ZADD", &keys.due(partition, name), &due, &id]);
            queue(&["ZADD", &keys.due_tenants(partition), "LT", &due, name]);
            let registered = format!("{name}:{day}");
            queue(&["ZADD", &keys.days(partition), "NX", &now, &registered]);
        }
        let root = held.iter().sum::<usize>();
        let agents = held
            .iter()
            .enumerate()
            .map(|(agent, held)| (format!("/agent:a{agent}"), *held));
        for (place, held) in std::iter::once((String::new(), root)).chain(agents) {
            let scope = format!("tenant:{name}{place}");
            let key = keys.budget(partition, name, "TOKENS", &scope);
            let (remaining, held) = ((1_000_000_000 - held).to_string(), held.to_string());
            let fields = format!(
                "status ACTIVE spent 0 debt 0 overdraft_limit 0 is_over_limit 0 ledger_id {scope} tenant {name} \
                 scope {scope} unit TOKENS created_at_ms {now} base_spent 0 base_debt 0"
            );
            let fields: Vec<_> = fields.split(' ').collect();
            queue(&[&["HSET", &key], &fields[..]].concat());
            for (figure, by) in [
                ("remaining", &*remaining),
                ("reserved", &held),
                ("allocated", "1000000000"),
            ] {
                queue(&["HINCRBY", &key, figure, by]);
            }
            queue(&[
                "ZADD",
                &keys.budgets(partition, name),
                "0",
                &format!("{scope} 1 TOKENS"),
            ]);
        }
        for batch in commands.chunks(5_000) {
            store
                .query_all(batch)
                .await
                .expect("the commands are right");
        }
    }

    /// How many holds stand.
    pub async fn active(&self) -> usize {
        let due = self.keys().due(self.tenant.partition(), self.name());
        self.run(&["ZCARD", &due]).await
    }

    /// A ledger of TOKENS below the tenant.
    pub async fn budget(&self, place: &str, allocated: i64) {
        let name = self.name();
        self.desk
            .budget(name, &format!("tenant:{name}{place}"), allocated)
            .await;
    }

    pub async fn set_budget(&self, place: &str, fields: &[&str]) {
        let name = self.name();
        let key = self.desk.budget_key(name, &format!("tenant:{name}{place}"));
        self.run::<()>(&[&["HSET", &key], fields].concat()).await;
    }

    pub async fn webhook(&self, id: &str, status: &str) {
        let (keys, partition) = (self.keys(), self.tenant.partition());
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
    ) -> Result<ReservationId, LedgerError> {
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
        let request = Reserve {
            idempotency_key: IdempotencyKey::parse(key).expect("a key"),
            payload_hash: PayloadHash::of_body(&Json::String(key.to_owned())),
            subject: Subject::from_values(levels).expect("a subject"),
            action: budget_authority::domain::action::Action {
                kind: "llm.completion".to_owned(),
                name: "model".to_owned(),
                tags: None,
            },
            estimate: super::desk::tokens(amount),
            ttl_ms: Some(3_600_000),
            grace_ms: 5_000,
            overage_policy: Some(OveragePolicy::Reject),
            dry_run: false,
            metadata: None,
        };
        let cause = cause(budget_authority::domain::cause::Actor::Admin);
        match self.ledger.reserve(&self.caller, &request, &cause).await? {
            Reserved::Held { .. } => {
                let secret = self.desk.store.secret().await?;
                Ok(ReservationId::derive(
                    secret,
                    &self.tenant,
                    &request.idempotency_key,
                ))
            }
            Reserved::DryRun { .. } => panic!("a dry run"),
        }
    }

    /// Closes the tenant under one request.
    pub async fn close(&self) -> UpdatedTenant {
        self.close_as(&ask()).await
    }

    pub async fn close_as(&self, ask: &Ask) -> UpdatedTenant {
        let updated = self
            .desk
            .admin
            .update_tenant(&self.tenant, &closed(), &ask.request())
            .await;
        updated.expect("a closed tenant")
    }

    /// The flip alone, as of a process that dies right after it.
    pub async fn flip(&self) {
        let (store, audit) = (
            &self.desk.store,
            vec![("operation", "updateTenant".to_owned())],
        );
        let change = budget_authority::store::admin::Change {
            cause: "source service-admin\nactor admin\nrequest_id req_flip\ntrace_id 0af7651916cd43dd8448eb211c80319c",
            audit: &audit,
            payload_hash: "h",
            idempotency: None,
        };
        let close = budget_authority::store::admin::tenants::Close {
            correlation_id: &format!("tenant_close_cascade:{}:req_flip", self.name()),
            parent_correlation_id: None,
            request_part: std::time::Duration::ZERO,
        };
        let flipped = store
            .update_tenant(&self.tenant, &closed(), &close, &change)
            .await;
        assert!(flipped.expect("flipped").closing);
    }

    pub fn name(&self) -> &str {
        self.tenant.as_str()
    }

    pub fn keys(&self) -> &budget_authority::store::Keys {
        self.desk.store.keys()
    }

    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let reply = self.desk.store.query(words[1], &command).await;
        let reply = reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The ledger of TOKENS below the tenant.
    pub async fn ledger_at(
        &self,
        place: &str,
    ) -> budget_authority::domain::budget::ledger::BudgetLedger {
        let path = format!("tenant:{}{place}", self.name());
        let found = self
            .desk
            .admin
            .lookup_budget(&admin_key(), &scope(&path), Unit::Tokens)
            .await;
        found.expect("a ledger")
    }
}
