//! A deployment with dispatchers as separate processes, so that they can be killed; and the invariants at
//! the end, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::domain::ids::Partition;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::process::Process;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::tokens;
use crate::harness::within;

/// How long all may take to arrive: the claims of a dead dispatcher are taken over after some 12 s, those that nobody knows
/// of end after 35 s, and one may follow the other on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

const FUND: &str = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";

/// A subscription to the credits of `umbra`.
pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) partition: Partition,
    pub(crate) receiver: Receiver,
}

/// A service, its subscriptions, and its dispatchers.
pub(crate) struct Deployment {
    pub(crate) app: TestApp,
    url: String,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) dispatchers: Mutex<Vec<Process>>,
}

impl Hook {
    async fn make(app: &TestApp, is_own: bool, reply: Reply, settings: &Value) -> Self {
        let receiver = Receiver::start(reply).await;
        let mut body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        for (name, value) in settings.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let (path, partition) = match is_own {
            true => (format!("{HOOKS}?tenant_id=umbra"), umbra()),
            false => (HOOKS.to_owned(), Partition::FIRST),
        };
        let made = app.post_as_admin(&path, body).await.expect(201);
        Self {
            id: made.text("/subscription/subscription_id").to_owned(),
            partition,
            receiver,
        }
    }

    /// The allocations behind the events that arrived, as they did; of each the first arrival.
    pub(crate) fn figures(&self) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        let arrived = self.receiver.arrived();
        let figure = |body: &[u8]| {
            let event: Value = serde_json::from_slice(body).expect("JSON");
            event["data"]["new_state"]["allocated"].as_u64()
        };
        let figures = arrived.iter().map(|one| figure(&one.body));
        let figures = figures.map(|figure| figure.expect("a figure"));
        figures.filter(|figure| seen.insert(*figure)).collect()
    }

    /// The ids of the events that arrived, as they did.
    pub(crate) fn arrived(&self) -> Vec<String> {
        let arrived = self.receiver.arrived();
        let id = |name: Option<&str>| name.expect("an id").to_owned();
        let ids = arrived
            .iter()
            .map(|one| id(one.header("x-service-event-id")));
        ids.collect()
    }
}

impl Deployment {
    /// Two subscriptions of `umbra`, one of the operator, and this many dispatchers.
    pub(crate) async fn start(url: &str, dispatchers: usize) -> Self {
        // An attempt takes long enough to be killed in.
        let reply = Reply::After(Duration::from_millis(10));
        let hook = |is_own| (is_own, reply.clone(), json!({}));
        let hooks = [true, true, false].map(hook);
        Self::with(url, dispatchers, hooks.to_vec()).await
    }

    /// The same with these subscriptions: whether each is of `umbra`, what its receiver answers, and its settings.
    pub(crate) async fn with(
        url: &str,
        dispatchers: usize,
        settings: Vec<(bool, Reply, Value)>,
    ) -> Self {
        let app = umbra_on(TestApp::spawn_on(url, LONG_REDIS_TIMEOUT).await).await;
        open(&app).await;
        let mut hooks = Vec::new();
        for (is_own, reply, more) in settings {
            hooks.push(Hook::make(&app, is_own, reply, &more).await);
        }
        let this = Self {
            app,
            url: url.to_owned(),
            hooks,
            dispatchers: Mutex::default(),
        };
        for _ in 0..dispatchers {
            this.start_dispatcher();
        }
        this
    }

    /// Starts one more dispatcher.
    pub(crate) fn start_dispatcher(&self) {
        // A busy machine shall not look like an outage, which costs attempts.
        let patient = vec![("BUDGET_REDIS_TIMEOUT_MS", "20000".to_owned())];
        let prefix = self.app.store.keys().prefix();
        let process = Process::delivering_dispatcher_in(patient, &self.url, prefix);
        self.dispatchers.lock().expect("no panic").push(process);
    }

    /// Credits `umbra` this many times.
    pub(crate) async fn fund(&self, times: usize) {
        for _ in 0..times {
            let body = json!({"operation": "CREDIT", "amount": tokens(1)});
            self.app.post_as_admin(FUND, body).await.expect(200);
        }
    }

