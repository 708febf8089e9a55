//! `close_*.lua`: the steps of a tenant's close, each a bounded part that may be repeated by anybody.

use crate::domain::ids::{Partition, TenantId};
use crate::driver::clock::Day;
use crate::driver::script::Script;
use crate::store::admin::push_day;
use crate::store::dispatcher::poll::Due;
use crate::store::scripts::{
    CLOSE_API_KEYS, CLOSE_BUDGETS, CLOSE_RESERVATIONS, CLOSE_TENANT, CLOSE_WEBHOOKS,
};
use crate::store::{Arg, Lane, Lease, Reply, Store, StoreError};

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

/// What one step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseStep {
    /// The close is in this phase now.
    At(Phase),
    /// Reservations are past their grace and must expire first, as of this clock in milliseconds.
    SweepFirst(i64),
    /// There is no close to go on with.
    Nothing,
    /// The close is over: this step told of it.
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
    /// The caller's lease is over.
    Fenced,
    /// The day keys were those of another day.
    WrongDay,
}

/// How a turn ends.
#[derive(Debug, Clone, Copy)]
pub enum TurnEnd<'a> {
    /// All phases are through.
    End,
    /// Its time is over.
    Pause,
    /// A step raised an error about this.
    Fail(&'a str),
}

impl Store {
    /// The tenants of each partition whose close others than the request go on with next, at most `rows` of each; `None` where
    /// Redis gave no answer.
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
        match phase {
            Phase::Reservations => self.close_reservations(tenant, lease).await,
            Phase::Budgets => self.close_budgets(tenant, lease).await,
            Phase::Webhooks => self.close_webhooks(tenant, lease).await,
            Phase::ApiKeys => self.close_api_keys(tenant, lease).await,
            Phase::End => self.end_close_turn(tenant, TurnEnd::End, lease).await,
        }
    }

    async fn close_reservations(
        &self,
        tenant: &TenantId,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let (keys, partition, name) = (self.keys(), tenant.partition(), tenant.as_str());
        let key_names = [
            keys.tenant(partition, name),
            keys.closing(partition, name),
            keys.due(partition, name),
            keys.due_tenants(partition),
            keys.quarantine(partition),
            keys.lease(partition),
        ];
        let args = [
            name.to_owned(),
            token(lease),
            RESERVATION_ROWS.to_string(),
            keys.reservation(partition, ""),
            keys.budget_prefix(partition, name),
        ];
        self.run_close_step(&CLOSE_RESERVATIONS, &key_names, &args)
            .await
    }

    async fn close_budgets(
        &self,
        tenant: &TenantId,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let (keys, partition, name) = (self.keys(), tenant.partition(), tenant.as_str());
        let list = keys.budgets(partition, name);
        let prefix = keys.budget_prefix(partition, name);
        let counts = Some(keys.counts(partition));
        self.close_children(&CLOSE_BUDGETS, tenant, list, prefix, counts, lease)
            .await
    }

    /// Disables the subscriptions in the tenant's list, if there is one.
    async fn close_webhooks(
        &self,
        tenant: &TenantId,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let (keys, partition) = (self.keys(), tenant.partition());
        let list = keys.webhooks(partition, tenant.as_str());
        let prefix = keys.webhook(partition, "");
        let counts = Some(keys.counts(partition));
        self.close_children(&CLOSE_WEBHOOKS, tenant, list, prefix, counts, lease)
            .await
    }

    async fn close_api_keys(
        &self,
        tenant: &TenantId,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let (keys, partition) = (self.keys(), tenant.partition());
        let list = keys.api_keys(partition, tenant.as_str());
        let prefix = keys.api_key(partition, "");
        self.close_children(&CLOSE_API_KEYS, tenant, list, prefix, None, lease)
            .await
    }

    /// A step over one of the lists of what a tenant owns; `counts` where their statuses are counted.
    async fn close_children(
        &self,
        script: &Script,
        tenant: &TenantId,
        list: String,
        record_prefix: String,
        counts: Option<String>,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let day = self.today();
        let mut key_names = self.closing_keys(tenant, list, day).to_vec();
        key_names.extend(counts);
        let mut args = vec![tenant.as_str().to_owned()];
        push_day(&mut args, day);
        args.extend([token(lease), CHILD_ROWS.to_string(), record_prefix]);
        self.run_close_step(script, &key_names, &args).await
    }

    /// Ends a turn at a tenant's close, or the close.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn end_close_turn(
        &self,
        tenant: &TenantId,
        end: TurnEnd<'_>,
        lease: Option<Lease>,
    ) -> Result<CloseStep, StoreError> {
        let day = self.today();
        let closings = self.keys().closings(tenant.partition());
        let key_names = self.closing_keys(tenant, closings, day);
        let mut args = vec![tenant.as_str().to_owned()];
        push_day(&mut args, day);
        let (action, what) = match end {
            TurnEnd::End => ("end", ""),
            TurnEnd::Pause => ("pause", ""),
            TurnEnd::Fail(what) => ("fail", what),
        };
        args.extend([token(lease), action.to_owned(), what.to_owned()]);
        self.run_close_step(&CLOSE_TENANT, &key_names, &args).await
    }

    fn closing_keys(&self, tenant: &TenantId, list: String, day: Day) -> [String; 10] {
        let (keys, partition, name) = (self.keys(), tenant.partition(), tenant.as_str());
        [
            keys.tenant(partition, name),
            keys.closing(partition, name),
            list,
            keys.events(partition, name, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.audit(partition, name, day),
            keys.chain(partition, name),
            keys.unsealed(partition),
            keys.lease(partition),
        ]
    }

    async fn run_close_step(
        &self,
        script: &Script,
        key_names: &[String],
        args: &[String],
    ) -> Result<CloseStep, StoreError> {
        let args: Vec<Arg<'_>> = args.iter().map(Arg::from).collect();
        let value = self
            .call_on(Lane::Background, script, key_names, &args)
            .await?;
        let mut reply = Reply::new(script, value)?;
        Ok(match reply.next_str()?.as_str() {
            "at" => {
                let word = reply.next_str()?;
                CloseStep::At(Phase::parse(&word).ok_or_else(|| reply.unknown(&word))?)
            }
            "sweep_first" => CloseStep::SweepFirst(reply.next_i64()?),
            "none" => CloseStep::Nothing,
            "closed" => CloseStep::Closed {
                anything: reply.next_i64()? == 1,
            },
            "paused" => CloseStep::Paused,
            "incomplete" => CloseStep::Incomplete {
                again_in_ms: reply.next_i64()?,
                failed: reply.rest()?,
            },
            "fenced" => CloseStep::Fenced,
            "clock" => CloseStep::WrongDay,
            other => return Err(reply.unknown(other)),
        })
    }
}

fn token(lease: Option<Lease>) -> String {
    lease
        .map(|lease| lease.token.to_string())
        .unwrap_or_default()
}
