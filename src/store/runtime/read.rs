//! `get.lua`, `list.lua`, `rows.lua` and `authenticate.lua`: what is only read.

use super::{Target, fields_of};
use crate::domain::api_key::secret::KeyId;
use crate::domain::caller::{Caller, Reader};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::driver::node::Lane;
use crate::store::signature::{Fields, signature};
use crate::store::{OperationError, Store, StoreError};

signature! {
    /// Checks an API key, for a request that failed before its own script.
    AUTHENTICATE: Authenticate -> AuthenticateReply = "runtime/authenticate", flags "no-writes,allow-oom";
    names { partition: Partition, key_id: &'a str }
    keys of partition { read api_key(key_id); }
    args {
        key_hash: &'a str,
        tenant: &'a str,
        /// '' for none.
        permission: &'a str,
    }
    replies { unauthorized, forbidden, authenticated: Authenticated }
    writes "Nothing."
}

signature! {
    /// Reads fields of one reservation.
    GET: Get -> GetReply = "runtime/get", flags "no-writes,allow-oom";
    names { partition: Partition, key_id: &'a str, reservation_id: &'a str }
    keys of partition { read api_key(key_id), reservation(reservation_id); }
    args {
        key_hash: &'a str,
        /// Empty for the admin key.
        tenant: &'a str,
        names: &'a [&'a str],
    }
    replies {
        unauthorized, forbidden, not_found, foreign, scope_forbidden,
        found: Found { now_ms: i64, fields: Fields },
    }
    writes "Nothing."
}

signature! {
    /// Reads up to a number of a tenant's reservations in the order of indexes, from a position on.
    ///
    /// Rows of one score come in ascending order of id whatever the direction. complete: no row is left in any index. The
    /// fields of a row are an empty array where the key holds no hash.
    LIST: List -> ListReply = "runtime/list", flags "no-writes,allow-oom";
    names { partition: Partition, key_id: &'a str }
    keys of partition { read api_key(key_id), tenant_key: tenant(tenant); }
    each { read indexes: reservations | due }
    builds { read reservation }
    args {
        /// Empty for the admin key.
        key_hash: &'a str,
        tenant: &'a str,
        reservation_prefix = reservation_prefix(),
        /// asc or desc.
        direction: &'a str,
        /// At most.
        rows: usize,
        /// Lowest score.
        low: i64,
        /// Highest score.
        high: i64,
        /// In the first index, of the score where the walk starts, the rows up to this id were seen.
        after_id: Option<&'a str>,
        names: &'a [&'a str],
    }
    replies {
        unauthorized, forbidden,
        listed: Listed {
            now_ms: i64, scope_filter: ScopeFilter, longest_life_ms: Option<i64>, complete: bool,
            index_id_score_fields: Vec<((i64, String, i64), Fields)>,
        },
    }
    writes "Nothing."
}

signature! {
    /// Reads fields of reservations of one partition: of as many as a number of bytes allows, but of one at least. The fields
    /// of a row are an empty array where the key holds no hash.
    ROWS: ReadRows -> RowsReply = "runtime/rows", flags "no-writes,allow-oom";
    names { partition: Partition }
    keys of partition {}
    each { read reservations: reservation }
    args {
        bytes: i64,
        names: &'a [&'a str],
    }
    replies { rows: Rows { now_ms: i64, fields: Vec<Fields> } }
    writes "Nothing."
}

/// An index of a tenant's reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationIndex {
    /// The reservations of one day, by creation.
    Created(crate::store::Day),
    /// The active reservations, by due time (expiry and grace).
    Due,
}

/// Some of a tenant's reservations: what lies in indexes, from a position on.
#[derive(Debug)]
pub struct ReservationRange<'a> {
    /// Whose reservations.
    pub tenant: &'a TenantId,
    /// In walking order.
    pub indexes: &'a [ReservationIndex],
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

/// What was found in a range.
#[derive(Debug)]
pub struct ListedReservations {
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
    pub rows: Vec<ListedReservation>,
}

/// One reservation of a range.
#[derive(Debug)]
pub struct ListedReservation {
    /// Place of the index in [`ReservationRange::indexes`].
    pub index: usize,
    /// Which reservation.
    pub reservation_id: String,
    /// Its place in the index, in milliseconds.
    pub score: i64,
    /// The fields that were asked for: empty when it has just been purged, `None` where its key holds no hash.
    pub record: Option<Record>,
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

    /// Some of a tenant's reservations, in the order of their indexes.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn list_reservations(
        &self,
        caller: &Caller,
        range: &ReservationRange<'_>,
    ) -> Result<ListedReservations, OperationError> {
        let (partition, tenant) = (range.tenant.partition(), range.tenant.as_str());
        let reader = Reader::from(caller);
        let keys = self.keys().of(partition);
        let index = |index: &ReservationIndex| match index {
            ReservationIndex::Created(day) => keys.reservations(tenant, *day),
            ReservationIndex::Due => keys.due(tenant),
        };
        let call = List {
            partition,
            key_id: reader.key_id(),
            indexes: range.indexes.iter().map(index).collect(),
            key_hash: reader.key_hash(),
            tenant,
            direction: if range.descending { "desc" } else { "asc" },
            rows: range.rows,
            low: range.scores.0,
            high: range.scores.1,
            after_id: range.after_id,
            names: range.fields,
        };
        let found = self.run_about(Lane::Background, Target::Caller, &call);
        let ListReply::Listed {
            now_ms,
            scope_filter,
            longest_life_ms,
            complete,
            index_id_score_fields: rows,
        } = found.await?;
        let row = |((index, reservation_id, score), fields): (_, Fields)| ListedReservation {
            index: usize::try_from(index - 1_i64).unwrap_or(0),
            reservation_id,
            score,
            record: fields_of(range.fields, fields.0),
        };
        Ok(ListedReservations {
            now_ms,
            scope_filter,
            longest_life_ms,
            complete,
            rows: rows.into_iter().map(row).collect(),
        })
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
        let keys = self.keys().of(partition);
        let call = ReadRows {
            partition,
            reservations: reservation_ids
                .iter()
                .map(|id| keys.reservation(id))
                .collect(),
            bytes,
            names,
        };
        let RowsReply::Rows { now_ms, fields } = self.outcome_on(Lane::Background, &call).await?;
        let records = fields.into_iter().map(|fields| fields_of(names, fields.0));
        Ok((now_ms, records.collect()))
    }
}
