//! Posts to receivers: requests, connections that are kept, responses of every kind, addresses.

mod addresses;
mod connections;
mod memory;
mod requests;
mod responses;

use std::net::IpAddr;
use std::time::Duration;

use budget_authority::egress::{
    Egress, Limits, OutgoingRequest, PostError, ReceiverResponse, SecurityPolicy,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::harness::eventually;
use crate::harness::receiver::{Receiver, trusting_egress};

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(10),
    total: Duration::from_secs(20),
};

/// Egress that may reach this machine, which has all names.
fn here() -> Egress {
    trusting_egress(|_| vec![IpAddr::from([127, 0, 0, 1])])
}

fn outgoing(body: &str) -> OutgoingRequest {
    let mut headers = HeaderMap::new();
    let custom = HeaderValue::from_static("application/json");
    headers.insert(HeaderName::from_static("content-type"), custom);
    OutgoingRequest {
        headers,
        body: body.to_owned().into(),
    }
}

/// One delivery to the subscription `to`, checked again.
async fn deliver(egress: &Egress, to: &str, url: &str) -> Result<ReceiverResponse, PostError> {
    deliver_within(egress, to, url, LIMITS).await
}

async fn deliver_within(
    egress: &Egress,
    to: &str,
    url: &str,
    limits: Limits,
) -> Result<ReceiverResponse, PostError> {
    send(egress, to, url, outgoing("{\"a\":1}"), limits).await
}

async fn send(
    egress: &Egress,
    to: &str,
    url: &str,
    outgoing: OutgoingRequest,
    limits: Limits,
) -> Result<ReceiverResponse, PostError> {
    let policy = SecurityPolicy {
        blocked: Vec::new(),
        patterns: Vec::new(),
        allow_http: true,
    };
    let url = egress.admit(url, &policy, "acme").await.expect("admitted");
    egress.post(Some(to), &url, outgoing, limits).await
}

/// The status of one delivery to the subscription `one`.
async fn status(egress: &Egress, receiver: &Receiver) -> Result<u16, PostError> {
    let delivered = deliver(egress, "one", &receiver.url("/in")).await;
    delivered.map(|posted| posted.status)
}

async fn arrived(receiver: &Receiver, requests: usize) {
    let all = || async { receiver.arrived().len() == requests };
    eventually("the requests arrive", all).await;
}
