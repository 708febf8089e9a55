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

use crate::api::list::list_response;
use crate::domain::webhook::{Delivery, Subscription};

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
