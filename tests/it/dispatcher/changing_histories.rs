//! Random histories of two tenants whose subscriptions are changed: selectors, scope, receiver, secret and policy; until one of the
//! tenants is closed. A model predicts the events that must and may arrive, how often, in which order, and with which secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use budget_authority::domain::webhook::sign;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};

use super::changing_model::{FUNDED, ModelEvent, ModelSubscription, UPDATED};
use super::noisy_tenants::quiet;
use crate::admin::webhooks::subscriptions::{HOOKS, made, patch};
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::runtime_calls::tokens;

const STEPS: usize = 100;

/// Subscriptions at once.
const HOOKED: usize = 5;

struct History {
    app: TestApp,
    random: StdRng,
    _dispatcher: RunningDispatcher,
    tenants: [String; 2],
    happened: Vec<ModelEvent>,
    hooks: Vec<ModelSubscription>,
    /// Events behind this one may be unseen by the fan-out.
    seen: usize,
}

impl History {
    async fn begin(seed: u64) -> Self {
        let app = here().await;
        let other = quiet(&app).await;
        Self {
            _dispatcher: RunningDispatcher::start(&app),
            tenants: ["umbra".to_owned(), other],
            app,
            random: StdRng::seed_from_u64(seed),
            happened: Vec::new(),
            hooks: Vec::new(),
            seen: 0,
        }
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// A receiver that fails some of the time.
    async fn receiver() -> Receiver {
        Receiver::start(Reply::Fitful {
            failing: 30,
            silent: 0,
        })
        .await
    }

    fn types(&mut self) -> BTreeSet<&'static str> {
        let both = [FUNDED, UPDATED];
        match self.pick(3) {
            2 => both.into(),
            one => [both[one]].into(),
        }
    }

    fn scope(&mut self) -> Option<String> {
        let scopes = [
            None,
            None,
            Some("tenant:umbra"),
            Some("tenant:*"),
            Some("tenant:umbra/*"),
        ];
        scopes[self.pick(5)].map(str::to_owned)
    }

    async fn create(&mut self) {
        if self.hooks.iter().filter(|hook| hook.is_active).count() >= HOOKED {
            return;
        }
        let owner = [None, Some(0), Some(1)][self.pick(3)];
        let (types, scope, receiver) = (self.types(), self.scope(), Self::receiver().await);
        let secret = format!("secret of sixteen {:x}", self.random.random::<u64>());
        let mut body = json!({"url": receiver.url("/in"), "event_types": types, "signing_secret": secret,
            "disable_after_failures": 10_000,
            "retry_policy": {"max_retries": 10, "initial_delay_ms": 100, "max_delay_ms": 1_000}});
        if let Some(scope) = &scope {
            body["scope_filter"] = json!(scope);
        }
        let path = match owner {
            Some(owner) => format!("{HOOKS}?tenant_id={}", self.tenants[owner]),
            None => HOOKS.to_owned(),
        };
        let made = self.app.post_as_admin(&path, body).await.expect(201);
        self.hooks.push(ModelSubscription {
            id: made.text("/subscription/subscription_id").to_owned(),
            owner,
            types,
            scope,
            receivers: vec![receiver],
            secrets: vec![secret],
            is_active: true,
            must: BTreeMap::new(),
            may: BTreeMap::new(),
        });
    }

    async fn happen(&mut self) {
        let (tenant, is_funded) = (self.pick(2), self.pick(2) == 0);
        let (tenant, event_type, response) = if is_funded {
            let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
            let body = json!({"operation": "CREDIT", "amount": tokens(1)});
            (0, FUNDED, self.app.post_as_admin(path, body).await)
        } else {
            let path = format!("/v1/admin/tenants/{}", self.tenants[tenant]);
            let body = json!({"name": format!("{:x}", self.random.random::<u64>())});
            (
                tenant,
                UPDATED,
                self.app.as_admin(Method::PATCH, &path, &body).await,
            )
        };
        let request = response
            .expect(200)
            .header("x-request-id")
            .expect("an id")
            .to_owned();
        let what = ModelEvent {
            request,
            tenant,
            event_type,
        };
        for hook in self.hooks.iter_mut().filter(|hook| hook.is_active) {
            if hook.selects(&what) {
                let from = hook.secrets.len() - 1;
                hook.must.insert(what.request.clone(), from);
            }
        }
        self.happened.push(what);
    }

    async fn change(&mut self) {
        let active: Vec<_> = (0..self.hooks.len())
            .filter(|at| self.hooks[*at].is_active)
            .collect();
        if active.is_empty() {
            return;
        }
        let at = active[self.pick(active.len())];
        let id = self.hooks[at].id.clone();
        let body = match self.pick(5) {
            0 => {
                let secret = format!("another secret {:x}", self.random.random::<u64>());
                self.hooks[at].secrets.push(secret.clone());
                json!({"signing_secret": secret})
            }
            1 => {
                let receiver = Self::receiver().await;
                let url = receiver.url("/in");
                self.hooks[at].receivers.push(receiver);
                json!({"url": url})
            }
            2 => {
                json!({"retry_policy": {"max_retries": 10, "initial_delay_ms": 100 + self.pick(200), "max_delay_ms": 1_000}})
            }
            3 => self.select(at, true),
            _ => self.select(at, false),
        };
        patch(&self.app, &id, body).await.expect(200);
    }

