//! A customer that does at random what customers do, and remembers all that it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::books::Books;
use super::client::{Answer, Client};
use super::eventually;
use super::world::World;

/// See the module documentation.
pub struct Customer {
    client: Client,
    tenant: String,
    workspace: String,
    name: String,
    keys: u64,
    told: Vec<Told>,
    /// Whether the store may forget what it has just acknowledged.
    lossy: bool,
}

/// A request that was granted.
#[derive(Clone)]
struct Told {
    path: String,
    body: Value,
    answer: Answer,
}

/// What the answers to some customers come to.
#[derive(Default)]
pub struct Sums {
    pub reservations: BTreeSet<String>,
    pub posts: BTreeSet<String>,
    /// By scope.
    pub charged: BTreeMap<String, i64>,
    pub committed: usize,
    pub released: usize,
    pub overages: usize,
}

/// Customers at work.
pub struct Crowd {
    closing: Arc<AtomicBool>,
    customers: JoinSet<Customer>,
}

impl Crowd {
    /// `count` customers of a tenant, spread over the workspaces `w0` to `w2`, until [`Crowd::close`].
    pub fn open(client: &Client, tenant: &str, count: usize) -> Self {
        Self::start(client, tenant, count, false)
    }

    /// The same on a store that may forget what it has just acknowledged.
    pub fn open_on_lossy_store(client: &Client, tenant: &str, count: usize) -> Self {
        Self::start(client, tenant, count, true)
    }

    fn start(client: &Client, tenant: &str, count: usize, lossy: bool) -> Self {
        let closing = Arc::new(AtomicBool::new(false));
        let mut customers = JoinSet::new();
        for n in 0..count {
            let closing = Arc::clone(&closing);
            let mut customer = Customer {
                client: client.clone(),
                tenant: tenant.to_owned(),
                workspace: format!("w{}", n % 3),
                name: format!("c{n}"),
                keys: 0,
                told: Vec::new(),
                lossy,
            };
            customers.spawn(async move {
                while !closing.load(Ordering::Relaxed) {
                    customer.act().await;
                }
                customer
            });
        }
        Self { closing, customers }
    }

    /// Waits until each customer has finished what it is doing.
    pub async fn close(self) -> Vec<Customer> {
        self.closing.store(true, Ordering::Relaxed);
        self.customers.join_all().await
    }
}

/// The ledgers that a crowd needs: of the tenant and of its three workspaces.
pub async fn seed_ledgers(world: &World, tenant: usize, allocated: i64) {
    let name = world.callers[tenant].tenant.as_str();
    let workspaces = (0..3).map(|n| format!("tenant:{name}/workspace:w{n}"));
    for scope in workspaces.chain([format!("tenant:{name}")]) {
        let start = super::world::Start {
            scope,
            unit: budget_authority::domain::amount::Unit::Tokens,
            allocated,
            limit: 0,
        };
        world.seed(tenant, &start).await;
    }
}

impl Customer {
    async fn act(&mut self) {
        let amount = rand::random_range(1..=40);
        match rand::random_range(0..20) {
            0..4 => drop(self.post_event(amount, None).await),
            4..7 => self.replay_one().await,
            7..9 => drop(self.reserve(amount, 1_000).await),
            9 => self.commit_late(amount).await,
            _ => self.reserve_and_finish(amount).await,
        }
    }

    async fn reserve_and_finish(&mut self, amount: i64) {
        let Some(id) = self.reserve(amount, 3_600_000).await else {
            return;
        };
        match rand::random_range(0..6) {
            0 => {
                let body = json!({"idempotency_key": self.key()});
                self.send(format!("/v1/reservations/{id}/release"), body)
                    .await;
            }
            1 => {
                let body = json!({"idempotency_key": self.key(), "extend_by_ms": 5_000});
                self.send(format!("/v1/reservations/{id}/extend"), body)
                    .await;
                self.commit(&id, amount).await;
            }
            2 => drop(self.commit(&id, amount + rand::random_range(1..=20)).await),
            _ => drop(self.commit(&id, rand::random_range(0..=amount)).await),
        }
    }