    /// Credits `umbra` until it is stopped; failures are ignored.
    pub(crate) async fn fund_until(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let body = json!({"operation": "CREDIT", "amount": tokens(1)});
            self.app.post_as_admin(FUND, body).await;
            // Events continue, but leave time for their deliveries.
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// Waits until this many more requests have arrived at a receiver.
    pub(crate) async fn progress(&self, hook: usize, more: usize) {
        let receiver = &self.hooks[hook].receiver;
        let before = receiver.arrived().len();
        within(LIMIT, "deliveries continue", || async {
            receiver.arrived().len() >= before + more
        })
        .await;
    }

    /// How many credits the ledger shows: an event each.
    pub(crate) async fn credits(&self) -> usize {
        let path = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS";
        let ledger = self.app.get_as_admin(path).await.expect(200);
        let allocated = ledger.at("/allocated/amount").as_u64().expect("a figure");
        usize::try_from(allocated).expect("few") - 100
    }

    /// The deliveries to a subscription, oldest first. `more`: parameters, with `&` behind each.
    pub(crate) async fn rows(&self, hook: &Hook, more: &str) -> Vec<Value> {
        let path = format!("{HOOKS}/{}/deliveries?{more}", hook.id);
        self.app.all_as_admin(&path, "/deliveries").await
    }

    /// The events that Redis knows of, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let count = self.credits().await;
        let path = "/v1/admin/events?event_type=budget.funded&tenant_id=umbra&";
        within(LIMIT, "the events are listed", || async {
            let rows = self.app.all_as_admin(path, "/events").await;
            let ids = rows.iter().map(|row| text(row, "event_id")).collect();
            if rows.len() == count {
                Ok(ids)
            } else {
                Err(format!("{} of {count}", rows.len()))
            }
        })
        .await
    }

    /// Waits until every event has arrived at every subscription and is listed once as a success, and nothing is left.
    pub(crate) async fn settled(&self) -> Vec<String> {
        let events = self.events().await;
        for hook in &self.hooks {
            let path = format!("{HOOKS}/{}/deliveries?", hook.id);
            within(LIMIT, "all deliveries succeed", || async {
                let ended = format!("{path}status=SUCCESS&");
                let count = self.app.all_as_admin(&ended, "/deliveries").await.len();
                (count == events.len()).then_some(()).ok_or(count)
            })
            .await;
            let rows = self.app.all_as_admin(&path, "/deliveries").await;
            let listed: Vec<_> = rows.iter().map(|row| text(row, "event_id")).collect();
            assert_eq!(listed, events, "each is listed once, in order");
            let ids: BTreeSet<_> = rows.iter().map(|row| text(row, "delivery_id")).collect();
            assert_eq!(ids.len(), events.len());
            let arrived: BTreeSet<_> = hook.arrived().into_iter().collect();
            for event in &events {
                assert!(arrived.contains(event), "{event} is missing at {}", hook.id);
            }
        }
        self.nothing_is_left().await;
        events
    }

    /// No counter of what is open or in flight is left over, and nothing waits.
    pub(crate) async fn nothing_is_left(&self) {
        let keys = self.app.store.keys();
        within(LIMIT, "nothing is left", || async {
            let mut left = Vec::new();
            for hook in &self.hooks {
                let window = keys.window(hook.partition, &hook.id);
                let fields = ["open", "flying", "retrying", "replaying"];
                let words = [&["HMGET", &window], &fields[..]].concat();
                let counts: Vec<Option<i64>> = self.app.run(&words).await;
                if counts.iter().flatten().any(|count| *count != 0) {
                    left.push(format!("{window} {counts:?}"));
                }
            }
            for pattern in ["claims", "open", "lanes", "lane:*"] {
                left.extend(self.app.keys_like(&format!("{{???}}:{pattern}")).await);
            }
            left.is_empty().then_some(()).ok_or(left)
        })
        .await;
    }

    /// First arrivals of these events were in order.
    pub(crate) fn check_order(&self, events: &[String]) {
        for hook in &self.hooks {
            let mut seen = BTreeSet::new();
            let mut first = hook.arrived();
            first.retain(|event| events.contains(event) && seen.insert(event.clone()));
            assert_eq!(first, events, "in order at {}", hook.id);
        }
    }

    /// No event was sent more often than `attempts` says, and no more attempts of a lane were lost than `lost`.
    pub(crate) async fn check_attempts(&self, lost: i64) {
        for hook in &self.hooks {
            let mut times = BTreeMap::<_, i64>::new();
            for event in hook.arrived() {
                *times.entry(event).or_default() += 1;
            }
            let path = format!("{HOOKS}/{}/deliveries?", hook.id);
            let mut more = 0;
            for row in self.app.all_as_admin(&path, "/deliveries").await {
                let attempts = row["attempts"].as_i64().expect("a number");
                let came = times[&text(&row, "event_id")];
                assert!(attempts >= came, "it came {came} times: {row}");
                more += attempts - 1;
            }
            assert!(more <= lost, "{more} attempts were lost at {}", hook.id);
        }
    }
}

pub(crate) fn text(row: &Value, name: &str) -> String {
    row[name].as_str().expect("a text").to_owned()
}
