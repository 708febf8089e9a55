//! The HTTP operations on webhook subscriptions.

pub mod create;
pub mod delete;
pub mod deliveries;
pub mod get;
pub mod list;
pub mod list_own;
pub mod replay;
pub mod requests;
pub mod security;
pub mod test;
pub mod update;

use secrecy::{ExposeSecret, SecretString};

use crate::api::list::list_response;
use crate::domain::fields::object;
use crate::domain::webhook::{Delivery, Subscription};

object! {
    /// A new subscription. Only this response shows its signing secret.
    pub struct WebhookCreateResponse: Serialize + Open {
        /// The subscription.
        pub subscription: Subscription,
        /// Key of the signatures of its deliveries.
        signing_secret: String { required: false },
    }
}

impl WebhookCreateResponse {
    /// Reveals the secret.
    pub fn new(subscription: Subscription, secret: &SecretString) -> Self {
        Self {
            subscription,
            signing_secret: secret.expose_secret().to_owned(),
        }
    }
}

impl std::fmt::Debug for WebhookCreateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.subscription.subscription_id;
        write!(f, "WebhookCreateResponse({id}, redacted)")
    }
}

list_response! {
    /// A page of subscriptions.
    WebhookListResponse: Open {
        /// The subscriptions.
        subscriptions: Subscription,
        has_more {}
    }
}

list_response! {
    /// A page of deliveries.
    WebhookDeliveryListResponse: Open {
        /// The deliveries, newest first.
        deliveries: Delivery,
        has_more {}
    }
}

object! {
    /// A replay that was queued.
    #[derive(Debug)]
    pub struct ReplayResponse: Serialize + Open {
        /// Id of the replay.
        pub replay_id: String { required: false },
        /// How many events will be delivered again.
        pub events_queued: i64 { required: false },
        /// How long that may take, in seconds.
        pub estimated_completion_seconds: i64 { required: false },
    }
}
