//! The words of refusals, which many scripts share.

use super::{Signature, Word};
use crate::domain::amount::Unit;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::record::Record;
use crate::domain::refusal::{BadKey, CountLimit, Denial, FullWindow};
use crate::domain::reservation::Status;
use crate::domain::scope::ScopeFilter;
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Reply, unknown};

/// Declares the words: `/// What it says.` `word: Variant { field: Type },`.
macro_rules! refused {
    ($($(#[$doc:meta])* $word:ident: $variant:ident $({ $($field:ident: $type:ty),* })?,)*) => {
        /// Why a script did not do what it is for. It has written nothing, save the event of a denial.
        #[derive(Debug, Clone)]
        pub(crate) enum Refused {
            $($(#[$doc])* $variant $({ $($field: $type),* })?,)*
        }

        /// The words, by name.
        #[allow(non_upper_case_globals, reason = "a constant is called as its word")]
        pub mod words {
            use super::Word;
            $(
                $(#[$doc])*
                pub const $word: Word = Word { word: stringify!($word), fields: &[$($(stringify!($field)),*)?] };
            )*
            /// All of them.
            #[cfg(test)]
            pub(super) const SHARED: &[Word] = &[$($word),*];
            /// The stored words of the first outcome.
            pub const replayed: Word = Word { word: "replayed", fields: &["outcome…"] };
        }

        impl Refused {
            /// Reads what follows `word`; `None` for any other word.
            pub(crate) fn read(word: &str, reply: &mut Reply) -> Result<Option<Self>, StoreError> {
                $(
                    if word == stringify!($word) {
                        return Ok(Some(Self::$variant $({ $($field: FromReply::from_reply(reply)?),* })?));
                    }
                )*
                Ok(None)
            }

            pub(crate) fn word(&self) -> &'static str {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => stringify!($word),)*
                }
            }
        }
    };
}

refused! {
    /// The API key is not good.
    unauthorized: Unauthorized { why: BadKey },
    /// The API key lacks this permission.
    forbidden: Forbidden { permission: String },
    /// The API key is restricted to other scopes: to these.
    scope_forbidden: ScopeForbidden { filter: ScopeFilter },
    /// The day keys are those of another day than the store's.
    clock: Clock { now_ms: i64 },
    /// The caller's lease is over.
    fenced: Fenced,
    /// It is not time yet.
    early: Early,
    /// The idempotency key was first used with another request.
    idempotency_mismatch: IdempotencyMismatch,
    /// The record of the tenant cannot be read.
    tenant_unreadable: TenantUnreadable,
    /// The tenant is closed.
    tenant_closed: TenantClosed,
    /// The tenant is suspended.
    tenant_suspended: TenantSuspended,
    /// The tenant has no record.
    tenant_not_found: TenantNotFound,
    /// A record that the operation depends on cannot be read.
    corrupt: Corrupt { key: String },
    /// There is no such record.
    not_found: NotFound,
    /// The record belongs to another tenant.
    foreign: Foreign,
    /// The reservation is past its expiry and grace period.
    expired: Expired,
    /// The reservation has ended.
    finalized: Finalized { status: Status },
    /// The reservation was extended as often as it may be.
    max_extensions: MaxExtensions { limit: i64 },
    /// The ledgers of the scope count other units.
    unit_mismatch: UnitMismatch { scope: String, units: Units },
    /// No enclosing scope has a ledger.
    budget_not_found: BudgetNotFound,
    /// The reservation has charged nothing yet.
    not_charged: NotCharged,
    /// More would be given back than was charged.
    refund_exceeds: RefundExceeds { charged: i64, refunded: i64 },
    /// A ledger takes no charge.
    inactive: Inactive { status: String, scope: String },
    /// A ledger denies the request. What it lacks are funds: also its figures, and when all holds of the tenant have ended. What is
    /// full is the window of a limit: also that.
    denied: Denied {
        reason: Denial, scope: String, remaining: i64, snapshot: Option<String>, holds_due_ms: Option<i64>, window: Option<FullWindow>
    },
    /// A ledger is over its limit since this reservation or usage event.
    over_limit: OverLimit { scope: String, remaining: i64, since: String },
    /// The charge is above the hold, and the overage policy is REJECT.
    overage_rejected: OverageRejected { scope: String, reserved: i64 },
    /// Funds are short while holds are past their grace period: expire them, then call again.
    sweep_first: SweepFirst { now_ms: i64 },
    /// A bound of what is carried over stands without the policy that carries over.
    carry_limit_alone: CarryLimitAlone,
    /// Ledgers must turn first: their records.
    turn_first: TurnFirst { now_ms: i64, ledgers: Vec<Record> },
    /// These depths of the scope have a template and no ledger: create these, then call again.
    create_first: CreateFirst { depths: String },
    /// Other policies apply than those that the caller chose from: choose again, then call again.
    stale: Stale { now_ms: i64, version: String },
    /// The tenant's requests have stored as much of their own as a minute admits.
    bytes_limited: BytesLimited { now_ms: i64, until_ms: i64, limit: i64, present: i64 },
    /// There is no memory for what is new.
    memory_full: MemoryFull,
    /// A policy allows no more reservations in this minute.
    rate_limited: RateLimited { now_ms: i64, until_ms: i64, policy_id: String },
    /// A refusal after evaluation, of which evidence is queued.
    attested: Attested { now_ms: i64, refused: Box<Refused> },
    /// The ledger is closed.
    budget_closed: BudgetClosed,
    /// The ledger is frozen.
    budget_frozen: BudgetFrozen,
    /// The ledger is of another tenant.
    foreign_budget: ForeignBudget,
    /// There is such a ledger.
    duplicate_budget: DuplicateBudget,
    /// Less remains than is to be taken: the figures of the ledger.
    budget_exceeded: BudgetExceeded { snapshot: String },
    /// A figure would leave the range of 64 bits.
    out_of_range: OutOfRange,
    /// The ledger has no such increase, or it has ended.
    increase_not_found: IncreaseNotFound,
    /// An increase would end in the past, or more than ten years from now.
    until_out_of_range: UntilOutOfRange,
    /// There is no such policy.
    policy_not_found: PolicyNotFound,
    /// A policy for all scopes below one would have templates.
    templates_below: TemplatesBelow,
    /// The policy is of another tenant.
    foreign_policy: ForeignPolicy,
    /// The tenant has a policy of this name.
    duplicate_policy: DuplicatePolicy,
    /// The tenant that is to own the new record has no record.
    owner_not_found: OwnerNotFound,
    /// A tenant of this id has another name.
    duplicate_tenant: DuplicateTenant,
    /// A closed tenant stays closed.
    leaving_closed: LeavingClosed,
    /// There is no such API key.
    api_key_not_found: ApiKeyNotFound,
    /// The API key is revoked already.
    key_revoked: KeyRevoked,
    /// The API key is revoked or has expired.
    key_ended: KeyEnded { status: ApiKeyStatus },
    /// The API key would never be good.
    expires_in_the_past: ExpiresInThePast,
    /// There would be more of a kind than the owner may have.
    too_many: TooMany { count: CountLimit, limit: i64, present: i64 },
    /// There is no such subscription.
    webhook_not_found: WebhookNotFound,
    /// Another process chooses the events of a replay.
    locked: Locked,
    /// The subscription was tested too often in this minute.
    limited: Limited { retry_in_ms: i64, until_ms: i64, most: i64 },
    /// The subscriptions of its owner were tested too often in this minute.
    owner_limited: OwnerLimited { retry_in_ms: i64, until_ms: i64, most: i64 },
}

/// The units that ledgers count, blanks between.
#[derive(Debug, Clone)]
pub(crate) struct Units(pub Vec<Unit>);

impl FromReply for Units {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let words = reply.read::<String>()?;
        let units = words.split(' ').map(Unit::parse).collect::<Option<_>>();
        units.map(Self).ok_or_else(|| reply.unknown(&words))
    }
}

impl FromReply for Option<FullWindow> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let words = reply.read::<Option<String>>()?;
        let read = |words: String| FullWindow::parse(&words).ok_or_else(|| reply.unknown(&words));
        words.map(read).transpose()
    }
}

