//! Lists of API keys: of one tenant, or of all.

use std::cmp::Ordering;

use tracing::error;

use crate::admin::{Admin, AdminError};
use crate::domain::api_key::ApiKey;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::refusal::TooManyToSort;
use crate::domain::words::words;
use crate::store::admin::api_key_lists::KeyEntry;
use crate::store::{Store, StoreError};

/// Entries of an index that are read at once where not all of them are shown.
const STEP_ROWS: usize = 500;
/// Entries that one page in the order of creation looks at; with a sparse filter it may be short, and its cursor goes on.
const PAGE_ROWS_MAX: usize = 5_000;
/// Matches that any other sort gathers, and entries that it looks at for them.
const SORT_MATCHES_MAX: usize = 10_000;
const SORT_ROWS_MAX: usize = 50_000;

words! {
    /// What a list of API keys can be sorted by.
    ApiKeySort {
        /// The id.
        KeyId = "key_id",
        /// The name.
        Name = "name",
        /// The owner.
        TenantId = "tenant_id",
        /// The status, as the clock has it.
        Status = "status",
        /// When it was made; the one order that has an index.
        CreatedAt = "created_at",
        /// When it ends.
        ExpiresAt = "expires_at",
    }
}

impl ApiKeySort {
    /// The text by which rows are compared; times with all their digits, absent names after all others.
    fn value(self, key: &ApiKey) -> String {
        let time = |ms: i64| format!("{:019}", ms.max(0));
        match self {
            Self::KeyId => key.key_id.to_string(),
            Self::Name => match &key.name {
                Some(name) => format!("0{name}"),
                None => "1".to_owned(),
            },
            Self::TenantId => key.tenant_id.to_string(),
            Self::Status => key.status.as_str().to_owned(),
            Self::CreatedAt => time(key.created_at.as_ms()),
            Self::ExpiresAt => time(key.expires_at.as_ms()),
        }
    }
}

/// A row's place in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKeyPlace {
    /// Its value of what the list is sorted by.
    pub value: String,
    /// Its id.
    pub id: String,
}

/// API keys that are asked for.
#[derive(Debug, Clone)]
pub struct ApiKeyQuery {
    /// Of this tenant; as it was sent, perhaps not even an id.
    pub tenant_id: Option<String>,
    /// Of this status, as the clock has it.
    pub status: Option<ApiKeyStatus>,
    /// Whose id or name contains this, whatever the case.
    pub search: Option<String>,
    /// The order. Equal values stand by id, in the same direction.
    pub sort: ApiKeySort,
    /// Largest first.
    pub descending: bool,
    /// Where the last page ended.
    pub after: Option<ApiKeyPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of API keys.
#[derive(Debug, Default)]
pub struct ApiKeyPage {
    /// In order.
    pub keys: Vec<ApiKey>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<ApiKeyPlace>,
}

impl Admin {
    /// A page of one tenant's keys, or of all. A tenant that does not exist has none.
    ///
    /// # Errors
    /// [`crate::domain::refusal::admin::AdminRefusal::TooManyToSort`] for a sort that has no index.
    pub async fn list_api_keys(&self, query: &ApiKeyQuery) -> Result<ApiKeyPage, AdminError> {
        let tenant = match query.tenant_id.as_deref() {
            None => None,
            Some(text) => match TenantId::parse(text) {
                Some(tenant) => Some(tenant),
                None => return Ok(ApiKeyPage::default()),
            },
        };
        match query.sort {
            ApiKeySort::CreatedAt => self.keys_by_creation(tenant, query).await,
            _ => self.keys_sorted(tenant, query).await,
        }
    }

    /// Along the index.
    async fn keys_by_creation(
        &self,
        tenant: Option<TenantId>,
        query: &ApiKeyQuery,
    ) -> Result<ApiKeyPage, AdminError> {
        let after = query.after.as_ref().and_then(|place| {
            let created_at_ms = place.value.parse().ok()?;
            let key_id = place.id.clone();
            Some(KeyEntry {
                created_at_ms,
                key_id,
            })
        });
        let sparse = query.status.is_some() || query.search.is_some();
        // A step that ends a page shows whether there is another.
        let rows = if sparse { STEP_ROWS } else { query.limit + 1 };
        let mut walk = Walk::new(&self.store, tenant, query.descending, after);
        let (mut page, mut last, mut examined) = (ApiKeyPage::default(), None, 0);
        loop {
            let step = walk.step(rows).await?;
            for (entry, key) in step.keys {
                if !query.matches(&key) {
                    continue;
                }
                if page.keys.len() == query.limit {
                    page.next = last.as_ref().map(place);
                    return Ok(page);
                }
                page.keys.push(key);
                last = Some(entry);
            }
            examined += step.examined;
            if step.complete {
                return Ok(page);
            }
            if examined >= PAGE_ROWS_MAX {
                page.next = walk.last.as_ref().map(place);
                return Ok(page);
            }
        }
    }

