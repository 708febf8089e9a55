//! `get.lua`, `list.lua`, `rows.lua`, `balances.lua` and `authenticate.lua`: what is only read.

use super::release::caller_words;
use crate::domain::amount::Unit;
use crate::domain::api_key::secret::KeyId;
use crate::domain::budget::Balance;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::ids::{Partition, ReservationId, TenantId};
use crate::domain::record::Record;
use crate::domain::scope::{ScopeFilter, ScopePath};
use crate::driver::node::Lane;
use crate::store::runtime::{Answer, fields, refused};
use crate::store::scripts::{AUTHENTICATE, BALANCES, GET, LIST, ROWS};
use crate::store::{Arg, Reply, Store, StoreError};

/// A record and the clock that it was read by.
#[derive(Debug)]
pub struct Found {
    /// The script's clock, in milliseconds.
    pub now_ms: i64,
    /// The fields that were asked for.
    pub record: Record,
}

/// An index of a tenant's reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// The reservations of one day, by creation.
    Created(crate::store::Day),
    /// The active reservations, by due time (expiry and grace).
    Due,
}

/// A walk over indexes, from a position on.
#[derive(Debug)]
pub struct Walk<'a> {
    /// Whose reservations.
    pub tenant: &'a TenantId,
    /// In walking order.
    pub indexes: &'a [Index],
    /// Largest score first.
    pub descending: bool,
    /// Rows at most.
    pub rows: usize,
    /// Smallest and largest score, both inclusive, in milliseconds.
    pub scores: (i64, i64),
    /// In the first index, of the score where the walk starts, the rows up to this id were seen.
    pub after_id: Option<&'a str>,
    /// What to read of each record.
    pub fields: &'a [&'a str],
}

/// One step of a walk.
#[derive(Debug)]
pub struct Rows {
    /// The script's clock, in milliseconds.
    pub now_ms: i64,
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// The longest time from creation to the end that any reservation of the tenant was given, in milliseconds; `None`
    /// where that is a usual one.
    pub longest_life_ms: Option<i64>,
    /// Whether no row is left in any index.
    pub complete: bool,
    /// What was found, in order.
    pub rows: Vec<Row>,
}

/// One reservation of a walk.
#[derive(Debug)]
pub struct Row {
    /// Place of the index in [`Walk::indexes`].
    pub index: usize,
    /// Which reservation.
    pub reservation_id: String,
    /// Its place in the index, in milliseconds.
    pub score: i64,
    /// The fields that were asked for: empty when it has just been purged, `None` where its key holds no hash.
    pub record: Option<Record>,
}

/// A page of a tenant's ledgers.
#[derive(Debug)]
pub struct Ledgers {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// Whether no ledger is left.
    pub complete: bool,
    /// The index entry of each ledger, and its figures; `None` where they cannot be read.
    pub ledgers: Vec<(String, Option<Balance>)>,
}

