//! `close_*.lua`: the steps of a tenant's close, each of bounded size, which any process may repeat.

use crate::domain::ids::{Partition, TenantId};
use crate::driver::reply::{FromReply, Reply};
use crate::store::dispatcher::poll::Due;
use crate::store::signature::{Refused, signature};
use crate::store::{Lane, Lease, Store, StoreError};

signature! {
    /// Takes a step of a tenant's close: releases up to a number of its active reservations. Their holds return to the ledgers
    /// and add to what the event of each ledger says that it got back.
    ///
    /// none: there is no close to resume. sweep_first: reservations are past their grace period; those expire, they are not
    /// released. A record that is corrupt, or whose ledger is, leaves the index for the quarantine.
    CLOSE_RESERVATIONS: CloseReservations -> CloseReservationsReply = "admin/tenants/close_reservations", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read tenant_key: tenant(tenant), lease();
        write closing_key: closing(tenant), due(tenant), due_tenants(), quarantine();
    }
    builds { write reservation, budget }
    args {
        tenant: &'a str,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<i64>,
        /// At most.
        rows: i64,
        reservation_prefix = reservation_prefix(),
        budget_prefix = budget_prefix(tenant),
    }
    replies { fenced, none: Nothing, sweep_first, at: At { phase: Phase } }
    writes "On at: the reservations, their due times, the ledgers, the intent, the quarantine."
}

signature! {
    /// Takes a step of a tenant's close: closes up to a number of its ledgers. What a ledger still holds belongs to records in
    /// quarantine, and returns as well.
    ///
    /// none: there is no close to resume. A ledger that is closed already is passed over; one that is missing or corrupt too,
    /// and the close reports it and is tried again.
    CLOSE_BUDGETS: CloseBudgets -> CloseBudgetsReply = "admin/tenants/close_budgets", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease(), list: budgets(tenant);
        write tenant_key: tenant(tenant), closing_key: closing(tenant), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed(), counts();
    }
    builds { write budget }
    args {
        day,
        tenant: &'a str,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<i64>,
        /// At most.
        rows: i64,
        budget_prefix = budget_prefix(tenant),
    }
    replies { clock, fenced, none: Nothing, at: At { phase: Phase } }
    writes "On at: the intent; what it ends, each with its events and audit entry."
}

signature! {
    /// Takes a step of a tenant's close: disables up to a number of its subscriptions.
    ///
    /// none: there is no close to resume.
    CLOSE_WEBHOOKS: CloseWebhooks -> CloseWebhooksReply = "admin/tenants/close_webhooks", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease(), list: webhooks(tenant);
        write tenant_key: tenant(tenant), closing_key: closing(tenant), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed(), counts();
    }
    builds { write webhook }
    args {
        day,
        tenant: &'a str,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<i64>,
        /// At most.
        rows: i64,
        webhook_prefix = webhook_prefix(),
    }
    replies { clock, fenced, none: Nothing, at: At { phase: Phase } }
    writes "On at: the intent; what it ends, each with its events and audit entry."
}

signature! {
    /// Takes a step of a tenant's close: revokes up to a number of its API keys. One that has expired or was revoked before
    /// stays as it is.
    ///
    /// none: there is no close to resume.
    CLOSE_API_KEYS: CloseApiKeys -> CloseApiKeysReply = "admin/tenants/close_api_keys", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease(), list: api_keys(tenant);
        write tenant_key: tenant(tenant), closing_key: closing(tenant), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed();
    }
    builds { write api_key }
    args {
        day,
        tenant: &'a str,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<i64>,
        /// At most.
        rows: i64,
        api_key_prefix = api_key_prefix(),
    }
    replies { clock, fenced, none: Nothing, at: At { phase: Phase } }
    writes "On at: the intent; what it ends, each with its events and audit entry."
}

signature! {
    /// Ends a process's work on a tenant's close. After the last phase it emits tenant.closed, once, and removes the
    /// intent; where something could not be closed, all is tried again later.
    ///
    /// action: end after the last phase, pause when the turn's time is over, fail when a step raised an error. none: there is no
    /// close to resume. at: the phases have not ended.
    CLOSE_TENANT: CloseTenant -> CloseTenantReply = "admin/tenants/close_tenant", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease();
        write tenant_key: tenant(tenant), closing(tenant), closings(), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed();
    }
    args {
        day,
        tenant: &'a str,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<i64>,
        action: &'a str,
        /// What failed, or ''.
        what: &'a str,
    }
    replies {
        clock, fenced, none: Nothing, at: At { phase: Phase }, closed: Closed { anything: bool }, paused: Paused,
        incomplete: Incomplete { again_in_ms: i64, failed: Vec<String> },
    }
    writes "The audit entry of the request that closed, while it waits; on closed the event and the end of the intent."
}

/// Reservations that one step releases at most.
pub const RESERVATION_ROWS: i64 = 100;

/// Ledgers, subscriptions or API keys that one step ends at most.
pub const CHILD_ROWS: i64 = 50;

/// How far a close has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Active reservations are released.
    Reservations,
    /// Ledgers are closed.
    Budgets,
    /// Subscriptions are disabled.
    Webhooks,
    /// API keys are revoked.
    ApiKeys,
    /// All that the tenant owned has ended; the close itself has not.
    End,
}