    /// Changes what a subscription selects. Events of a moment ago are matched by the old or the new selectors.
    fn select(&mut self, at: usize, by_type: bool) -> Value {
        let (types, scope) = (self.types(), self.scope());
        let recent = self.happened[self.seen..].to_vec();
        let hook = &mut self.hooks[at];
        let body = match by_type {
            true => json!({"event_types": types}),
            false => json!({"scope_filter": scope.as_deref().unwrap_or_default()}),
        };
        match by_type {
            true => hook.types = types,
            false => hook.scope = scope,
        }
        let from = hook.secrets.len() - 1;
        for what in recent {
            match (hook.must.get(&what.request).copied(), hook.selects(&what)) {
                (Some(from), false) => {
                    hook.must.remove(&what.request);
                    hook.may.insert(what.request, from);
                }
                (None, true) => {
                    hook.may.entry(what.request).or_insert(from);
                }
                _ => {}
            }
        }
        body
    }

    async fn leave(&mut self) {
        let active: Vec<_> = (0..self.hooks.len())
            .filter(|at| self.hooks[*at].is_active)
            .collect();
        if active.len() > 2 {
            let at = active[self.pick(active.len())];
            let body = json!({"status": "PAUSED"});
            patch(&self.app, &self.hooks[at].id, body).await.expect(200);
            self.hooks[at].leave();
            self.hooks[at].is_active = false;
        }
    }

    async fn drained(&mut self) {
        for hook in self.hooks.iter().filter(|hook| hook.is_active) {
            eventually(&format!("{} has all", hook.id), || async {
                let missing = hook.missing();
                missing.is_empty().then_some(()).ok_or(missing)
            })
            .await;
        }
    }

    /// Waits until no attempt is due any more.
    async fn ended(&self) {
        for hook in self.hooks.iter().filter(|hook| hook.is_active) {
            eventually(&format!("all of {} succeed", hook.id), || async {
                let open = hook.open();
                open.is_empty().then_some(()).ok_or(open)
            })
            .await;
        }
    }

    /// Lets the fan-out see all that happened.
    async fn seen_all(&mut self) {
        // It looks at all outboxes four times a second, unless the machine stalls.
        tokio::time::sleep(Duration::from_secs(4)).await;
        self.seen = self.happened.len();
    }

    /// The tenant is closed: its subscriptions get nothing more, and the operator's get the earlier events.
    async fn close(&mut self) {
        let path = format!("/v1/admin/tenants/{}", self.tenants[1]);
        let body = json!({"status": "CLOSED"});
        self.app
            .as_admin(Method::PATCH, &path, &body)
            .await
            .expect(200);
        for hook in self.hooks.iter_mut().filter(|hook| hook.owner == Some(1)) {
            hook.leave();
            hook.is_active = false;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w18_deliveries_match_a_model_while_webhooks_change_and_a_tenant_closes() {
    let seed = crate::harness::seed_of_history();
    let mut history = History::begin(seed).await;
    for _ in 0..3 {
        history.create().await;
    }
    for _ in 0..STEPS {
        match history.pick(12) {
            0..=5 => history.happen().await,
            6 => history.create().await,
            7..=9 => history.change().await,
            10 => history.leave().await,
            _ => {
                history.drained().await;
                history.seen_all().await;
            }
        }
    }
    history.close().await;
    history.drained().await;
    history.ended().await;
    for hook in &history.hooks {
        hook.check(&history.happened);
    }
}

#[tokio::test]
async fn w18_a_retry_after_a_change_of_the_secret_is_signed_with_the_new_one() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    let secrets = ["the first secret of all", "the second secret of all"];
    let body = json!({"url": receiver.url("/in"), "event_types": [FUNDED], "signing_secret": secrets[0],
        "retry_policy": {"initial_delay_ms": 2_000}});
    let id = made(&app, body).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    reached(&app, &id, "RETRYING", 1).await;
    patch(&app, &id, json!({"signing_secret": secrets[1]}))
        .await
        .expect(200);
    receiver.reply(Reply::Status(200, ""));
    reached(&app, &id, "SUCCESS", 1).await;
    let arrived = receiver.arrived();
    let signatures = arrived.iter().map(|one| one.header("x-service-signature"));
    let signatures: Vec<_> = signatures.collect();
    let signed = |secret: &str, at: usize| Some(sign(secret, &arrived[at].body));
    assert_eq!(signatures.len(), 2);
    assert_eq!(signatures[0].map(str::to_owned), signed(secrets[0], 0));
    assert_eq!(signatures[1].map(str::to_owned), signed(secrets[1], 1));
}
