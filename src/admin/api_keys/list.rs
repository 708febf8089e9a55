//! Lists of API keys, of one tenant or of all. The order of creation has an index; any other order sorts all matches.

use crate::admin::{Admin, records};
use crate::domain::api_key::ApiKey;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::search::Search;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, Position, STEP_ROWS, SortValue, Step, Walk, gather, orders,
    page_along,
};
use crate::store::admin::api_key_lists::ApiKeyEntry;
use crate::store::{Store, StoreError};

orders! {
    /// Sorts of the list of API keys.
    ApiKeySort of key: ApiKey {
        rows: "API keys", advice: "narrow the list by tenant_id, status or search, or sort by created_at",
        id: key.key_id, default: CreatedAt
    }
    /// The id.
    KeyId = "key_id": SortValue::Absent,
    /// The name; keys without one come last.
    Name = "name": key.name.as_deref(),
    /// The owner.
    TenantId = "tenant_id": key.tenant_id.as_str(),
    /// The status, as the clock has it.
    Status = "status": key.status.as_str(),
    /// The time of creation; the order that has an index.
    CreatedAt = "created_at": key.created_at.as_ms(),
    /// The time at which it expires.
    ExpiresAt = "expires_at": key.expires_at.as_ms(),
}

/// Conditions that a listed API key meets, all of them.
#[derive(Debug, Clone, Default)]
pub struct ApiKeyFilter {
    /// Of this tenant; as it was sent, perhaps not even an id.
    pub tenant_id: Option<String>,
    /// Of this status, as the clock has it.
    pub status: Option<ApiKeyStatus>,
    /// A part of the id or name.
    pub search: Option<Search>,
}

impl ApiKeyFilter {
    fn matches(&self, key: &ApiKey) -> bool {
        let texts = [Some(key.key_id.as_str()), key.name.as_deref()];
        let found = |search: &Search| search.finds_any(texts.into_iter().flatten());
        self.status.is_none_or(|status| key.status == status)
            && self.search.as_ref().is_none_or(found)
    }
}

/// A request for a page of API keys.
pub type ApiKeyQuery = ListQuery<ApiKeyFilter, ApiKeySort>;

impl Admin {
    /// A page of one tenant's keys, or of all. A tenant that does not exist has none.
    ///
    /// # Errors
    /// [`crate::domain::refusal::TooManyToSort`] for an order that has no index.
    pub async fn list_api_keys(
        &self,
        query: &ApiKeyQuery,
    ) -> Result<Page<ApiKey, ApiKeySort>, StoreError> {
        let (filter, bounds) = (&query.filter, Bounds::default());
        let tenant = match filter.tenant_id.as_deref().map(TenantId::parse) {
            Some(None) => return Ok(query.empty_page()),
            tenant => tenant.flatten(),
        };
        let mut walk = KeyWalk {
            store: &self.store,
            filter,
            tenant,
            descending: false,
            last: None,
            rows: STEP_ROWS,
            now_ms: None,
        };
        if query.sort.by != ApiKeySort::CreatedAt {
            return self
                .store
                .serve_gathering(gather(&mut walk, query, bounds))
                .await;
        }
        let is_filtered = filter.status.is_some() || filter.search.is_some();
        walk.descending = query.sort.descending;
        walk.last = query.after.as_ref().and_then(entry_at);
        walk.rows = query.first_step(is_filtered, STEP_ROWS);
        page_along(&mut walk, query, ApiKeySort::CreatedAt, bounds).await
    }
}

/// The entry at a position of the index.
fn entry_at(position: &Position) -> Option<ApiKeyEntry> {
    Some(ApiKeyEntry {
        created_at_ms: position.number()?,
        key_id: position.id.clone(),
    })
}

/// A walk along an index by creation.
struct KeyWalk<'a> {
    store: &'a Store,
    filter: &'a ApiKeyFilter,
    /// The one owner; `None`: all keys.
    tenant: Option<TenantId>,
    descending: bool,
    /// The last entry that was looked at.
    last: Option<ApiKeyEntry>,
    /// Entries of the next step.
    rows: usize,
    /// The clock by which all keys of the walk are judged, in milliseconds.
    now_ms: Option<i64>,
}

impl KeyWalk<'_> {
    /// The next entries, at least one unless the index ends, and whether it ends.
    async fn entries(&mut self) -> Result<(Vec<ApiKeyEntry>, bool), StoreError> {
        let mut rows = std::mem::replace(&mut self.rows, STEP_ROWS);
        loop {
            let from_ms = self.last.as_ref().map(|last| last.created_at_ms);
            let tenant = self.tenant.as_ref();
            let found = self
                .store
                .api_key_entries(tenant, from_ms, self.descending, rows);
            let found = found.await?;
            self.now_ms.get_or_insert(found.now_ms);
            let complete = found.entries.len() < rows;
            let mut entries = found.entries;
            entries.retain(|entry| self.is_behind_last(entry));
            if complete || !entries.is_empty() {
                return Ok((entries, complete));
            }
            // As many were created within one millisecond.
            rows *= 2;
        }
    }

    fn is_behind_last(&self, entry: &ApiKeyEntry) -> bool {
        self.last.as_ref().is_none_or(|last| match self.descending {
            true => entry < last,
            false => entry > last,
        })
    }
}

impl Walk for KeyWalk<'_> {
    type Row = ApiKey;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<ApiKey>, StoreError> {
        let (entries, complete) = self.entries().await?;
        let names: Vec<&str> = entries.iter().map(|entry| entry.key_id.as_str()).collect();
        let ids = records::ids(&names, KeyId::parse);
        let found = self.store.api_key_records(&ids).await?;
        let now_ms = self.now_ms.unwrap_or_default();
        let read = |id: &KeyId, record: &Record| ApiKey::judged(id, record, now_ms);
        let keys = records::rows("API key", &names, &ids, found, read);
        self.last = entries.last().cloned().or(self.last.take());
        let entries = entries.into_iter().zip(keys).map(|(entry, key)| Entry {
            position: Position::new(entry.created_at_ms, entry.key_id),
            row: key.filter(|key| self.filter.matches(key)),
        });
        Ok(Step::new(entries.collect(), complete))
    }
}
