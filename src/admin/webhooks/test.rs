//! Tests a subscription: sends one signed request to its receiver at once.

use std::fmt;
use std::time::Duration;

use hyper::body::Bytes;
use tracing::info;

use super::sending::EventHeaders;
use super::{LoadedSubscription, Webhooks};
use crate::admin::refuse;
use crate::domain::audit::entry::{add, entry};
use crate::domain::caller::Caller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::event::types::EventType;
use crate::domain::event::{Event, EventActor};
use crate::domain::fields::object;
use crate::domain::ids::{RequestId, hex};
use crate::domain::json::Json;
use crate::domain::moment::Moment;
use crate::domain::refusal::WebhookRefusal;
use crate::domain::tenant::SYSTEM;
use crate::egress::{AdmissionError, Limits, OutgoingRequest, PostError, ReceiverResponse};
use crate::store::StoreError;
use crate::store::admin::webhooks::WebhookTest;
use crate::store::target::Target as _;

/// Tests of one subscription in a minute, and replays by its tenant.
const TESTS_PER_MINUTE: u32 = 10;
/// Tests of all subscriptions of an owner in a minute. Enough for a person; a test holds a request for up to ten seconds.
const OWNER_TESTS_PER_MINUTE: u32 = 30;

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    total: Duration::from_secs(10),
};

const EVENT_TYPE: EventType = EventType::SystemWebhookTest;

object! {
    /// Result of a test.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WebhookTestResponse: Serialize + Open {
        /// Whether the receiver accepted the event.
        pub success: bool,
        /// Status of its response.
        pub response_status: Option<i64>,
        /// How long it took, in milliseconds.
        pub response_time_ms: Option<i64>,
        /// Error.
        pub error_message: Option<String>,
        /// Event that was sent.
        pub event_id: String { required: false },
    }
}

impl Webhooks {
    /// Sends a test event to a subscription's receiver, whatever its status, and returns the result. Changes nothing but
    /// the audit log.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended; tested too often.
    pub async fn test(
        &self,
        caller: &Caller,
        id: &str,
        operation: &'static str,
        cause: &Cause,
    ) -> Result<WebhookTestResponse, StoreError> {
        let loaded = self.open(caller, id, "webhooks:write").await?;
        let tested = async {
            loaded.check_owner()?;
            let subscription = &loaded.subscription;
            let (id, owner) = (&subscription.subscription_id, &subscription.owner);
            self.count_test(&loaded).await?;
            let event_id = format!("evt_test_{}", hex(&rand::random::<[u8; 12]>()));
            let (response, error_message) = match self.try_out(&loaded, &event_id, cause).await? {
                Ok(response) if response.is_success() => (Some(response), None),
                Ok(response) => (Some(response), Some(format!("HTTP {}", response.status))),
                Err(message) => (None, Some(message)),
            };
            let outcome = WebhookTestResponse {
                success: error_message.is_none(),
                response_status: response.map(|response| response.status.into()),
                response_time_ms: response.and_then(|r| i64::try_from(r.took.as_millis()).ok()),
                error_message,
                event_id,
            };
            let mut audit = entry(cause, operation, ("webhook", id.as_str()), Some(200));
            let (status, error) = (outcome.response_status, outcome.error_message.as_deref());
            add(&mut audit, "metadata.success", Some(outcome.success));
            add(&mut audit, "metadata.response_status", status);
            add(&mut audit, "metadata.error_message", error);
            let response_time_ms = outcome.response_time_ms;
            add(&mut audit, "metadata.response_time_ms", response_time_ms);
            let (store, partition, tenant) = (&self.store, owner.partition(), owner.tenant());
            let recorded = store.audit_failure(partition, tenant, SYSTEM, None, &audit);
            recorded.await?;
            Ok::<_, StoreError>(outcome)
        };
        loaded.target().about(tested.await)
    }

