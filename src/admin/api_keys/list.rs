//! Lists of API keys, of one tenant or of all. The order of creation has an index; any other order sorts all matches.

use crate::admin::{Admin, records};
use crate::domain::api_key::ApiKey;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError};
use crate::domain::search::Search;
use crate::listing::{Bounds, ListQuery, Page, Position, SortValue, Step, StepRange, Walk, orders};
use crate::store::{Store, StoreError};

orders! {
    /// Sorts of the list of API keys.
    ApiKeySort of key: ApiKey {
        rows: "API keys", advice: "narrow the list by tenant_id, status or search, or sort by created_at",
        id: key.key_id, default: CreatedAt, indexed: [CreatedAt]
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
        let filter = &query.filter;
        let tenant = match filter.tenant_id.as_deref().map(TenantId::parse) {
            Some(None) => return Ok(query.empty_page()),
            tenant => tenant.flatten(),
        };
        let mut walk = KeyWalk {
            store: &self.store,
            filter,
            tenant,
            now_ms: None,
        };
        records::page(&self.store, &mut walk, query, Bounds::default()).await
    }
}

/// A walk along an index by creation. The position of an entry is the time, in milliseconds, and the id.
struct KeyWalk<'a> {
    store: &'a Store,
    filter: &'a ApiKeyFilter,
    /// The one owner; `None`: all keys.
    tenant: Option<TenantId>,
    /// The clock by which all keys of the walk are judged, in milliseconds.
    now_ms: Option<i64>,
}

impl Walk for KeyWalk<'_> {
    type Row = ApiKey;
    type Error = StoreError;

    fn is_filtered(&self) -> bool {
        self.filter.status.is_some() || self.filter.search.is_some()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<ApiKey>, StoreError> {
        let (store, filter, mut rows) = (self.store, self.filter, range.rows);
        let after = range
            .after
            .and_then(|it| Some((it.number()?, it.id.as_str())));
        let (entries, complete) = loop {
            let (tenant, from_ms) = (self.tenant.as_ref(), after.map(|(at_ms, _)| at_ms));
            let found = store.api_key_entries(tenant, from_ms, range.descending, rows);
            let (now_ms, mut entries) = found.await?;
            self.now_ms.get_or_insert(now_ms);
            let complete = entries.len() < rows;
            entries.retain(|(at_ms, id)| match (after, range.descending) {
                (None, _) => true,
                (Some(after), true) => (*at_ms, id.as_str()) < after,
                (Some(after), false) => (*at_ms, id.as_str()) > after,
            });
            if complete || !entries.is_empty() {
                break (entries, complete);
            }
            // As many were created within one millisecond.
            rows *= 2;
        };
        let entries = entries.into_iter();
        let entries = entries
            .map(|(at_ms, id)| Position::new(at_ms, id))
            .collect();
        let now_ms = self.now_ms.unwrap_or_default();
        let key = |entry: &Position| {
            let id = KeyId::parse(&entry.id)?;
            Some(store.keys().api_key(id.partition(), id.as_str()))
        };
        let read = |entry: &Position, record: &Record| {
            let id = KeyId::parse(&entry.id).ok_or_else(|| RecordError::of("key_id"))?;
            ApiKey::judged(&id, record, now_ms)
        };
        let fields = ApiKey::field_names();
        let step = records::step(store, "API key", (entries, complete), (key, &fields), read);
        Ok(step.await?.filter(|key| filter.matches(key)))
    }
}
