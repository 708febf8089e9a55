//! Reserves at a pace, and looks for their envelopes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use url::Url;

use crate::api::operations::OperationId;
use crate::tools::bench::args::Operation;
use crate::tools::bench::connection::{Connection, Response, base_path};
use crate::tools::bench::error::BenchError;
use crate::tools::bench::ledger::Totals;
use crate::tools::bench::load::on_one_thread;
use crate::tools::bench::recorder::{histogram, record};
use crate::tools::bench::requests::Requests;
use crate::tools::bench::response;
use crate::tools::bench::service::{Service, Tenant};

/// The estimate of every reserve.
const ESTIMATE: i64 = 1_000;
/// The pause after a look at an envelope that is not there yet.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long an envelope may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A tenant of a service, and how its requests are made.
#[derive(Clone)]
pub(super) struct Target {
    requests: Arc<Requests>,
    /// Member of a response that has the reference.
    member: &'static str,
}

impl Target {
    pub fn new(service: &Service, tenant: &Tenant, scopes: u8) -> Result<Self, BenchError> {
        let (url, headers) = (service.runtime.clone(), service.headers(tenant)?);
        Ok(Self {
            requests: Arc::new(Requests::new(url.into(), headers, &tenant.id, scopes)),
            member: service.dialect.words().evidence_member,
        })
    }

    pub fn url(&self) -> Arc<Url> {
        Arc::clone(&self.requests.url)
    }
}

/// What the client of each tenant does.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Reserves.
    pub each: usize,
    /// From one to the next; without it each follows the response to the one before.
    pub every: Option<Duration>,
    /// Of how many one is watched until its envelope can be read.
    pub watched: Option<usize>,
}

/// What came of it.
pub(super) struct Reserved {
    /// By tenant.
    pub totals: Vec<Totals>,
    pub finished: u64,
    pub failed: u64,
    pub first_failure: Option<String>,
    pub per_second: f64,
    /// From the response to the readable envelope.
    pub delays: Histogram<u32>,
    /// The envelopes that were read.
    pub watched: Vec<String>,
    /// Envelopes that could not be read in time.
    pub missing: u64,
}

/// One client for each tenant, all at the same time.
pub(super) async fn reserve(targets: &[Target], plan: Plan) -> Result<Reserved, BenchError> {
    let targets = targets.to_vec();
    on_one_thread(async move || {
        let begun = Instant::now();
        let run = format!("{:08x}", rand::random::<u32>());
        let (found, mut looks) = unbounded_channel();
        let mut clients = JoinSet::new();
        for (number, target) in targets.iter().enumerate() {
            let lag = plan.every.unwrap_or_default() * number as u32 / targets.len() as u32;
            let client = Client {
                target: target.clone(),
                connection: Connection::new(target.url()),
                key: format!("{run}.{number}"),
                watcher: plan.watched.map(|_| watcher(target.clone(), found.clone())),
                done: Done::default(),
            };
            clients.spawn(async move {
                sleep(lag).await;
                (number, client.run(plan).await)
            });
        }
        drop(found);
        let mut reserved = Reserved {
            totals: vec![Totals::default(); targets.len()],
            finished: 0,
            failed: 0,
            first_failure: None,
            per_second: 0.0,
            delays: histogram(),
            watched: Vec::new(),
            missing: 0,
        };
        while let Some(ended) = clients.join_next().await {
            let (number, done) = ended.map_err(|panic| BenchError::Generator(panic.into()))?;
            reserved.totals[number] = done.totals;
            reserved.finished += done.finished;
            reserved.failed += done.failed;
            reserved.first_failure = reserved.first_failure.or(done.first_failure);
        }
        reserved.per_second = reserved.finished as f64 / begun.elapsed().as_secs_f64();
        while let Some((id, delay)) = looks.recv().await {
            match delay {
                Some(delay) => {
                    record(&mut reserved.delays, delay);
                    reserved.watched.push(id);
                }
                None => reserved.missing += 1,
            }
        }
        Ok(reserved)
    })
    .await
}

struct Client {
    target: Target,
    connection: Connection,
    /// The first part of its idempotency keys.
    key: String,
    watcher: Option<UnboundedSender<(String, Instant)>>,
    done: Done,
}

#[derive(Default)]
struct Done {
    totals: Totals,
    finished: u64,
    failed: u64,
    first_failure: Option<String>,
}

impl Client {
    async fn run(mut self, plan: Plan) -> Done {
        let mut pace = plan.every.map(interval);
        for number in 0..plan.each {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let is_watched = plan.watched.is_some_and(|watched| number % watched == 0);
            if let Err(failure) = self.reserve(number, is_watched).await {
                self.done.failed += 1;
                self.done.first_failure.get_or_insert(failure);
            }
        }
        self.done
    }

    async fn reserve(&mut self, number: usize, is_watched: bool) -> Result<(), String> {
        let (key, requests) = (format!("{}.{number}", self.key), &self.target.requests);
        let request = requests.build(Operation::Reserve, &key, ESTIMATE, "");
        let request = request.ok_or("no request")?;
        let response = self.connection.send(request).await;
        let (response, answered) = (response.map_err(|it| it.to_string())?, Instant::now());
        let effect = response::read(Operation::Reserve, ESTIMATE, &response);
        let effect = effect.map_err(|failure| failure.message)?;
        self.done.totals.count(&effect);
        self.done.finished += 1;
        if let Some(watcher) = self.watcher.as_ref().filter(|_| is_watched) {
            let id = evidence_id(&response, self.target.member);
            let id = id.ok_or("a response without a reference")?;
            // The watcher ends after its client.
            let _ = watcher.send((id, answered));
        }
        Ok(())
    }
}

fn evidence_id(response: &Response, member: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(&response.body).ok()?;
    body[member]["evidence_id"].as_str().map(str::to_owned)
}

/// The request for an envelope.
pub(super) fn envelope_request(target: &Target, id: &str) -> Request<Full<Bytes>> {
    let path = OperationId::GetEvidence.path();
    let path = path.replace("{evidence_id}", id);
    let mut request = Request::new(Full::default());
    let path = format!("{}{path}", base_path(&target.requests.url));
    *request.uri_mut() = path.parse().expect("digits fit into a path");
    request
}

type Found = (String, Option<Duration>);

/// Looks for one envelope after the other, and says how long after its response each could be read.
fn watcher(target: Target, found: UnboundedSender<Found>) -> UnboundedSender<(String, Instant)> {
    let (ids, mut inbox): (_, UnboundedReceiver<(String, Instant)>) = unbounded_channel();
    tokio::spawn(async move {
        let mut connection = Connection::new(target.url());
        while let Some((id, answered)) = inbox.recv().await {
            let mut delay = None;
            while delay.is_none() && answered.elapsed() < LIMIT {
                let response = connection.send(envelope_request(&target, &id)).await;
                match response.is_ok_and(|response| response.status.is_success()) {
                    true => delay = Some(answered.elapsed()),
                    false => sleep(LOOK_EVERY).await,
                }
            }
            let _ = found.send((id, delay));
        }
    });
    ids
}
