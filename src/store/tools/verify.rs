//! `ledgers.lua`, `records.lua` and `registered.lua`: what a verification of the ledgers reads.

use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError};
use crate::driver::reply::Nested;
use crate::store::signature::{Fields, signature};
use crate::store::{Day, Lane, Store, StoreError, outcome};

signature! {
    /// Reads ledgers of one partition at one moment of the store's clock.
    ///
    /// The fields of a ledger: status allocated spent reserved debt remaining base_spent base_debt is_over_limit over_limit_by
    /// turns_at_ms terms limits observes epoch, and its scores in the index of those over their limit or in debt, for its debt and for
    /// being over its limit, and in that of those that turn. An empty array where the key holds no hash.
    LEDGERS: ReadLedgers -> LedgersReply = "tools/ledgers", flags "no-writes,allow-oom";
    names { tenant: &'a TenantId }
    keys of partition of tenant { read over_limit_or_in_debt(), turns(); }
    each { read budgets: budget }
    args {
        /// How the index names each ledger: tenant, unit and scope.
        names: &'a [String],
    }
    replies { ledgers: Ledgers { now_ms: i64, fields: Vec<Fields> } }
    writes "Nothing."
}

signature! {
    /// Reads records of one tenant at one moment, each with its place in the indexes of what is due.
    ///
    /// A row: due time, expiry in the index of other graces, time of quarantine, and the fields status tenant unit estimate scope_path budgeted charged created_at_ms
    /// finalized_at_ms expired_at_ms expires_at_ms grace_ms debt.1 … debt.6 refunds; only the first three where the key holds no hash.
    RECORDS: ReadRecords -> RecordsReply = "tools/records", flags "no-writes,allow-oom";
    keys of partition of tenant { read due(tenant), other_graces(tenant), due_tenants(), quarantine(); }
    builds { read reservation, usage_event }
    args {
        tenant: &'a TenantId,
        /// Of reservations or of usage events.
        record_prefix: &'a str,
        ids: &'a [String],
    }
    replies {
        records: Records {
            now_ms: i64, first_due_ms: Option<i64>, tenant_due_ms: Option<i64>,
            rows: Vec<Nested<((Option<i64>, Option<i64>, Option<i64>), Vec<Option<String>>)>>,
        },
    }
    writes "Nothing."
}

signature! {
    /// Finds the days of a tenant that have records and that retention does not know.
    REGISTERED: FindUnregistered -> RegisteredReply = "tools/registered", flags "no-writes,allow-oom";
    names { tenant: &'a TenantId }
    keys of partition of tenant { read days(); }
    each { read indexes: reservations | usage_events }
    args {
        /// Of days, one for each two keys.
        members: &'a [String],
    }
    replies { registered: Registered { missing: Vec<String> } }
    writes "Nothing."
}

/// Ledgers or records that one call reads at most.
pub const READ_ROWS: usize = 100;

/// Deepest budgeted scope of a record.
pub const DEPTHS: usize = 6;

/// The fields of a ledger and its scores, in the order of `ledgers.lua`.
const LEDGER_FIELDS: [&str; 18] = [
    "status",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "remaining",
    "base_spent",
    "base_debt",
    "is_over_limit",
    "over_limit_by",
    "turns_at_ms",
    "terms",
    "limits",
    "observes",
    "epoch",
    "score for its debt",
    "score for being over its limit",
    "score of its turn",
];

/// The fields of a record, in the order of `records.lua`.
const RECORD_FIELDS: [&str; 19] = [
    "status",
    "tenant",
    "unit",
    "estimate",
    "scope_path",
    "budgeted",
    "charged",
    "created_at_ms",
    "finalized_at_ms",
    "expired_at_ms",
    "expires_at_ms",
    "grace_ms",
    "debt.1",
    "debt.2",
    "debt.3",
    "debt.4",
    "debt.5",
    "debt.6",
    "refunds",
];

/// The figures of a ledger that records change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Amounts {
    /// Held amount.
    pub reserved: i64,
    /// Spent amount.
    pub spent: i64,
    /// Debt.
    pub debt: i64,
}

/// A ledger as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Allocated amount.
    pub allocated: i64,
    /// Remaining amount.
    pub remaining: i64,
    /// The sums of its records and the base.
    pub stored: Amounts,
    /// What purged records changed, modulo 2^64. They hold nothing.
    pub base: Amounts,
    /// Whether it is over its limit.
    pub is_over_limit: bool,
    /// The reservation or usage event that took it over its limit.
    pub over_limit_by: Option<String>,
    /// Whether the index of ledgers over their limit or in debt has it right; see `lua/lib/ledger/over_limit_or_in_debt.lua`.
    pub is_indexed: bool,
    /// Whether the index of ledgers that turn has it exactly if it turns by itself.
    pub is_turn_indexed: bool,
}

/// Ledgers at one moment of the store's clock.
#[derive(Debug)]
pub struct Ledgers {
    /// When they stood so, in milliseconds.
    pub now_ms: i64,
    /// In the order of the keys; the reason where a ledger is absent or corrupt.
    pub rows: Vec<Result<Figures, String>>,
}

/// A record and its place in the indexes, at one moment.
#[derive(Debug)]
pub struct StoredRecord {
    /// The record.
    pub id: String,
    /// When the index of due reservations has it, in milliseconds.
    pub due_ms: Option<i64>,
    /// When the index of other graces has it expire, in milliseconds.
    pub other_grace_ms: Option<i64>,
    /// Since when it is in quarantine, in milliseconds.
    pub quarantined_ms: Option<i64>,
    /// The fields of [`RECORD_FIELDS`] that it has; `None` where the key holds no hash.
    pub fields: Option<Record>,
}