impl FromReply for Box<Refused> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.read::<String>()?;
        let refused = Refused::read(&word, reply)?;
        refused.map(Self::new).ok_or_else(|| reply.unknown(&word))
    }
}

impl Refused {
    /// Reads a reply of a script that was kept, a word a line; `None` for one that refuses nothing.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when a field is missing or of another kind.
    pub(crate) fn kept(signature: &Signature, lines: &str) -> Result<Option<Self>, StoreError> {
        let words = lines
            .split('\n')
            .map(|word| redis::Value::BulkString(word.into()));
        let mut reply = Reply::new(&signature.script, redis::Value::Array(words.collect()))?;
        let word = reply.read::<String>()?;
        Self::read(&word, &mut reply)
    }

    /// Whether the script replies to a repeated request with the stored words of the first outcome.
    pub(super) fn replays(signature: &Signature) -> bool {
        let replayed = words::replayed;
        let declared = signature.replies.iter();
        declared
            .filter(|known| known.word == replayed.word)
            .any(|known| known.fields == replayed.fields)
    }

    /// For a word that the caller of a script has no use for.
    pub(crate) fn unexpected(&self, signature: &Signature) -> StoreError {
        unknown(signature.script.name(), 0, self.word())
    }
}

#[cfg(test)]
impl Refused {
    /// Each refusal that a script declares, with made-up fields.
    pub(crate) fn samples(signature: &Signature) -> Vec<Self> {
        let sample = |field: &&str| match *field {
            "why" => "KEY_REVOKED",
            "status" => "EXPIRED",
            "reason" => "BUDGET_EXCEEDED",
            "snapshot" => "2 0 1",
            "window" => "PT1H 2 1 3600000",
            "units" => "TOKENS",
            "count" => "policies",
            "refused" => "expired",
            _ => "1",
        };
        let read = |declared: &Word| {
            let fields = declared.fields.iter().filter(|field| **field != "ledgers");
            let fields = fields.map(sample);
            let fields = fields.map(|text| redis::Value::BulkString(text.into()));
            let reply = redis::Value::Array(fields.collect());
            let mut reply = Reply::new(&signature.script, reply).expect("an array");
            Self::read(declared.word, &mut reply).expect("fields of its types")
        };
        let is_shared = |declared: &&Word| {
            let shared = words::SHARED.iter();
            let mut same_name = shared.filter(|shared| shared.word == declared.word);
            same_name.any(|shared| shared.fields == declared.fields)
        };
        let declared = signature.replies.iter().filter(is_shared);
        declared.filter_map(read).collect()
    }
}
