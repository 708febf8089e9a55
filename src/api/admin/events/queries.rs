//! Query strings of the operations on events.

use crate::admin::events::EventQuery;
use crate::admin::log_walk::Place;
use crate::api::cursor::{Cursor, CursorError};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey};
use crate::domain::event::query::{EventFilter, EventSort};
use crate::domain::event::types::{EventCategory, EventType, is_tenant_visible};
use crate::domain::ids::{DeploymentSecret, TenantId};
use crate::domain::moment::{Moment, Window};

impl SortKey for EventSort {
    const DEFAULT: Self = Self::Timestamp;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which events an operator asks for.
#[derive(Debug)]
pub struct EventListQuery {
    filter: EventFilter,
    limit: usize,
    order: OrderQuery<EventSort>,
}

impl EventListQuery {
    const LIST: &'static str = "events";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let search = query.text("search", query::SEARCH_CHARS_MAX)?;
        let filter = EventFilter {
            tenant: query.get("tenant_id")?.map(str::to_owned),
            // The set of types is open: one that is not known is in no list.
            event_type: query.parsed(
                "event_type",
                |text| is_type(text).then(|| text.to_owned()),
                "it must be a category and an action, such as budget.funded",
            )?,
            category: query.word("category", EventCategory::parse, EventCategory::WORDS)?,
            scope: query.get("scope")?.map(str::to_owned),
            correlation_id: query.get("correlation_id")?.map(str::to_owned),
            trace_id: query.parsed(
                "trace_id",
                is_trace,
                "it must have 32 lower-case hexadecimal digits",
            )?,
            request_id: query.get("request_id")?.map(str::to_owned),
            window: window(&query)?,
            search: search.map(|text| text.trim().to_lowercase()),
            tenants_alone: false,
        };
        Ok(Self {
            filter,
            limit: query::event_page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// The tenant whose events are asked for.
    pub fn tenant(&self) -> Option<TenantId> {
        self.filter.tenant.as_deref().and_then(TenantId::parse)
    }

    /// What is asked for, and its order.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(
        &self,
        secret: &DeploymentSecret,
    ) -> Result<(EventQuery, Sort<EventSort>), ApiError> {
        let bound = bound(&self.filter);
        let start = self.order.start(Self::LIST, &bound, secret)?;
        let query = EventQuery {
            filter: self.filter.clone(),
            sort: start.sort.by,
            descending: start.sort.descending,
            after: start.after.map(place),
            limit: self.limit,
        };
        Ok((query, start.sort))
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(
        &self,
        sort: Sort<EventSort>,
        place: Place,
        secret: &DeploymentSecret,
    ) -> String {
        sort.cursor_after(last(place), Self::LIST, &bound(&self.filter), secret)
    }
}

/// Which of its events a tenant asks for.
#[derive(Debug)]
pub struct TenantEventsQuery {
    filter: EventFilter,
    limit: usize,
    cursor: Option<String>,
}

impl TenantEventsQuery {
    const LIST: &'static str = "tenant events";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter, also for what tenants may not see.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let is_visible = |category: &EventCategory| category.is_tenant_visible();
        let words = EventCategory::ALL.iter().copied().filter(is_visible);
        let words: Vec<_> = words.map(EventCategory::as_str).collect();
        let read_category = |text: &str| EventCategory::parse(text).filter(is_visible);
        let read_type = |text: &str| {
            let category = text.split('.').next().unwrap_or_default();
            let known = EventType::parse(text).is_some() && is_tenant_visible(text, category);
            known.then(|| text.to_owned())
        };
        let filter = EventFilter {
            event_type: query.parsed(
                "event_type",
                read_type,
                "it must be one of the types that tenants may see: those of budget, reservation and tenant",
            )?,
            category: query.word("category", read_category, &words)?,
            scope: query.get("scope")?.map(str::to_owned),
            correlation_id: query.get("correlation_id")?.map(str::to_owned),
            window: window(&query)?,
            tenants_alone: true,
            ..EventFilter::default()
        };
        Ok(Self {
            filter,
            limit: query::event_page_limit(&query)?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// What is asked for, latest first.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query and tenant.
    pub fn asked(
        &self,
        tenant: &TenantId,
        secret: &DeploymentSecret,
    ) -> Result<EventQuery, ApiError> {
        let filter = self.of(tenant);
        let after = match &self.cursor {
            None => None,
            Some(text) => {
                let cursor = Cursor::open(text, Self::LIST, &bound(&filter), secret)?;
                if EventSort::parse(&cursor.sort) != Some(EventSort::Timestamp) {
                    return Err(CursorError::Unreadable.into());
                }
                Some(place(cursor.last))
            }
        };
        Ok(EventQuery {
            filter,
            sort: EventSort::Timestamp,
            descending: true,
            after,
            limit: self.limit,
        })
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(
        &self,
        tenant: &TenantId,
        place: Place,
        secret: &DeploymentSecret,
    ) -> String {
        let cursor = Cursor {
            sort: EventSort::Timestamp.as_str().to_owned(),
            descending: true,
            last: last(place),
        };
        cursor.seal(Self::LIST, &bound(&self.of(tenant)), secret)
    }

    fn of(&self, tenant: &TenantId) -> EventFilter {
        EventFilter {
            tenant: Some(tenant.to_string()),
            ..self.filter.clone()
        }
    }
}

/// A trace id: 32 lower-case hexadecimal digits.
pub(in crate::api::admin) fn is_trace(text: &str) -> Option<String> {
    let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 32 && text.bytes().all(hex)).then(|| text.to_owned())
}

/// `category.action`, lower case.
fn is_type(text: &str) -> bool {
    let charset =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    let parts = text.split_once('.');
    text.bytes().all(charset)
        && parts.is_some_and(|(category, action)| !category.is_empty() && !action.is_empty())
}

/// Both bounds; from after to is an empty page here, not a mistake.
pub(in crate::api::admin) fn window(query: &Query<'_>) -> Result<Window, ApiError> {
    let moment = |name: &str| {
        // The `+` of an offset that was not escaped arrives as a blank.
        let read = |text: &str| Moment::parse(&text.trim().replace(' ', "+")).map(Moment::as_ms);
        let wanted = "it must be a date and time such as 2026-07-04T12:00:00Z";
        query.parsed(name, read, wanted)
    };
    Ok(Window {
        from_ms: moment("from")?,
        to_ms: moment("to")?,
    })
}

fn place(last: Last) -> Place {
    Place {
        value: last.value,
        id: last.id,
    }
}

fn last(place: Place) -> Last {
    Last {
        value: place.value,
        id: place.id,
    }
}

/// All that selects rows.
fn bound(filter: &EventFilter) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ms = |ms: Option<i64>| ms.map(|ms| ms.to_string()).unwrap_or_default();
    let category = filter.category.map_or("", EventCategory::as_str);
    vec![
        ("tenant_id", text(&filter.tenant)),
        ("event_type", text(&filter.event_type)),
        ("category", category.to_owned()),
        ("scope", text(&filter.scope)),
        ("correlation_id", text(&filter.correlation_id)),
        ("trace_id", text(&filter.trace_id)),
        ("request_id", text(&filter.request_id)),
        ("from", ms(filter.window.from_ms)),
        ("to", ms(filter.window.to_ms)),
        ("search", text(&filter.search)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(query: &str) -> String {
        EventListQuery::parse(query).expect_err(query).message()
    }

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        for (query, part) in [
            (
                "event_type=funded",
                "'event_type': funded; it must be a category and an action",
            ),
            ("event_type=budget.", "'event_type': budget."),
            ("event_type=Budget.Funded", "'event_type': Budget.Funded"),
            (
                "category=custom",
                "'category': custom; allowed: budget, tenant, api_key",
            ),
            ("trace_id=0123", "'trace_id': 0123; it must have 32"),
            ("trace_id=0123456789ABCDEF0123456789ABCDEF", "'trace_id'"),
            (
                "from=yesterday",
                "'from': yesterday; it must be a date and time",
            ),
            ("to=1790000000000", "'to': 1790000000000"),
            (
                "sort_by=age",
                "'sort_by': age; allowed: event_type, category, scope, tenant_id, timestamp",
            ),
            ("sort_dir=up", "'sort_dir': up; allowed: asc, desc"),
            ("limit=0", "'limit': 0; it must be an integer from 1 to 100"),
            ("limit=101", "'limit': 101"),
            ("limit=ten", "'limit': ten"),
            (
                "tenant_id=a&tenant_id=b",
                "'tenant_id': given more than once",
            ),
        ] {
            let message = refusal(query);
            assert!(message.contains(part), "{query}: {message}");
        }
        assert!(refusal(&format!("search={}", "é".repeat(129))).contains("'search'"));
    }

    #[test]
    fn open_types_blank_texts_and_unknown_parameters_are_accepted() {
        for query in [
            "event_type=custom.a.b-c_1",
            "event_type=moon.landed",
            "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            "trace_id=00000000000000000000000000000000",
            "limit=100&surprise=1&sort_by=TIMESTAMP&sort_dir=ASC",
            &format!("search={}", "é".repeat(128)),
        ] {
            assert!(EventListQuery::parse(query).is_ok(), "{query}");
        }
        let blank = format!("search={}&scope=&cursor=&limit=", "%20".repeat(200));
        let parsed = EventListQuery::parse(&blank).expect("blank");
        assert!(parsed.filter.search.is_none() && parsed.filter.scope.is_none());
        assert_eq!(parsed.limit, 50);
    }

    #[test]
    fn tenants_may_ask_for_what_they_may_see() {
        for query in [
            "event_type=budget.funded",
            "category=reservation",
            "trace_id=x&sort_by=x&search=x",
        ] {
            assert!(TenantEventsQuery::parse(query).is_ok(), "{query}");
        }
        for query in [
            "event_type=api_key.created",
            "event_type=webhook.created",
            "event_type=custom.x",
            "event_type=budget.of_a_later_release",
            "category=system",
            "category=policy",
            "category=moon",
            "limit=101",
        ] {
            assert!(TenantEventsQuery::parse(query).is_err(), "{query}");
        }
    }
}
