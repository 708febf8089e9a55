//! What handlers act on.

use super::auth_failures::AuthFailures;
use crate::access::Access;
use crate::admin::Admin;
use crate::config::ServeConfig;
use crate::ledger::Ledger;
use crate::store::Store;

/// Handles on the layers below. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    /// Who calls.
    pub access: Access,
    /// Keys that were refused.
    pub auth_failures: AuthFailures,
    /// The admin plane's operations.
    pub admin: Admin,
    /// The runtime plane's operations.
    pub ledger: Ledger,
    /// For what a handler must ask the store itself: the secret that seals cursors.
    pub store: Store,
    /// The largest request body, in bytes.
    pub body_limit_bytes: usize,
}

impl AppState {
    /// From the configuration, over a store.
    pub fn new(config: &ServeConfig, store: &Store) -> Self {
        let http = &config.http;
        let days = config.retention.reservations.as_secs().div_ceil(86_400);
        Self {
            access: Access::new(
                store.clone(),
                config.store.dialect,
                http.admin_keys.clone(),
                http.trusted_proxies.clone(),
            ),
            auth_failures: AuthFailures::new(store.clone()),
            admin: Admin::new(store.clone(), config.store.dialect.words().api_key_prefix),
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
