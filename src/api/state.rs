//! What handlers act on.

use crate::access::Access;
use crate::admin::Admin;
use crate::admin::webhooks::{DeliveryWords, Webhooks};
use crate::config::ServeConfig;
use crate::egress::Egress;
use crate::ledger::Ledger;
use crate::store::Store;

/// Handles on the layers below. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    /// Who calls.
    pub access: Access,
    /// The admin plane's operations.
    pub admin: Admin,
    /// Webhook subscriptions.
    pub webhooks: Webhooks,
    /// The runtime plane's operations.
    pub ledger: Ledger,
    /// For what a handler must ask the store itself: the secret that seals cursors.
    pub store: Store,
    /// The largest request body, in bytes.
    pub body_limit_bytes: usize,
}

impl AppState {
    /// From the configuration, over a store.
    pub fn new(config: &ServeConfig, store: &Store, egress: Egress) -> Self {
        let http = &config.http;
        let words = config.store.dialect.words();
        let delivery = DeliveryWords {
            event_id_header: words.event_id_header.as_str(),
            event_type_header: words.event_type_header.as_str(),
            signature_header: words.signature_header.as_str(),
            trace_header: words.trace_header.as_str(),
            agent: words.delivery_agent,
        };
        let event_days = config.retention.events.as_secs().div_ceil(86_400);
        let days = config.retention.reservations.as_secs().div_ceil(86_400);
        Self {
            access: Access::new(
                store.clone(),
                config.store.dialect,
                http.admin_keys.clone(),
                http.trusted_proxies.clone(),
            ),
            admin: Admin::new(store.clone(), config.store.dialect.words().api_key_prefix),
            webhooks: Webhooks::new(
                store.clone(),
                config.secrets.clone(),
                egress,
                delivery,
                i64::try_from(event_days).unwrap_or(i64::MAX / 100_000_000),
            ),
            ledger: Ledger::new(
                store.clone(),
                http.denied_events_per_minute,
                i64::try_from(days).unwrap_or(i64::MAX / 100_000_000),
            ),
            store: store.clone(),
            body_limit_bytes: http.body_limit_bytes,
        }
    }
}
