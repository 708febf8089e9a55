//! State of the handlers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;

use crate::admin::Admin;
use crate::admin::audit::logs::AuditLogs;
use crate::admin::events::Events;
use crate::admin::webhooks::Webhooks;
use crate::api::auth::access::Access;
use crate::api::auth::failures::AuthFailures;
use crate::api::auth::request_rates::RequestRates;
use crate::api::body::BodyLimits;
use crate::api::body_memory::BodyMemory;
use crate::api::evidence::limiter::PublicLimiter;
use crate::config::{EvidenceConfig, ServeConfig};
use crate::domain::cidr::Cidr;
use crate::domain::dialect::Dialect;
use crate::egress::Egress;
use crate::evidence::Issuing;
use crate::ledger::Ledger;
use crate::listing::ListLimits;
use crate::store::Store;

/// What handlers act on. Every request takes several, so a clone costs one count.
pub type AppState = Arc<Handles>;

/// Handles on the layers below.
pub struct Handles {
    /// The caller.
    pub access: Access,
    /// How many requests tenants make.
    pub request_rates: RequestRates,
    /// Keys that were refused.
    pub auth_failures: AuthFailures,
    /// The admin plane's operations.
    pub admin: Admin,
    /// Webhook subscriptions.
    pub webhooks: Webhooks,
    /// Events.
    pub events: Events,
    /// The audit log.
    pub audit_logs: AuditLogs,
    /// The runtime plane's operations.
    pub ledger: Ledger,
    /// The issuers of evidence; `None` while it is off.
    pub issuing: Option<Issuing>,
    /// The keys of evidence as they are published, in JSON; `None` while it is off.
    pub key_set: Option<Bytes>,
    /// How long envelopes are kept; `None` for ever.
    pub evidence_retention: Option<Duration>,
    /// How often strangers read.
    pub public_limiter: PublicLimiter,
    /// What limits the lists of each tenant.
    pub list_limits: ListLimits,
    /// The protocol that the service speaks.
    pub dialect: Dialect,
    /// For what a handler must ask the store itself: the secret that seals cursors.
    pub store: Store,
    /// Networks of proxies whose word on a client's address is taken.
    pub trusted_proxies: Arc<[Cidr]>,
    /// How large a request body may be, and how long it may take.
    pub body_limits: BodyLimits,
    /// Memory for the bodies that are being read.
    pub body_memory: BodyMemory,
}

impl Handles {
    /// From the configuration, over a store.
    pub fn shared(config: &ServeConfig, store: &Store, egress: Egress) -> AppState {
        let (http, fixed) = (&config.http, &config.fixed_limits);
        let retention = &config.retention;
        let [event_days, audit_days, reservation_days] =
            [retention.events, retention.audit, retention.reservations].map(days);
        let evidence = config.evidence.as_ref();
        let issuing = evidence.map(|evidence| Issuing::new(evidence.issuers.clone()));
        let evidence_retention = evidence.and_then(|evidence| evidence.retention);
        let admin = Admin::new(store.clone(), config.store.dialect)
            .sealing(config.secrets.clone())
            .limits(config.limits.counts(fixed))
            .cross_tenant_list(http.allow_cross_tenant_list);
        Arc::new(Self {
            access: Access::new(
                admin.clone(),
                config.store.dialect,
                config.admin_keys.clone(),
                fixed.key_failures,
            ),
            request_rates: RequestRates::new(
                config.limits.requests_per_second,
                config.limits.runtime_requests_per_second,
                fixed.request_burst,
            ),
            auth_failures: AuthFailures::new(store.clone()),
            admin,
            webhooks: Webhooks::new(
                store.clone(),
                config.secrets.clone(),
                egress,
                config.store.dialect.words(),
                event_days,
            )
            .limits(config.limits.counts(fixed)),
            events: Events::new(store.clone(), event_days),
            audit_logs: AuditLogs::new(store.clone(), audit_days),
            ledger: Ledger::new(store.clone(), reservation_days)
                .usage_months(config.retention.usage_months)
                .stored_bytes_per_minute(config.limits.stored_bytes_per_minute)
                .budgets_per_tenant(config.limits.budgets_per_tenant)
                .attesting(issuing.clone(), evidence_retention),
            issuing,
            key_set: evidence.map(published),
            evidence_retention,
            public_limiter: PublicLimiter::new(config.limits.evidence_requests_per_minute),
            list_limits: ListLimits::default(),
            dialect: config.store.dialect,
            store: store.clone(),
            trusted_proxies: http.trusted_proxies.clone().into(),
            body_limits: BodyLimits {
                bytes: http.body_limit_bytes,
                time: fixed.body_timeout,
                metadata_bytes: fixed.metadata_bytes,
                caps_bytes: fixed.caps_bytes,
            },
            body_memory: BodyMemory::new(fixed.body_memory_bytes, http.body_limit_bytes),
        })
    }
}

/// The key set as it is published, made once.
fn published(evidence: &EvidenceConfig) -> Bytes {
    let issuers = &evidence.issuers;
    Bytes::from(issuers.key_set().json(issuers.dialect()).compact())
}

/// The days of a retention, the last one whole. Bounded so that times of that age in milliseconds do not overflow.
fn days(retention: Duration) -> i64 {
    let days = retention.as_secs().div_ceil(86_400);
    i64::try_from(days).unwrap_or(i64::MAX / 100_000_000)
}