    /// Counts a test of a subscription, or a replay by its tenant.
    ///
    /// # Errors
    /// Refusals: tested or replayed too often.
    pub(super) async fn count_test(&self, loaded: &LoadedSubscription) -> Result<(), StoreError> {
        let call = WebhookTest {
            subscription_id: &loaded.subscription.subscription_id,
            owner: &loaded.subscription.owner,
            most: TESTS_PER_MINUTE,
            owner_most: OWNER_TESTS_PER_MINUTE,
        };
        loaded.target().run(&self.store, &call).await.map(drop)
    }

    /// Sends the event. Returns the response, or what the tenant learns of why there is none.
    async fn try_out(
        &self,
        loaded: &LoadedSubscription,
        event_id: &str,
        cause: &Cause,
    ) -> Result<Result<ReceiverResponse, String>, StoreError> {
        let subscription = &loaded.subscription;
        let secrets = self.open_secrets(subscription.subscription_id.as_str(), &loaded.record)?;
        let (owner, policy) = (subscription.owner.as_str(), self.policy().await?);
        let url = match self.egress.admit(&subscription.url, &policy, owner).await {
            Ok(url) => url,
            Err(AdmissionError::Violation(_)) => {
                let message = "Webhook URL rejected by current security policy";
                return Ok(Err(message.to_owned()));
            }
            Err(AdmissionError::Busy) => return refuse(WebhookRefusal::LookUpsBusy),
            Err(why @ (AdmissionError::BlockedHost | AdmissionError::Unresolvable)) => {
                log_failure(loaded, &why);
                return Ok(Err(PostError::Unreachable.to_string()));
            }
        };
        let body = body(loaded, event_id, cause);
        let facts = EventHeaders {
            event_id,
            event_type: EVENT_TYPE.as_str(),
            request_id: cause.request_id.as_ref().map(RequestId::as_str),
            trace_id: cause.trace_id.as_str(),
            trace_flags: cause.trace_flags.as_deref(),
            span_id: None,
        };
        let headers = self.headers(&secrets, &facts, &body);
        let outgoing = OutgoingRequest { headers, body };
        let posted = self.egress.post(None, &url, outgoing, LIMITS).await;
        Ok(posted.map_err(|error| {
            log_failure(loaded, &error);
            error.to_string()
        }))
    }
}

/// The operator learns the cause, which the response keeps from the tenant.
fn log_failure(loaded: &LoadedSubscription, cause: &dyn fmt::Debug) {
    let id = loaded.subscription.subscription_id.as_str();
    info!(
        webhook.id = id,
        cause = ?cause,
        "the test of webhook `{id}` reached no receiver: {cause:?}"
    );
}

fn body(loaded: &LoadedSubscription, event_id: &str, cause: &Cause) -> Bytes {
    let subscription = &loaded.subscription;
    let text = |name: &'static str, text: &str| (name, text.into());
    let event = Event {
        event_id: event_id.to_owned(),
        event_type: EVENT_TYPE,
        category: EVENT_TYPE.category(),
        timestamp: Moment::from_ms(loaded.now_ms).expect("a time of the store's clock"),
        tenant_id: subscription.owner.to_string(),
        source: cause.source.to_owned(),
        scope: None,
        actor: EventActor {
            kind: cause.actor.kind(),
            key_id: match &cause.actor {
                Actor::ApiKey(key_id) => Some(key_id.to_string()),
                _ => None,
            },
            source_ip: cause.source_ip.as_ref().map(ToString::to_string),
        },
        data: Json::from_iter([
            text("subscription_id", subscription.subscription_id.as_str()),
            ("test", Json::Bool(true)),
            text("component", "webhooks"),
            text("message", "A test of this subscription, sent on request"),
            text("severity", "info"),
        ]),
        correlation_id: None,
        request_id: cause.request_id.as_ref().map(ToString::to_string),
        trace_id: cause.trace_id.to_string(),
        metadata: None,
    };
    serde_json::to_vec(&event).expect("texts serialize").into()
}
