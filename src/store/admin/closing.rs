//! `close_*.lua`: the steps of a tenant's close, each of bounded size, which any process may repeat.

use crate::domain::ids::TenantId;
use crate::domain::words::words;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, ScriptError, Store};

signature! {
    /// Takes a step of a tenant's close: releases up to a number of its active reservations. Their holds return to the ledgers
    /// and add to what the event of each ledger says that it got back.
    ///
    /// none: there is no close to resume. sweep_first: reservations are past their grace period; those expire, they are not
    /// released. A record that is corrupt, or whose ledger is, leaves the index for the quarantine.
    CLOSE_RESERVATIONS: CloseReservations -> CloseReply declared elsewhere = "admin/tenants/close_reservations", flags "allow-oom";
    keys of partition of tenant {
        read tenant_key: tenant(tenant), lease();
        write closing_key: closing(tenant), due(tenant), other_graces(tenant), due_tenants(), quarantine();
    }
    builds { write reservation(), budget(tenant) }
    args {
        tenant: &'a TenantId,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<Lease>,
        rows: i64,
    }
    replies { fenced, none: Nothing, sweep_first, at: At { phase: Phase } }
    writes "On at: the reservations, their due times and expiries, the ledgers, the intent, the quarantine."
}

/// Declares a step that ends what is in one list of the tenant.
macro_rules! close_list {
    (
        $(#[doc = $summary:literal])+
        $static:ident: $call:ident of $tenant:ident = $path:literal, $list:ident, $child:ident ($($part:ident)?)
        $(, $counts:ident $(, $mark:ident, $lanes:ident)?)?
    ) => {
        signature! {
            $(#[doc = $summary])+
            $static: $call -> CloseReply declared elsewhere = $path, flags "allow-oom";
            keys of partition of $tenant {
                read lease(), list: $list($tenant);
                write tenant_key: tenant($tenant), closing_key: closing($tenant), event_log: events($tenant, day), outbox(),
                    days(), audit_log: audit($tenant, day), chain($tenant), unsealed() $(, $counts() $(, $mark($tenant), $lanes())?)?;
            }
            builds { write $child($($part)?) }
            args {
                day,
                $tenant: &'a TenantId,
                /// Of the caller's lease, '' for a request.
                fencing_token: Option<Lease>,
                rows: i64,
            }
            replies { clock, fenced, none: Nothing, at: At { phase: Phase } }
            writes "On at: the intent; what it ends, each with its events and audit entry."
        }
    };
}

close_list! {
    /// Takes a step of a tenant's close: closes up to a number of its ledgers. What a ledger still holds belongs to records in
    /// quarantine, and returns as well.
    ///
    /// none: there is no close to resume. A ledger that is closed already is passed over; one that is missing or corrupt too,
    /// and the close reports it and is tried again.
    CLOSE_BUDGETS: CloseBudgets of tenant = "admin/tenants/close_budgets", budgets, budget(tenant), counts
}

close_list! {
    /// Takes a step of a tenant's close: disables up to a number of its subscriptions.
    ///
    /// none: there is no close to resume.
    CLOSE_WEBHOOKS: CloseWebhooks of tenant = "admin/tenants/close_webhooks", webhooks, webhook(), counts, webhooks_mark, lanes
}

close_list! {
    /// Takes a step of a tenant's close: revokes up to a number of its API keys. One that has expired or was revoked before
    /// stays as it is.
    ///
    /// none: there is no close to resume.
    CLOSE_API_KEYS: CloseApiKeys of tenant = "admin/tenants/close_api_keys", api_keys, api_key()
}

signature! {
    /// Ends a process's work on a tenant's close. After the last phase it emits tenant.closed, once, and removes the
    /// intent; where something could not be closed, all is tried again later.
    ///
    /// action: end after the last phase, pause when the pass's time is over, fail when a step raised an error. none: there is no
    /// close to resume. at: the phases have not ended.
    CLOSE_TENANT: CloseTenant -> CloseReply = "admin/tenants/close_tenant", flags "allow-oom";
    keys of partition of tenant {
        read lease();
        write tenant_key: tenant(tenant), closing(tenant), closings(), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed();
    }
    args {
        day,
        tenant: &'a TenantId,
        /// Of the caller's lease, '' for a request.
        fencing_token: Option<Lease>,
        action: &'a str,
        /// The failed resources, or ''.
        what: &'a str,
    }
    replies {
        clock, fenced, none: Nothing, at: At { phase: Phase }, closed: Closed { anything: bool }, paused: Paused,
        incomplete: Incomplete { again_in_ms: i64, failed: Vec<String> },
    }
    writes "The audit entry of the request that closed, while it waits; on closed the event and the end of the intent."
}

/// Reservations that one step releases at most.
pub const RESERVATION_ROWS: i64 = 50;

/// Ledgers, subscriptions or API keys that one step ends at most.
pub const CHILD_ROWS: i64 = 25;

words! {
    /// How far a close has come.
    Phase: "snake_case" {
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
    /// Takes a step of a tenant's close. `fencing_token`: the lease of a dispatcher; none for the request that closes.
    pub(crate) async fn close_step(
        &self,
        tenant: &TenantId,
        phase: Phase,
        fencing_token: Option<Lease>,
    ) -> Result<CloseReply, ScriptError> {
        macro_rules! step {
            ($call:ident, $rows:expr) => {{
                let call = $call {
                    tenant,
                    fencing_token,
                    rows: $rows,
                };
                self.run(Lane::Background, &call).await
            }};
        }
        match phase {
            Phase::Reservations => step!(CloseReservations, RESERVATION_ROWS),
            Phase::Budgets => step!(CloseBudgets, CHILD_ROWS),
            Phase::Webhooks => step!(CloseWebhooks, CHILD_ROWS),
            Phase::ApiKeys => step!(CloseApiKeys, CHILD_ROWS),
            Phase::End => self.end_close(tenant, CloseEnd::End, fencing_token).await,
        }
    }

    /// Ends a run on a tenant's close, or the close.
    pub(crate) async fn end_close(
        &self,
        tenant: &TenantId,
        end: CloseEnd<'_>,
        fencing_token: Option<Lease>,
    ) -> Result<CloseReply, ScriptError> {
        let (action, what) = match end {
            CloseEnd::End => ("end", ""),
            CloseEnd::Pause => ("pause", ""),
            CloseEnd::Fail(what) => ("fail", what),
        };
        let call = CloseTenant {
            tenant,
            fencing_token,
            action,
            what,
        };
        self.run(Lane::Background, &call).await
    }
}