impl Store {
    /// The tenant of an API key, `None` when there is no such key. It never changes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tenant_of_key(&self, key_id: &KeyId) -> Result<Option<TenantId>, StoreError> {
        let key = self.keys().api_key(key_id.partition(), key_id.as_str());
        let mut command = redis::cmd("HGET");
        command.arg(&key).arg("tenant");
        match self.query_now(&key, &command).await? {
            redis::Value::BulkString(tenant) => {
                Ok(str::from_utf8(&tenant).ok().and_then(TenantId::parse))
            }
            _ => Ok(None),
        }
    }

    /// Checks an API key for a request that failed before its own script.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn authenticate(
        &self,
        caller: &RuntimeCaller,
        permission: &str,
    ) -> Result<Answer<()>, StoreError> {
        let key_names = [self
            .keys()
            .api_key(caller.partition, caller.key_id.as_str())];
        let args = [
            Arg::from(caller.key_hash.as_str()),
            Arg::from(caller.tenant.as_str()),
            Arg::from(permission),
        ];
        let mut reply = Reply::new(
            &AUTHENTICATE,
            self.call(&AUTHENTICATE, &key_names, &args).await?,
        )?;
        match reply.next_str()?.as_str() {
            "authenticated" => Ok(Answer::Done(())),
            other => refused(other, reply),
        }
    }

    /// Reads the named fields of one reservation in the slot of `partition`, which must be the caller's unless he is an
    /// admin.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get_reservation(
        &self,
        caller: &Caller,
        partition: Partition,
        reservation_id: &ReservationId,
        names: &[&str],
    ) -> Result<Answer<Found>, StoreError> {
        let (key_id, key_hash, tenant) = caller_words(caller);
        let key_names = [
            self.keys().api_key(partition, key_id),
            self.keys().reservation(partition, reservation_id.as_str()),
        ];
        let mut args = vec![Arg::from(key_hash), Arg::from(tenant)];
        args.extend(names.iter().copied().map(Arg::from));
        let mut reply = Reply::new(&GET, self.call(&GET, &key_names, &args).await?)?;
        match reply.next_str()?.as_str() {
            "found" => Ok(Answer::Done(Found {
                now_ms: reply.next_i64()?,
                record: fields(&mut reply, names)?.unwrap_or_default(),
            })),
            other => refused(other, reply),
        }
    }

    /// One step of a walk over a tenant's reservations.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list_reservations(
        &self,
        caller: &Caller,
        walk: &Walk<'_>,
    ) -> Result<Answer<Rows>, StoreError> {
        let (keys, tenant, partition) = (self.keys(), walk.tenant, walk.tenant.partition());
        let (key_id, key_hash, _) = caller_words(caller);
        let mut key_names = vec![
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant.as_str()),
        ];
        key_names.extend(walk.indexes.iter().map(|index| match index {
            Index::Created(day) => keys.reservations(partition, tenant.as_str(), *day),
            Index::Due => keys.due(partition, tenant.as_str()),
        }));
        let prefix = keys.reservation(partition, "");
        let mut args = vec![
            Arg::from(key_hash),
            Arg::from(tenant.as_str()),
            Arg::from(if key_hash.is_empty() { "admin" } else { "key" }),
            Arg::from(&prefix),
            Arg::from(if walk.descending { "desc" } else { "asc" }),
            Arg::from(walk.rows as i64),
            Arg::from(walk.scores.0),
            Arg::from(walk.scores.1),
            Arg::from(walk.after_id),
        ];
        args.extend(walk.fields.iter().copied().map(Arg::from));
        let value = self
            .call_on(Lane::Background, &LIST, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&LIST, value)?;
        match reply.next_str()?.as_str() {
            "listed" => {}
            other => return refused(other, reply),
        }
        let now_ms = reply.next_i64()?;
        let scope_filter = ScopeFilter::from_stored(&reply.next_str()?);
        let longest_life_ms = reply.next_str()?.parse().ok();
        let complete = reply.next_i64()? == 1;
        let mut rows = Vec::with_capacity(reply.len() / 4);
        while !reply.is_empty() {
            rows.push(Row {
                index: usize::try_from(reply.next_i64()? - 1).unwrap_or(0),
                reservation_id: reply.next_str()?,
                score: reply.next_i64()?,
                record: fields(&mut reply, walk.fields)?,
            });
        }
        Ok(Answer::Done(Rows {
            now_ms,
            scope_filter,
            longest_life_ms,
            complete,
            rows,
        }))
    }

    /// The named fields of reservations of one partition, as they are now: of the first ones, or of the first alone, that
    /// together have no more than so many bytes. A record is empty where there is none, `None` where the key holds no hash.
    /// With the store's clock, in milliseconds.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_rows(
        &self,
        partition: Partition,
        reservation_ids: &[&str],
        names: &[&str],
        bytes: i64,
    ) -> Result<(i64, Vec<Option<Record>>), StoreError> {
        let key = |id: &&str| self.keys().reservation(partition, id);
        let key_names: Vec<_> = reservation_ids.iter().map(key).collect();
        let mut args = vec![Arg::from(bytes)];
        args.extend(names.iter().copied().map(Arg::from));
        let value = self
            .call_on(Lane::Background, &ROWS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&ROWS, value)?;
        reply.next_str()?;
        let now_ms = reply.next_i64()?;
        let mut rows = Vec::with_capacity(reply.len());
        while !reply.is_empty() {
            rows.push(fields(&mut reply, names)?);
        }
        Ok((now_ms, rows))
    }

    /// Up to `rows` of the caller's ledgers in canonical order, after the entry `after`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list_balances(
        &self,
        caller: &RuntimeCaller,
        after: Option<&str>,
        rows: usize,
    ) -> Result<Answer<Ledgers>, StoreError> {
        let (keys, partition, tenant) = (self.keys(), caller.partition, caller.tenant.as_str());
        let key_names = [
            keys.api_key(partition, caller.key_id.as_str()),
            keys.budgets(partition, tenant),
        ];
        let budget_prefix = keys.budget_prefix(partition, tenant);
        let args = [
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(&budget_prefix),
            Arg::from(after),
            Arg::from(rows as i64),
            Arg::from("balances:read"),
        ];
        let value = self
            .call_on(Lane::Background, &BALANCES, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&BALANCES, value)?;
        match reply.next_str()?.as_str() {
            "listed" => {}
            other => return refused(other, reply),
        }
        let _now_ms = reply.next_i64()?;
        let scope_filter = ScopeFilter::from_stored(&reply.next_str()?);
        let complete = reply.next_i64()? == 1;
        let mut ledgers = Vec::with_capacity(reply.len() / 2);
        while !reply.is_empty() {
            let entry = reply.next_str()?;
            let ledger = fields(&mut reply, &LEDGER_FIELDS)?;
            // One that the index names before it is there, or after it went.
            if !ledger.as_ref().is_some_and(Record::is_empty) {
                let balance = ledger.and_then(|ledger| balance_of(&entry, &ledger));
                ledgers.push((entry, balance));
            }
        }
        Ok(Answer::Done(Ledgers {
            scope_filter,
            complete,
            ledgers,
        }))
    }
}

/// In the order of `balances.lua`.
const LEDGER_FIELDS: [&str; 8] = [
    "status",
    "remaining",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "overdraft_limit",
    "is_over_limit",
];

/// Reads an index entry `scope unit_index UNIT` and the record of its ledger.
fn balance_of(entry: &str, ledger: &Record) -> Option<Balance> {
    let (scope, rest) = entry.split_once(' ')?;
    let (_, unit) = rest.split_once(' ')?;
    ledger.text("status").ok()?;
    ledger.integer("remaining").ok()?;
    let figures = ["allocated", "spent", "reserved", "debt", "overdraft_limit"];
    let figures: Option<Vec<_>> = figures.iter().map(|name| ledger.get(name)).collect();
    let over = if ledger.get("is_over_limit") == Some("1") {
        "1"
    } else {
        "0"
    };
    let snapshot = format!("{} {over}", figures?.join(" "));
    Balance::from_snapshot(ScopePath::parse(scope)?, Unit::parse(unit)?, &snapshot)
}
