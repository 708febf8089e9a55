//! The Lua scripts: embedded in the binary, assembled from their shared parts on first use, and called by name.
//!
//! A line `-- @include access, int64` is replaced by the text of `lua/lib/access.lua` and `lua/lib/int64.lua`. Each part
//! is taken in once per script, parts of parts as well. The first line of a script, `#!lua flags=…`, stays first.

mod arg;

use std::sync::OnceLock;

use redis::Cmd;

pub use super::assemble::IncludeError;
use super::assemble::{Origin, assemble};
use super::contract::Contract;
use super::error::StoreError;
pub use arg::Arg;

/// A script of `lua/`. Its name is the file's stem.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    text: &'static str,
    assembled: OnceLock<Assembled>,
}

#[derive(Debug)]
struct Assembled {
    source: String,
    sha: String,
    origins: Vec<Origin>,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $constant:ident = $name:literal,)*) => {
        $(
            $(#[$doc])*
            pub static $constant: Script =
                Script::new($name, include_str!(concat!("../../lua/", $name, ".lua")));
        )*
        /// Every script, in the order of this table.
        pub static ALL: &[&Script] = &[$(&$constant),*];
    };
}

macro_rules! parts {
    ($($name:literal,)*) => {
        /// The shared parts, by name.
        static PARTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../lua/lib/", $name, ".lua")))),*];
    };
}

scripts! {
    /// Starts a deployment or tells what was started.
    META = "meta",
    /// Holds an estimate on every budgeted scope of a subject, or on none.
    RESERVE = "reserve",
    /// Settles an active reservation.
    COMMIT = "commit",
    /// Ends an active reservation without a charge.
    RELEASE = "release",
    /// Moves the expiry of an active reservation outward.
    EXTEND = "extend",
    /// Charges what was already spent, without a reservation.
    EVENT = "event",
    /// Tells whether an estimate could be held.
    DECIDE = "decide",
    /// Reads one reservation.
    GET = "get",
    /// Reads reservations along an index.
    LIST = "list",
    /// Reads reservations by their keys.
    ROWS = "rows",
    /// Reads ledgers in canonical order.
    BALANCES = "balances",
    /// Checks an API key.
    AUTHENTICATE = "authenticate",
    /// Ends reservations whose grace has passed.
    EXPIRE = "expire",
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
    /// Checks an API key for the admin plane.
    ADMIN_ACCESS = "admin_access",
    /// Books a refused admin request.
    AUDIT_FAILURE = "audit_failure",
    /// Reads one record of the admin plane.
    GET_RECORD = "get_record",
    /// Records a tenant.
    CREATE_TENANT = "create_tenant",
    /// Records a policy.
    CREATE_POLICY = "create_policy",
    /// Changes a policy.
    UPDATE_POLICY = "update_policy",
    /// Reads policies for whoever lists them.
    LIST_POLICIES = "list_policies",
    /// Reads policies for a replica to choose among them.
    LOAD_POLICIES = "load_policies",
    /// Enters an API key into the directory.
    REGISTER_API_KEY = "register_api_key",
    /// Records an API key.
    CREATE_API_KEY = "create_api_key",
    /// Changes an API key.
    UPDATE_API_KEY = "update_api_key",
    /// Ends an API key.
    REVOKE_API_KEY = "revoke_api_key",
    /// Tells that the time of an API key is over.
    EXPIRE_API_KEY = "expire_api_key",
    /// Judges an API key for an operator.
    VALIDATE_API_KEY = "validate_api_key",
    /// Tells what an API key may do.
    INTROSPECT = "introspect",
    /// Opens a ledger.
    CREATE_BUDGET = "create_budget",
    /// Moves what a ledger has been allocated, has spent or owes.
    FUND = "fund",
    /// Reads ledgers with all that is shown of them.
    LIST_BUDGETS = "list_budgets",
    /// Reads one ledger.
    LOOKUP_BUDGET = "lookup_budget",
    /// Changes a tenant, or flips it to closed.
    UPDATE_TENANT = "update_tenant",
    /// Releases reservations of a tenant that is being closed.
    CLOSE_RESERVATIONS = "close_reservations",
    /// Closes ledgers of a tenant that is being closed.
    CLOSE_BUDGETS = "close_budgets",
    /// Disables subscriptions of a tenant that is being closed.
    CLOSE_WEBHOOKS = "close_webhooks",
    /// Revokes API keys of a tenant that is being closed.
    CLOSE_API_KEYS = "close_api_keys",
    /// Ends a turn at a tenant's close, or the close.
    CLOSE_TENANT = "close_tenant",
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
    /// Changes what an operator set on a ledger.
    UPDATE_BUDGET = "update_budget",
    /// Freezes a ledger, or ends that.
    FREEZE_BUDGET = "freeze_budget",
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
    /// Brings the operator's thresholds to a partition.
    COPY_THRESHOLDS = "copy_thresholds",
    /// Tells which dispatchers are alive.
    MEMBERS = "members",
    /// Seals entries of an audit chain.
    SEAL = "seal",
    /// Ends a look of retention at one day of a tenant.
    RETIRE = "retire",
    /// Reads ledgers at one moment.
    LEDGERS = "ledgers",
    /// Reads records with their place in the indexes.
    RECORDS = "records",
    /// Tells which days with records retention does not know of.
    REGISTERED = "registered",
    /// Adds rows to a view over all tenants.
    INDEX_VIEW = "index_view",
    /// Notes up to when partitions are in such a view.
    SET_WATERMARKS = "set_watermarks",
    /// Reads a tenant's logs.
    WALK_LOGS = "walk_logs",
    /// Reads one event.
    GET_EVENT = "get_event",
}