    /// Comes about when the reservation expires; what no longer can be committed is reported with the same key.
    async fn commit_late(&mut self, amount: i64) {
        let Some(id) = self.reserve(amount, 1_000).await else {
            return;
        };
        tokio::time::sleep(Duration::from_millis(rand::random_range(900..1_150))).await;
        let key = self.key();
        let answer = self.commit_as(&key, &id, amount).await;
        if answer.status == 410 {
            self.post_event(amount, Some(key)).await;
        }
    }

    async fn reserve(&mut self, amount: i64, ttl_ms: i64) -> Option<String> {
        let body = json!({
            "idempotency_key": self.key(), "subject": self.subject(), "action": action(), "estimate": tokens(amount),
            "ttl_ms": ttl_ms, "grace_period_ms": 0,
        });
        let answer = self.send("/v1/reservations".to_owned(), body).await;
        (answer.status == 200).then(|| answer.text("reservation_id").to_owned())
    }

    async fn commit(&mut self, id: &str, actual: i64) -> Answer {
        let key = self.key();
        self.commit_as(&key, id, actual).await
    }

    async fn commit_as(&mut self, key: &str, id: &str, actual: i64) -> Answer {
        let body = json!({"idempotency_key": key, "actual": tokens(actual)});
        self.send(format!("/v1/reservations/{id}/commit"), body)
            .await
    }

    async fn post_event(&mut self, actual: i64, key: Option<String>) -> Answer {
        let key = key.unwrap_or_else(|| self.key());
        let body = json!({
            "idempotency_key": key, "subject": self.subject(), "action": action(), "actual": tokens(actual),
        });
        self.send("/v1/events".to_owned(), body).await
    }

    async fn send(&mut self, path: String, body: Value) -> Answer {
        let answer = self.client.post(&path, &body).await;
        match answer.status {
            200 | 201 => {
                let answer = answer.clone();
                self.told.push(Told { path, body, answer });
            }
            404 => assert!(self.lossy, "{path}: {answer:?}"),
            409 => assert_eq!(
                answer.text("error"),
                "BUDGET_EXCEEDED",
                "{path}: {answer:?}"
            ),
            status => assert_eq!(status, 410, "{path} {body}: {answer:?}"),
        }
        answer
    }

    async fn replay_one(&self) {
        if !self.told.is_empty() && !self.lossy {
            let told = &self.told[rand::random_range(0..self.told.len())];
            told.replay(&self.client).await;
        }
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.name, self.keys)
    }

    fn subject(&self) -> Value {
        json!({"tenant": self.tenant, "workspace": self.workspace})
    }

    fn add_to(&self, sums: &mut Sums) {
        let mut estimates = BTreeMap::new();
        for Told { path, body, answer } in &self.told {
            let operation = path.rsplit('/').next().expect("a path");
            let id = path.split('/').nth(3).unwrap_or_default();
            let charged = match operation {
                "reservations" => {
                    let id = answer.text("reservation_id").to_owned();
                    estimates.insert(id.clone(), answer.amount("reserved").expect("an amount"));
                    assert!(sums.reservations.insert(id), "one key, one reservation");
                    continue;
                }
                "release" => {
                    sums.released += 1;
                    assert_eq!(answer.amount("released"), Some(estimates[id]));
                    continue;
                }
                "commit" => {
                    sums.committed += 1;
                    let charged = answer.amount("charged").expect("an amount");
                    sums.overages += usize::from(charged > estimates[id]);
                    charged
                }
                "events" => {
                    let id = answer.text("event_id").to_owned();
                    assert!(sums.posts.insert(id), "one key, one event");
                    let actual = body["actual"]["amount"].as_i64();
                    answer.amount("charged").or(actual).expect("an amount")
                }
                _ => continue,
            };
            let root = format!("tenant:{}", self.tenant);
            let leaf = format!("{root}/workspace:{}", self.workspace);
            for scope in [root, leaf] {
                *sums.charged.entry(scope).or_default() += charged;
            }
        }
    }
}

