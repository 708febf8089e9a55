//! The table of the scripts of `lua/`.

use super::signature::Signature;
use super::{admin, deployment, dispatcher, evidence, runtime, tools};
use crate::driver::script::Script;

/// The declarations of all scripts.
pub static SIGNATURES: &[&Signature] = &[
    &runtime::reserve::RESERVE,
    &runtime::commit::COMMIT,
    &runtime::release::RELEASE,
    &runtime::extend::EXTEND,
    &runtime::usage_event::USAGE_EVENT,
    &runtime::decide::DECIDE,
    &runtime::replay::REPLAY,
    &runtime::read::GET,
    &runtime::read::LIST,
    &runtime::read::ROWS,
    &runtime::read::BALANCES,
    &runtime::read::AUTHENTICATE,
    &admin::policies::LOAD_POLICIES,
    &admin::policies::CHANGED_POLICIES,
    &admin::ADMIN_ACCESS,
    &admin::AUDIT_FAILURE,
    &admin::events::GET_EVENT,
    &admin::tenants::CREATE_TENANT,
    &admin::tenants::UPDATE_TENANT,
    &admin::closing::CLOSE_TENANT,
    &admin::closing::CLOSE_RESERVATIONS,
    &admin::closing::CLOSE_BUDGETS,
    &admin::closing::CLOSE_WEBHOOKS,
    &admin::closing::CLOSE_API_KEYS,
    &admin::api_keys::REGISTER_API_KEY,
    &admin::api_keys::CREATE_API_KEY,
    &admin::api_keys::UPDATE_API_KEY,
    &admin::api_keys::REVOKE_API_KEY,
    &admin::api_key_checks::VALIDATE_API_KEY,
    &admin::api_key_checks::INTROSPECT,
    &admin::budgets::CREATE_BUDGET,
    &admin::budgets::FUND,
    &admin::budgets::UPDATE_BUDGET,
    &admin::budgets::FREEZE_BUDGET,
    &admin::budgets::LOOKUP_BUDGET,
    &admin::policies::CREATE_POLICY,
    &admin::policies::UPDATE_POLICY,
    &admin::policies::LIST_POLICIES,
    &admin::webhooks::CREATE_WEBHOOK,
    &admin::webhooks::READ_WEBHOOK,
    &admin::webhooks::UPDATE_WEBHOOK,
    &admin::webhooks::DELETE_WEBHOOK,
    &admin::webhook_deliveries::LIST_DELIVERIES,
    &admin::webhooks::WEBHOOK_TEST,
    &admin::webhook_replays::BEGIN_REPLAY,
    &admin::webhook_replays::END_REPLAY,
    &admin::webhook_replays::QUEUE_REPLAY,
    &admin::webhooks::PUT_WEBHOOK_SECURITY,
    &admin::bulk::BULK_CLAIM,
    &admin::bulk_rows::BULK_FUND,
    &admin::bulk_rows::BULK_TENANT,
    &admin::bulk_rows::BULK_WEBHOOKS,
    &admin::bulk_rows::BULK_KEEP,
    &admin::bulk::BULK_FINISH,
    &runtime::expire::EXPIRE,
    &dispatcher::retention::PURGE,
    &evidence::unsigned::READ_UNSIGNED,
    &evidence::unsigned::QUARANTINE_UNSIGNED,
    &dispatcher::retention::RETIRE,
    &dispatcher::retention::DROP_IDEMPOTENCY,
    &dispatcher::emit::DENIALS,
    &dispatcher::auth_failed::AUTH_FAILED,
    &dispatcher::emit::AUDIT_FAILURES,
    &dispatcher::traffic::COUNT_TRAFFIC,
    &dispatcher::traffic::DETECT_SPIKES,
    &dispatcher::due_events::REPORT_STORE,
    &dispatcher::traffic::COUNT_BURN,
    &dispatcher::traffic::DETECT_BURN,
    &dispatcher::due_events::EXPIRE_API_KEY,
    &dispatcher::lease::LEASE,
    &dispatcher::lease::HEARTBEAT,
    &dispatcher::audit_chain::SEAL,
    &dispatcher::index_rows::INDEX_VIEW,
    &dispatcher::views::SET_WATERMARKS,
    &dispatcher::fan_out::ADOPT_WEBHOOKS,
    &dispatcher::fan_out::FAN_OUT,
    &dispatcher::catch_up::CATCH_UP,
    &dispatcher::deliveries::LAPSE_CLAIMS,
    &dispatcher::deliveries::TAKE_DELIVERIES,
    &dispatcher::attempts::END_ATTEMPTS,
    &dispatcher::deliveries::HASTEN_LANES,
    &dispatcher::catch_up::FEED_REPLAY,
    &admin::thresholds::COPY_THRESHOLDS,
    &tools::verify::LEDGERS,
    &tools::verify::RECORDS,
    &tools::verify::REGISTERED,
    &deployment::META,
    &evidence::REGISTER_ISSUERS,
];

/// Every script.
pub fn all() -> impl Iterator<Item = &'static Script> {
    SIGNATURES.iter().map(|signature| &signature.script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_of_the_build_assembles() {
        for script in all() {
            assert!(script.source().starts_with("#!lua"), "{}", script.name());
        }
    }
}