parts! {
    "access",
    "admin_access",
    "audit",
    "audit_failures",
    "budgets",
    "budgets_of_record",
    "bulk",
    "closing",
    "closing_check",
    "counter",
    "counts",
    "failing",
    "strained",
    "closing_child",
    "closing_request",
    "days",
    "denials",
    "evaluate",
    "events",
    "funding",
    "idempotency",
    "hash_fields",
    "holds",
    "int64",
    "int64_wrapping",
    "ledger_charge",
    "ledger_events",
    "ledger_hold",
    "overage",
    "overage_policy",
    "policies",
    "policies_read",
    "rates",
    "rates_count",
    "reservation",
    "scope_filter",
    "tenant",
    "tenant_flip",
    "thresholds",
    "thresholds_crossed",
    "ledger_quiet",
    "ledgers_untellable",
    "evaluate_other_units",
    "evaluate_dead_holds",
    "overage_policy_known",
    "budgets_of_keys",
    "reservation_replay",
    "time",
    "watch",
    "webhook",
}

impl Script {
    const fn new(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            text,
            assembled: OnceLock::new(),
        }
    }

    /// The file's stem.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text that Redis runs.
    pub fn source(&self) -> &str {
        &self.assembled().source
    }

    /// The SHA-1 of the text, by which Redis knows it.
    pub fn sha(&self) -> &str {
        &self.assembled().sha
    }

    /// Whether it builds names of keys from what it reads, besides those in KEYS. Its header says so.
    pub(super) fn builds_keys(&self) -> bool {
        self.text.contains("Keys built:")
    }

    /// Whether all parts are there. A test checks every script.
    ///
    /// # Errors
    /// See [`IncludeError`].
    pub fn check(&self) -> Result<(), IncludeError> {
        assemble(self.name, self.text, PARTS).map(drop)
    }

    fn assembled(&self) -> &Assembled {
        self.assembled.get_or_init(|| {
            let (source, origins) = assemble(self.name, self.text, PARTS)
                .expect("the scripts of a build are tested to assemble");
            let sha = redis::Script::new(&source).get_hash().to_owned();
            Assembled {
                source,
                sha,
                origins,
            }
        })
    }

    /// Where a line of the assembled text was written: file below `lua/` and line, both counted from 1.
    pub fn place(&self, line: usize) -> Option<String> {
        let origin = self.assembled().origins.get(line.checked_sub(1)?)?;
        Some(match origin.part {
            None => format!("{}.lua:{}", self.name, origin.line),
            Some(part) => format!("lib/{part}.lua:{}", origin.line),
        })
    }

    /// The `EVALSHA` of this script.
    pub(super) fn command<K: AsRef<[u8]>>(&self, keys: &[K], args: &[Arg<'_>]) -> Cmd {
        debug_assert_eq!(
            Contract::of(self.text).breach(keys.len(), args.len()),
            None,
            "the call keeps the contract of {}.lua",
            self.name
        );
        let size = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(|arg| arg.len()).sum::<usize>();
        let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 64 + size);
        command.arg("EVALSHA").arg(self.sha()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        for arg in args {
            match arg {
                Arg::Bytes(bytes) => command.arg(*bytes),
                Arg::Integer(integer) => command.arg(*integer),
            };
        }
        command
    }

    /// The `EVAL` with the text of this script for its `EVALSHA`: it runs also where the script is not known.
    pub(super) fn whole(&self, command: &Cmd) -> Cmd {
        let mut whole = redis::cmd("EVAL");
        whole.arg(self.source());
        for arg in command.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                whole.arg(bytes);
            }
        }
        whole
    }

    /// An error of this script, with the place in the file where it was raised.
    pub(super) fn error(&self, code: &str, detail: &str) -> StoreError {
        let line = detail.rsplit_once("user_script:").and_then(|(_, rest)| {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..digits].parse::<usize>().ok()
        });
        let place = line.and_then(|line| self.place(line));
        let message = detail.split(" script: ").next().unwrap_or(detail);
        StoreError::Script {
            script: self.name,
            place: place.unwrap_or_else(|| format!("{}.lua", self.name)),
            message: format!("{code} {message}").trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