impl Told {
    async fn replay(&self, client: &Client) {
        let again = client.post(&self.path, &self.body).await;
        assert_eq!(
            again.status, self.answer.status,
            "{} {}: {again:?}",
            self.path, self.body
        );
        assert_eq!(
            again.lasting(),
            self.answer.lasting(),
            "{} {}",
            self.path,
            self.body
        );
    }
}

/// Checks that the ledgers are exactly what the customers were told, once the last hold has expired: every key has the
/// outcome it had, no record is unknown to them, and each cause has its event.
pub async fn settle(world: &World, tenant: usize, customers: &[Customer]) -> Sums {
    let mut sums = Sums::default();
    for customer in customers {
        customer.add_to(&mut sums);
    }
    let all: Vec<_> = customers
        .iter()
        .flat_map(|customer| &customer.told)
        .cloned()
        .collect();
    let mut replaying = JoinSet::new();
    for part in all.chunks(all.len().div_ceil(8).max(1)) {
        let (client, part) = (customers[0].client.clone(), part.to_vec());
        replaying.spawn(async move {
            for told in part {
                told.replay(&client).await;
            }
        });
    }
    replaying.join_all().await;
    eventually("all abandoned holds have expired", || async {
        let books = Books::of(world, tenant).await;
        (books.reservations_in("ACTIVE") == 0).then_some(())
    })
    .await;
    let books = Books::audited(world, tenant).await;
    assert!(
        books.reservations.keys().eq(&sums.reservations),
        "the reservations that were told"
    );
    assert!(
        books.posts.keys().eq(&sums.posts),
        "the events that were told"
    );
    assert_eq!(books.reservations_in("COMMITTED"), sums.committed);
    assert_eq!(books.reservations_in("RELEASED"), sums.released);
    for (scope, charged) in &sums.charged {
        assert_eq!(books.figure(scope, "spent"), *charged, "spent of {scope}");
        assert_eq!(books.figure(scope, "reserved"), 0, "reserved of {scope}");
    }
    let expired = books.reservations_in("EXPIRED");
    assert_eq!(books.events_of("reservation.expired"), expired);
    assert_eq!(books.events_of("reservation.commit_overage"), sums.overages);
    sums
}

/// Compares what is in the books with what the customers were told, where a failover may have lost the latest of it.
/// Answers how many outcomes are lost; those that are there must be as they were told.
pub fn lost(books: &Books, customers: &[Customer]) -> usize {
    let mut lost = 0;
    for Told { path, body, answer } in customers.iter().flat_map(|customer| &customer.told) {
        let operation = path.rsplit('/').next().expect("a path");
        let id = match operation {
            "reservations" => answer.text("reservation_id"),
            "events" => answer.text("event_id"),
            _ => path.split('/').nth(3).expect("an id"),
        };
        let mut records = books
            .reservations
            .get(id)
            .into_iter()
            .chain(books.posts.get(id));
        let Some(record) = records.next() else {
            lost += 1;
            continue;
        };
        let charged = answer
            .amount("charged")
            .or(body["actual"]["amount"].as_i64());
        let expected = match operation {
            "commit" => ("COMMITTED", charged),
            "events" => ("APPLIED", charged),
            "release" => ("RELEASED", None),
            _ => continue,
        };
        let recorded = record
            .get("charged")
            .and_then(|charged| charged.parse().ok());
        if record["status"] == "ACTIVE" || record["status"] == "EXPIRED" {
            lost += 1;
        } else {
            assert_eq!((record["status"].as_str(), recorded), expected, "{path}");
        }
    }
    lost
}

/// An amount in the unit of the tests.
pub fn tokens(amount: i64) -> Value {
    json!({"unit": "TOKENS", "amount": amount})
}

/// What the tests' reservations are for.
pub fn action() -> Value {
    json!({"kind": "llm.completion", "name": "openai:gpt-4o-mini"})
}