/// Records of a tenant at one moment.
#[derive(Debug)]
pub struct RecordPage {
    /// The tenant's first due time, in milliseconds.
    pub first_due_ms: Option<i64>,
    /// The tenant's due time in the partition's index, in milliseconds.
    pub tenant_due_ms: Option<i64>,
    /// In the order of the ids.
    pub rows: Vec<StoredRecord>,
}

impl StoredRecord {
    /// A field, if the record has it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.as_ref()?.get(name)
    }
}

impl Store {
    /// Reads at most [`READ_ROWS`] ledgers of one tenant, by scope and unit, at one moment.
    pub async fn read_ledgers(
        &self,
        tenant: &TenantId,
        ledgers: &[(String, Unit)],
    ) -> Result<Ledgers, StoreError> {
        let (keys, name) = (self.keys().of(tenant.partition()), tenant.as_str());
        let key = |(scope, unit): &(String, Unit)| keys.budget(name, unit.as_str(), scope);
        let named = |(scope, unit): &(String, Unit)| format!("{name} {unit} {scope}");
        let names: Vec<_> = ledgers.iter().map(named).collect();
        let call = ReadLedgers {
            tenant,
            budgets: ledgers.iter().map(key).collect(),
            names: &names,
        };
        let LedgersReply::Ledgers { now_ms, fields } =
            outcome(self.run(Lane::Background, &call).await)?;
        let rows = fields.into_iter().map(|fields| figures(fields.0));
        Ok(Ledgers {
            now_ms,
            rows: rows.collect(),
        })
    }

    /// Reads at most [`READ_ROWS`] records of a tenant whose keys start with `prefix`, at one moment.
    pub async fn read_records(
        &self,
        tenant: &TenantId,
        prefix: &str,
        ids: &[String],
    ) -> Result<RecordPage, StoreError> {
        let call = ReadRecords {
            tenant,
            record_prefix: prefix,
            ids,
        };
        let RecordsReply::Records {
            first_due_ms,
            tenant_due_ms,
            rows,
            ..
        } = outcome(self.run(Lane::Background, &call).await)?;
        let rows = ids.iter().zip(rows).map(|(id, Nested((times, fields)))| {
            let (due_ms, other_grace_ms, quarantined_ms) = times;
            StoredRecord {
                id: id.clone(),
                due_ms,
                other_grace_ms,
                quarantined_ms,
                fields: (!fields.is_empty()).then(|| Record::from_fields(&RECORD_FIELDS, fields)),
            }
        });
        Ok(RecordPage {
            first_due_ms,
            tenant_due_ms,
            rows: rows.collect(),
        })
    }

    /// Those of a tenant's days that have records, but that the partition's registry does not have.
    pub async fn unregistered_days(
        &self,
        tenant: &TenantId,
        days: &[Day],
    ) -> Result<Vec<String>, StoreError> {
        let (keys, name) = (self.keys().of(tenant.partition()), tenant.as_str());
        let mut found = Vec::new();
        for days in days.chunks(READ_ROWS) {
            let of_day = |day: &Day| [keys.reservations(name, *day), keys.usage_events(name, *day)];
            let members: Vec<_> = days.iter().map(|day| format!("{name}:{day}")).collect();
            let call = FindUnregistered {
                tenant,
                indexes: days.iter().flat_map(of_day).collect(),
                members: &members,
            };
            let RegisteredReply::Registered { missing } =
                outcome(self.run(Lane::Background, &call).await)?;
            found.extend(missing);
        }
        Ok(found)
    }
}

fn figures(fields: Vec<Option<String>>) -> Result<Figures, String> {
    if fields.is_empty() {
        return Err("it is corrupt: the key holds no hash".to_owned());
    }
    if fields.iter().take(9).all(Option::is_none) {
        return Err("it is in the index, but does not exist".to_owned());
    }
    let ledger = Record::from_fields(&LEDGER_FIELDS, fields);
    let score = |name: &str| ledger.get(name)?.parse::<f64>().ok();
    // Older ledgers have no base: absent is 0.
    let base = |name: &str| Ok(ledger.optional(name)?.unwrap_or(0));
    let is_over_limit = ledger.get("is_over_limit") == Some("1");
    let is_set = |name: &&str| ledger.get(name).is_some_and(|text| !text.is_empty());
    let mut terms = ["turns_at_ms", "limits", "observes"].iter();
    let begun_anew = ledger.get("epoch").is_some_and(|epoch| epoch != "0");
    if ledger.get("terms") == Some("") && (begun_anew || terms.any(is_set)) {
        return Err("it is corrupt: `terms` is empty, so its terms do not apply".to_owned());
    }
    let read = || {
        let debt = ledger.integer("debt")?;
        let for_debt = (debt > 0).then_some(debt as f64);
        let turns = ledger.optional::<i64>("turns_at_ms").ok().flatten() > Some(0);
        let for_limit = is_over_limit.then_some(-(debt as f64) - 1.0);
        Ok::<_, RecordError>(Figures {
            allocated: ledger.integer("allocated")?,
            remaining: ledger.integer("remaining")?,
            stored: Amounts {
                reserved: ledger.integer("reserved")?,
                spent: ledger.integer("spent")?,
                debt,
            },
            base: Amounts {
                reserved: 0,
                spent: base("base_spent")?,
                debt: base("base_debt")?,
            },
            is_over_limit,
            over_limit_by: ledger.get("over_limit_by").map(str::to_owned),
            is_indexed: score("score for its debt") == for_debt
                && score("score for being over its limit") == for_limit,
            is_turn_indexed: ledger.get("status") == Some("CLOSED")
                || score("score of its turn").is_some() == turns,
        })
    };
    read().map_err(|error| format!("it is corrupt: {error}"))
}
