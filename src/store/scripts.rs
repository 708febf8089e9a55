//! The table of the scripts of `lua/`.

use super::fragments::FRAGMENTS;
use super::runtime;
use super::signature::Signature;
use crate::driver::script::Script;

macro_rules! scripts {
    ($($folder:literal: { $($(#[$doc:meta])* $constant:ident = $name:literal,)* })*) => {
        $($(
            $(#[$doc])*
            pub static $constant: Script = Script::undeclared(
                concat!($folder, "/", $name),
                include_str!(concat!("../../lua/", $folder, "/", $name, ".lua")),
                FRAGMENTS,
            );
        )*)*
        /// Scripts without a declaration.
        pub static UNDECLARED: &[&Script] = &[$($(&$constant),*),*];
    };
}

/// What is declared of every script.
pub static SIGNATURES: &[&Signature] = &[
    &runtime::reserve::RESERVE,
    &runtime::commit::COMMIT,
    &runtime::release::RELEASE,
    &runtime::extend::EXTEND,
    &runtime::usage_event::USAGE_EVENT,
    &runtime::decide::DECIDE,
    &runtime::read::GET,
    &runtime::read::LIST,
    &runtime::read::ROWS,
    &runtime::balances::BALANCES,
    &runtime::read::AUTHENTICATE,
    &runtime::expire::EXPIRE,
];

/// Every script.
pub fn all() -> impl Iterator<Item = &'static Script> {
    let declared = SIGNATURES.iter().map(|signature| &signature.script);
    declared.chain(UNDECLARED.iter().copied())
}

scripts! {
    "runtime": {
        /// Reads policies for a replica to choose among them.
        LOAD_POLICIES = "load_policies",
    }
    "admin": {
        /// Checks an API key for the admin plane.
        ADMIN_ACCESS = "admin_access",
        /// Books a refused admin request.
        AUDIT_FAILURE = "audit_failure",
        /// Reads one record of the admin plane.
        GET_RECORD = "get_record",
        /// Reads a tenant's logs.
        WALK_LOGS = "walk_logs",
        /// Reads one event.
        GET_EVENT = "get_event",
    }
    "admin/tenants": {
        /// Records a tenant.
        CREATE_TENANT = "create_tenant",
        /// Changes a tenant, or flips it to closed.
        UPDATE_TENANT = "update_tenant",
        /// Ends a turn at a tenant's close, or the close.
        CLOSE_TENANT = "close_tenant",
        /// Releases reservations of a tenant that is being closed.
        CLOSE_RESERVATIONS = "close_reservations",
        /// Closes ledgers of a tenant that is being closed.
        CLOSE_BUDGETS = "close_budgets",
        /// Disables subscriptions of a tenant that is being closed.
        CLOSE_WEBHOOKS = "close_webhooks",
        /// Revokes API keys of a tenant that is being closed.
        CLOSE_API_KEYS = "close_api_keys",
    }
    "admin/api_keys": {
        /// Enters an API key into the directory.
        REGISTER_API_KEY = "register_api_key",
        /// Records an API key.
        CREATE_API_KEY = "create_api_key",
        /// Changes an API key.
        UPDATE_API_KEY = "update_api_key",
        /// Ends an API key.
        REVOKE_API_KEY = "revoke_api_key",
        /// Judges an API key for an operator.
        VALIDATE_API_KEY = "validate_api_key",
        /// Tells what an API key may do.
        INTROSPECT = "introspect",
    }
    "admin/budgets": {
        /// Opens a ledger.
        CREATE_BUDGET = "create_budget",
        /// Moves what a ledger has been allocated, has spent or owes.
        FUND = "fund",
        /// Changes what an operator set on a ledger.
        UPDATE_BUDGET = "update_budget",
        /// Freezes a ledger, or ends that.
        FREEZE_BUDGET = "freeze_budget",
        /// Reads ledgers with all that is shown of them.
        LIST_BUDGETS = "list_budgets",
        /// Reads one ledger.
        LOOKUP_BUDGET = "lookup_budget",
    }
    "admin/policies": {
        /// Records a policy.
        CREATE_POLICY = "create_policy",
        /// Changes a policy.
        UPDATE_POLICY = "update_policy",
        /// Reads policies for whoever lists them.
        LIST_POLICIES = "list_policies",
    }
    "admin/webhooks": {
        /// Records a webhook subscription.
        CREATE_WEBHOOK = "create_webhook",
        /// Reads one with its secrets.
        READ_WEBHOOK = "read_webhook",
        /// Changes one.
        UPDATE_WEBHOOK = "update_webhook",
        /// Removes one.
        DELETE_WEBHOOK = "delete_webhook",
        /// Reads those of a tenant.
        LIST_WEBHOOKS = "list_webhooks",
        /// Reads deliveries to one.
        LIST_DELIVERIES = "list_deliveries",
        /// Counts a test of one.
        WEBHOOK_TEST = "webhook_test",
        /// Claims a replay for one.
        BEGIN_REPLAY = "begin_replay",
        /// Gives such a claim back.
        END_REPLAY = "end_replay",
        /// Keeps the events of a replay.
        QUEUE_REPLAY = "queue_replay",
        /// Replaces the rules for addresses of receivers.
        PUT_WEBHOOK_SECURITY = "put_webhook_security",
    }
    "admin/bulk_actions": {
        /// Tells who does a bulk action.
        BULK_CLAIM = "bulk_claim",
        /// Funds ledgers for one.
        BULK_FUND = "bulk_fund",
        /// Changes a tenant's status for one.
        BULK_TENANT = "bulk_tenant",
        /// Changes or removes subscriptions for one.
        BULK_WEBHOOKS = "bulk_webhooks",
        /// Keeps what became of rows of one.
        BULK_SETTLE = "bulk_settle",
        /// Ends one.
        BULK_FINISH = "bulk_finish",
    }
    "dispatcher": {
        /// Removes ended records whose retention has passed.
        PURGE = "purge",
        /// Sums up the uncounted denials of a past minute.
        DENIALS = "denials",
        /// Tells of refused API keys, and sums up those that were only counted.
        AUTH_FAILED = "auth_failed",
        /// Sums up the refused admin requests of a past minute that were only counted.
        AUDIT_FAILURES = "audit_failures",
        /// Takes or renews the lease of a partition.
        LEASE = "lease",
        /// Tells which dispatchers are alive.
        MEMBERS = "members",
        /// Seals entries of an audit chain.
        SEAL = "seal",
        /// Ends a look of retention at one day of a tenant.
        RETIRE = "retire",
        /// Adds rows to a view over all tenants.
        INDEX_VIEW = "index_view",
        /// Notes up to when partitions are in such a view.
        SET_WATERMARKS = "set_watermarks",
        /// Tells that the time of an API key is over.
        EXPIRE_API_KEY = "expire_api_key",
        /// Brings the operator's thresholds to a partition.
        COPY_THRESHOLDS = "copy_thresholds",
    }
    "tools": {
        /// Reads ledgers at one moment.
        LEDGERS = "ledgers",
        /// Reads records with their place in the indexes.
        RECORDS = "records",
        /// Tells which days with records retention does not know of.
        REGISTERED = "registered",
    }
    "deployment": {
        /// Starts a deployment or tells what was started.
        META = "meta",
    }
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