    /// From all that match, of which no more than a page is kept.
    async fn keys_sorted(
        &self,
        tenant: Option<TenantId>,
        query: &ApiKeyQuery,
    ) -> Result<ApiKeyPage, AdminError> {
        let mut walk = Walk::new(&self.store, tenant, false, None);
        let (mut rows, mut matches, mut examined) = (Vec::new(), 0, 0);
        loop {
            let step = walk.step(STEP_ROWS).await?;
            let found = step.keys.into_iter().map(|(_, key)| key);
            for key in found.filter(|key| query.matches(key)) {
                matches += 1;
                let place = ApiKeyPlace {
                    value: query.sort.value(&key),
                    id: key.key_id.to_string(),
                };
                let behind = |after| query.order(&place, after) == Ordering::Greater;
                if query.after.as_ref().is_none_or(behind) {
                    rows.push((place, key));
                }
            }
            rows.sort_by(|(a, _), (b, _)| query.order(a, b));
            rows.truncate(query.limit + 1);
            examined += step.examined;
            if matches > SORT_MATCHES_MAX || (examined >= SORT_ROWS_MAX && !step.complete) {
                let bound = SORT_MATCHES_MAX;
                return Err(too_many(bound).into());
            }
            if step.complete {
                break;
            }
        }
        let more = rows.len() > query.limit;
        rows.truncate(query.limit);
        Ok(ApiKeyPage {
            next: rows.last().filter(|_| more).map(|(place, _)| place.clone()),
            keys: rows.into_iter().map(|(_, key)| key).collect(),
        })
    }
}

fn too_many(bound: usize) -> TooManyToSort {
    TooManyToSort {
        rows: "API keys",
        bound,
        advice: "narrow the list by tenant_id, status or search, or sort by created_at",
    }
}

impl ApiKeyQuery {
    fn matches(&self, key: &ApiKey) -> bool {
        let search = self.search.as_ref().map(|search| search.to_lowercase());
        let found = |text: &str, search: &str| text.to_lowercase().contains(search);
        self.status.is_none_or(|status| key.status == status)
            && search.is_none_or(|search| {
                found(key.key_id.as_str(), &search)
                    || key.name.as_ref().is_some_and(|name| found(name, &search))
            })
    }

    fn order(&self, a: &ApiKeyPlace, b: &ApiKeyPlace) -> Ordering {
        match self.descending {
            true => b.cmp(a),
            false => a.cmp(b),
        }
    }
}

fn place(entry: &KeyEntry) -> ApiKeyPlace {
    ApiKeyPlace {
        value: entry.created_at_ms.to_string(),
        id: entry.key_id.clone(),
    }
}

/// A walk along an index by creation.
struct Walk<'s> {
    store: &'s Store,
    tenant: Option<TenantId>,
    descending: bool,
    /// The last entry that was looked at.
    last: Option<KeyEntry>,
    /// The clock by which all rows of the walk are judged.
    now_ms: Option<i64>,
}

/// What one step came to.
struct Step {
    /// The records among the entries, in order.
    keys: Vec<(KeyEntry, ApiKey)>,
    /// Entries that were looked at.
    examined: usize,
    /// Whether the index ends here.
    complete: bool,
}

impl<'s> Walk<'s> {
    fn new(
        store: &'s Store,
        tenant: Option<TenantId>,
        descending: bool,
        last: Option<KeyEntry>,
    ) -> Self {
        Self {
            store,
            tenant,
            descending,
            last,
            now_ms: None,
        }
    }

    /// Looks at about so many entries beyond the last one.
    async fn step(&mut self, rows: usize) -> Result<Step, StoreError> {
        let mut rows = rows;
        let (entries, complete) = loop {
            let from_ms = self.last.as_ref().map(|last| last.created_at_ms);
            let found = self
                .store
                .api_key_entries(self.tenant.as_ref(), from_ms, self.descending, rows)
                .await?;
            self.now_ms.get_or_insert(found.now_ms);
            let complete = found.entries.len() < rows;
            let mut entries = found.entries;
            entries.retain(|entry| self.is_behind_last(entry));
            if complete || !entries.is_empty() {
                break (entries, complete);
            }
            // As many were created within one millisecond.
            rows *= 2;
        };
        let examined = entries.len();
        if let Some(last) = entries.last() {
            self.last = Some(last.clone());
        }
        let named = entries
            .into_iter()
            .filter_map(|entry| Some((KeyId::parse(&entry.key_id)?, entry)));
        let (ids, entries): (Vec<KeyId>, Vec<KeyEntry>) = named.unzip();
        let now_ms = self.now_ms.unwrap_or_default();
        let mut keys = Vec::with_capacity(ids.len());
        let records = self.store.api_key_records(&ids).await?;
        for ((id, entry), record) in ids.iter().zip(entries).zip(records) {
            let key = record.map_err(AdminError::from).and_then(|record| {
                // The directory has learnt of it, and the record is not yet written.
                let written = (!record.is_empty()).then_some(record);
                let key = written.map(|record| ApiKey::from_record(id, &record, now_ms));
                Ok(key.transpose()?)
            });
            match key {
                Ok(key) => keys.extend(key.map(|key| (entry, key))),
                // One damaged record must not take the whole list away.
                Err(damage) => error!(
                    key.id = %id, error = %damage,
                    "the API key `{id}` is left out of lists: {damage}"
                ),
            }
        }
        Ok(Step {
            keys,
            examined,
            complete,
        })
    }

    fn is_behind_last(&self, entry: &KeyEntry) -> bool {
        self.last.as_ref().is_none_or(|last| match self.descending {
            true => entry < last,
            false => entry > last,
        })
    }
}