impl Phase {
    /// The word of the scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Budgets => "budgets",
            Self::Webhooks => "webhooks",
            Self::ApiKeys => "api_keys",
            Self::End => "end",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [
            Self::Reservations,
            Self::Budgets,
            Self::Webhooks,
            Self::ApiKeys,
            Self::End,
        ]
        .into_iter()
        .find(|phase| phase.as_str() == word)
    }
}

impl FromReply for Phase {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.next_str()?;
        Self::parse(&word).ok_or_else(|| reply.unknown(&word))
    }
}

/// What one step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseStep {
    /// The close is in this phase now.
    At(Phase),
    /// Reservations are past their grace and must expire first, as of this clock in milliseconds.
    SweepFirst(i64),
    /// There is no close to resume.
    Nothing,
    /// The close is over: this step emitted its event.
    Closed {
        /// Whether there was anything to be ended.
        anything: bool,
    },
    /// The turn is over, the close is not.
    Paused,
    /// Something cannot be closed.
    Incomplete {
        /// When all is to be tried again, from now.
        again_in_ms: i64,
        /// Names of what it is.
        failed: Vec<String>,
    },
    /// Another dispatcher holds the lease.
    Fenced,
}

/// How a run on a close ends.
#[derive(Debug, Clone, Copy)]
pub enum CloseEnd<'a> {
    /// All phases are done.
    End,
    /// The time of the run is over.
    Pause,
    /// A step failed on this.
    Fail(&'a str),
}

impl Store {
    /// The tenants of each partition whose close a dispatcher resumes next, at most `rows` of each; `None` where Redis did not
    /// answer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_closings(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().closings(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Takes a step of a tenant's close. `lease` is none for the request that closes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn close_step(
        &self,
        tenant: &TenantId,
        phase: Phase,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let (partition, tenant) = (tenant.partition(), tenant.as_str());
        let (fencing_token, rows) = (lease.map(|lease| lease.token), CHILD_ROWS);
        /// Runs one of the scripts, whose replies have the same form.
        macro_rules! step {
            ($reply:ident, $call:expr) => {
                match self.run_on(Lane::Background, &$call).await? {
                    Ok($reply::At { phase }) => Ok(CloseStep::At(phase)),
                    Ok($reply::Nothing) => Ok(CloseStep::Nothing),
                    Err(refused) => refused_step(refused),
                }
            };
        }
        match phase {
            Phase::Reservations => step!(
                CloseReservationsReply,
                CloseReservations {
                    partition,
                    tenant,
                    fencing_token,
                    rows: RESERVATION_ROWS,
                }
            ),
            Phase::Budgets => step!(
                CloseBudgetsReply,
                CloseBudgets {
                    partition,
                    tenant,
                    fencing_token,
                    rows,
                }
            ),
            Phase::Webhooks => step!(
                CloseWebhooksReply,
                CloseWebhooks {
                    partition,
                    tenant,
                    fencing_token,
                    rows,
                }
            ),
            Phase::ApiKeys => step!(
                CloseApiKeysReply,
                CloseApiKeys {
                    partition,
                    tenant,
                    fencing_token,
                    rows,
                }
            ),
            Phase::End => {
                self.end_close(partition, tenant, CloseEnd::End, fencing_token)
                    .await
            }
        }
    }

    /// Ends a run on a tenant's close, or the close.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn end_close_run(
        &self,
        tenant: &TenantId,
        end: CloseEnd<'_>,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let token = lease.map(|lease| lease.token);
        self.end_close(tenant.partition(), tenant.as_str(), end, token)
            .await
    }

    async fn end_close(
        &self,
        partition: Partition,
        tenant: &str,
        end: CloseEnd<'_>,
        fencing_token: Option<i64>,
    ) -> Result<CloseStep, StoreError> {
        let (action, what) = match end {
            CloseEnd::End => ("end", ""),
            CloseEnd::Pause => ("pause", ""),
            CloseEnd::Fail(what) => ("fail", what),
        };
        let call = CloseTenant {
            partition,
            tenant,
            fencing_token,
            action,
            what,
        };
        Ok(match self.run_on(Lane::Background, &call).await? {
            Ok(CloseTenantReply::At { phase }) => CloseStep::At(phase),
            Ok(CloseTenantReply::Nothing) => CloseStep::Nothing,
            Ok(CloseTenantReply::Closed { anything }) => CloseStep::Closed { anything },
            Ok(CloseTenantReply::Paused) => CloseStep::Paused,
            Ok(CloseTenantReply::Incomplete {
                again_in_ms,
                failed,
            }) => CloseStep::Incomplete {
                again_in_ms,
                failed,
            },
            Err(refused) => return refused_step(refused),
        })
    }
}

fn refused_step(refused: Refused) -> Result<CloseStep, StoreError> {
    match refused {
        Refused::Fenced => Ok(CloseStep::Fenced),
        Refused::SweepFirst { now_ms } => Ok(CloseStep::SweepFirst(now_ms)),
        other => Err(other.unexpected(&CLOSE_TENANT)),
    }
}
