//! Query strings of the operations on webhook subscriptions.

use crate::admin::webhooks::{
    DeliveryPlace, DeliveryQuery, WebhookPlace, WebhookQuery, WebhookSort,
};
use crate::api::cursor::{Cursor, CursorError};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey};
use crate::domain::caller::Caller;
use crate::domain::event::types::EventTypeName;
use crate::domain::ids::{DeploymentSecret, TenantId};
use crate::domain::moment::{Moment, Window};
use crate::domain::printable::printable;
use crate::domain::webhook::{DeliveryStatus, Owner, WebhookStatus};

/// Whose subscription is to be made.
#[derive(Debug)]
pub struct OwnerQuery {
    /// A tenant, or the operator.
    pub owner: Owner,
}

impl OwnerQuery {
    /// Reads the query string. A tenant that cannot exist is not found, but a blank one is a mistake: not the same as none.
    ///
    /// # Errors
    /// 400 for a blank tenant, 404 for one that cannot exist.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let named = url::form_urlencoded::parse(query.as_bytes());
        let blank = named
            .filter(|(name, _)| name == "tenant_id")
            .any(|(_, value)| value.trim().is_empty());
        if blank {
            let message = "Invalid value for parameter 'tenant_id': it must not be blank; leave it out for a webhook of \
                           the operator";
            return Err(ApiError::invalid(message));
        }
        let query = Query::parse_admin(query);
        let owner = match query.get("tenant_id")? {
            None | Some("system" | Owner::SYSTEM) => Owner::System,
            Some(tenant) => {
                let tenant_id = TenantId::parse(tenant).map(Owner::Tenant);
                let message = || format!("There is no tenant {}", printable(tenant));
                tenant_id.ok_or_else(|| {
                    let status = axum::http::StatusCode::NOT_FOUND;
                    ApiError::new(status, crate::api::errors::Code::TenantNotFound, message())
                })?
            }
        };
        Ok(Self { owner })
    }
}

impl SortKey for WebhookSort {
    const DEFAULT: Self = Self::ConsecutiveFailures;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which subscriptions an operator asks for.
#[derive(Debug)]
pub struct WebhookListQuery {
    tenant_id: Option<String>,
    status: Option<WebhookStatus>,
    event_type: Option<String>,
    search: Option<String>,
    limit: usize,
    order: OrderQuery<WebhookSort>,
}

impl WebhookListQuery {
    const LIST: &'static str = "webhooks";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let known = |text: &str| EventTypeName::parse(text).map(|_| text.to_owned());
        Ok(Self {
            tenant_id: query.get("tenant_id")?.map(str::to_owned),
            status: query.word("status", WebhookStatus::parse, WebhookStatus::WORDS)?,
            // The set of types is open: one that is not known is in no list.
            event_type: query
                .get("event_type")?
                .map(|text| known(text).unwrap_or_else(|| text.to_owned())),
            search: query
                .text("search", query::SEARCH_CHARS_MAX)?
                .map(|text| text.trim().to_owned()),
            limit: query::admin_page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// What is asked for, and its order.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(
        &self,
        secret: &DeploymentSecret,
    ) -> Result<(WebhookQuery, Sort<WebhookSort>), ApiError> {
        let start = self.order.start(Self::LIST, &self.bound(), secret)?;
        let owner = self.tenant_id.as_ref().map(|tenant| match tenant.as_str() {
            "system" => Some(Owner::System),
            tenant => Owner::parse(tenant),
        });
        let none = matches!(owner, Some(None));
        let query = WebhookQuery {
            owner: owner.flatten(),
            status: self.status,
            // No type reads like this, so a tenant that cannot exist has nothing.
            event_type: if none {
                Some(String::new())
            } else {
                self.event_type.clone()
            },
            search: self.search.clone(),
            sort: start.sort.by,
            descending: start.sort.descending,
            after: start.after.map(|last| WebhookPlace {
                value: last.value,
                id: last.id,
            }),
            limit: self.limit,
        };
        Ok((query, start.sort))
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(
        &self,
        sort: Sort<WebhookSort>,
        place: WebhookPlace,
        secret: &DeploymentSecret,
    ) -> String {
        let last = Last {
            value: place.value,
            id: place.id,
        };
        sort.cursor_after(last, Self::LIST, &self.bound(), secret)
    }

    fn bound(&self) -> Vec<(&'static str, String)> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let status = self.status.map_or("", WebhookStatus::as_str);
        vec![
            ("tenant_id", text(&self.tenant_id)),
            ("status", status.to_owned()),
            ("event_type", text(&self.event_type)),
            ("search", text(&self.search)),
        ]
    }
}

/// Which subscriptions of one tenant are asked for.
#[derive(Debug)]
pub struct TenantWebhooksQuery {
    /// Whose.
    pub tenant: String,
    /// Of which status.
    pub status: Option<WebhookStatus>,
    /// Rows on a page.
    pub limit: usize,
    cursor: Option<String>,
}

impl TenantWebhooksQuery {
    const LIST: &'static str = "tenant webhooks";

    /// Reads the query string. The admin names a tenant; a tenant's key names its own by itself.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str, caller: &Caller) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let tenant = match caller {
            Caller::Admin(_) => query.required("tenant")?.to_owned(),
            Caller::Tenant(caller) => {
                if query.get("tenant")?.is_some() {
                    let message = "Invalid value for parameter 'tenant': it must be absent with an API key, which names \
                                   its tenant itself";
                    return Err(ApiError::invalid(message));
                }
                caller.tenant.to_string()
            }
        };
        Ok(Self {
            tenant,
            status: query.word("status", WebhookStatus::parse, WebhookStatus::WORDS)?,
            limit: query::admin_page_limit(&query)?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// The id after which the page starts.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn after(&self, secret: &DeploymentSecret) -> Result<Option<String>, ApiError> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        let cursor = Cursor::open(text, Self::LIST, &self.bound(), secret)?;
        Ok(Some(cursor.last.id))
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(&self, place: WebhookPlace, secret: &DeploymentSecret) -> String {
        let cursor = Cursor {
            sort: "subscription_id".to_owned(),
            descending: false,
            last: Last {
                value: place.value,
                id: place.id,
            },
        };
        cursor.seal(Self::LIST, &self.bound(), secret)
    }

    fn bound(&self) -> Vec<(&'static str, String)> {
        let status = self.status.map_or("", WebhookStatus::as_str);
        vec![
            ("tenant", self.tenant.clone()),
            ("status", status.to_owned()),
        ]
    }
}

/// Which deliveries are asked for.
#[derive(Debug)]
pub struct DeliveryListQuery {
    status: Option<DeliveryStatus>,
    window: Window,
    limit: usize,
    cursor: Option<String>,
}

impl DeliveryListQuery {
    const LIST: &'static str = "deliveries";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let moment = |name: &str| {
            // The `+` of an offset that was not escaped arrives as a blank.
            let read = |text: &str| Moment::parse(&text.trim().replace(' ', "+"));
            let wanted = "it must be a date and time such as 2026-07-04T12:00:00Z";
            query.parsed(name, read, wanted)
        };
        Ok(Self {
            status: query.word("status", DeliveryStatus::parse, DeliveryStatus::WORDS)?,
            // From after to is an empty page here, not a mistake.
            window: Window {
                from_ms: moment("from")?.map(Moment::as_ms),
                to_ms: moment("to")?.map(Moment::as_ms),
            },
            limit: query::admin_page_limit(&query)?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// What is asked for.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(&self, id: &str, secret: &DeploymentSecret) -> Result<DeliveryQuery, ApiError> {
        let after = match &self.cursor {
            None => None,
            Some(text) => {
                let cursor = Cursor::open(text, Self::LIST, &self.bound(id), secret)?;
                let at_ms = cursor.last.value.parse();
                Some(DeliveryPlace {
                    at_ms: at_ms.map_err(|_| CursorError::Unreadable)?,
                    id: cursor.last.id,
                })
            }
        };
        Ok(DeliveryQuery {
            status: self.status,
            window: self.window,
            after,
            limit: self.limit,
        })
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(&self, id: &str, place: DeliveryPlace, secret: &DeploymentSecret) -> String {
        let cursor = Cursor {
            sort: "attempted_at".to_owned(),
            descending: true,
            last: Last {
                value: place.at_ms.to_string(),
                id: place.id,
            },
        };
        cursor.seal(Self::LIST, &self.bound(id), secret)
    }

    fn bound(&self, id: &str) -> Vec<(&'static str, String)> {
        let ms = |ms: Option<i64>| ms.map(|ms| ms.to_string()).unwrap_or_default();
        let status = self.status.map_or("", DeliveryStatus::as_str);
        vec![
            ("subscription_id", id.to_owned()),
            ("status", status.to_owned()),
            ("from", ms(self.window.from_ms)),
            ("to", ms(self.window.to_ms)),
        ]
    }
}
