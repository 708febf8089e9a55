//! Bulk actions: one action on many rows, and the outcome of each.

mod outcome;

use super::amount::Amount;
use super::ids::TenantId;
use super::record::{Record, RecordError};
use super::tenant::TenantStatus;
use super::words::words;
use crate::domain::budget::ledger::FundingOperation;
pub use outcome::{BulkActionRowOutcome, BulkResult, Outcome};

/// Rows that one action has at most.
pub const ROWS_MAX: usize = 500;

words! {
    /// Bulk actions on tenants.
    TenantAction: "SCREAMING_SNAKE_CASE" {
        /// Their keys change nothing any more.
        Suspend,
        /// That ends.
        Reactivate,
        /// They end, with all that they own.
        Close,
    }
}

words! {
    /// Bulk actions on webhook subscriptions.
    WebhookAction: "SCREAMING_SNAKE_CASE" {
        /// They get nothing until they are resumed.
        Pause,
        /// Paused subscriptions get events again.
        Resume,
        /// They are removed.
        Delete,
    }
}

impl TenantAction {
    /// The status that a tenant has afterwards.
    pub fn status(self) -> TenantStatus {
        match self {
            Self::Suspend => TenantStatus::Suspended,
            Self::Reactivate => TenantStatus::Active,
            Self::Close => TenantStatus::Closed,
        }
    }
}

/// A funding operation for many ledgers of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkFunding {
    /// Tenant of the ledgers.
    pub tenant: TenantId,
    /// The action.
    pub operation: FundingOperation,
    /// By how much; ledgers that count something else fail. `None` for RENEW.
    pub amount: Option<Amount>,
    /// The value that RESET_SPENT sets; `None`: not given, so 0.
    pub spent: Option<i64>,
    /// Emitted with the events.
    pub reason: Option<String>,
}

/// The action on each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkAction {
    /// To tenants.
    Tenants(TenantAction),
    /// To webhook subscriptions.
    Webhooks(WebhookAction),
    /// To ledgers.
    Budgets(BulkFunding),
}

impl BulkAction {
    /// The word of the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Tenants(action) => action.as_str(),
            Self::Webhooks(action) => action.as_str(),
            Self::Budgets(funding) => funding.operation.as_str(),
        }
    }

    /// The operation's name.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Tenants(_) => "bulkActionTenants",
            Self::Webhooks(_) => "bulkActionWebhooks",
            Self::Budgets(_) => "bulkActionBudgets",
        }
    }

    /// The kind of the rows.
    pub fn resource(&self) -> &'static str {
        match self {
            Self::Tenants(_) => "tenant",
            Self::Webhooks(_) => "webhook",
            Self::Budgets(_) => "budget",
        }
    }

    /// Names and values of a claim's record.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("resource", self.resource().to_owned()),
            ("action", self.as_str().to_owned()),
        ];
        if let Self::Budgets(funding) = self {
            fields.push(("funded_tenant", funding.tenant.to_string()));
            if let Some(amount) = funding.amount {
                fields.push(("unit", amount.unit().to_string()));
                fields.push(("amount", amount.value().to_string()));
            }
            fields.extend(funding.spent.map(|spent| ("spent", spent.to_string())));
            fields.extend(funding.reason.clone().map(|reason| ("reason", reason)));
        }
        fields
    }

    fn from_record(record: &Record) -> Result<Self, RecordError> {
        match record.text("resource")? {
            "tenant" => record.read("action").map(Self::Tenants),
            "webhook" => record.read("action").map(Self::Webhooks),
            "budget" => Ok(Self::Budgets(BulkFunding {
                tenant: record.read("funded_tenant")?,
                operation: record.read("action")?,
                amount: record.optional("amount")?,
                spent: record.optional("spent")?,
                reason: record.get("reason").map(str::to_owned),
            })),
            _ => Err(RecordError::of("resource")),
        }
    }
}

/// A bulk action as its claim stores it: all that is needed to resume it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    /// The action.
    pub action: BulkAction,
    /// Lines of the cause, see [`super::cause::Cause::lines`].
    pub cause: String,
    /// The filter that selected the rows, as JSON.
    pub filter: String,
    /// As the client sent it.
    pub idempotency_key: String,
    /// Owner of the audit log with its entry: a tenant or a sentinel.
    pub audit_tenant: String,
    /// The word for a row that is gone.
    pub gone_row: String,
    /// How many different thresholds the active subscriptions of an owner may watch.
    pub thresholds_max: i64,
    /// The frozen rows, in order.
    pub rows: Vec<Row>,
}

impl Bulk {
    /// Names and values of the claim's record.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let rows: Vec<String> = self.rows.iter().map(Row::stored).collect();
        let mut fields = self.action.fields();
        fields.extend([
            ("cause", self.cause.clone()),
            ("filter", self.filter.clone()),
            ("idempotency_key", self.idempotency_key.clone()),
            ("audit_tenant", self.audit_tenant.clone()),
            ("gone_row", self.gone_row.clone()),
            ("thresholds_max", self.thresholds_max.to_string()),
            ("rows", rows.join("\n")),
        ]);
        fields
    }

    /// Reads the record.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        let text = |name: &str| record.text(name).map(str::to_owned);
        let rows = record.text("rows")?.lines().map(Row::from_stored).collect();
        Ok(Self {
            action: BulkAction::from_record(record)?,
            cause: text("cause")?,
            filter: text("filter")?,
            idempotency_key: text("idempotency_key")?,
            audit_tenant: text("audit_tenant")?,
            gone_row: text("gone_row")?,
            thresholds_max: record.integer("thresholds_max")?,
            rows,
        })
    }

    /// A value of the cause.
    pub fn cause_value(&self, name: &str) -> Option<&str> {
        let lines = self.cause.lines().filter_map(|line| line.split_once(' '));
        lines
            .filter(|(found, _)| *found == name)
            .map(|(_, value)| value)
            .next()
    }

    fn request_id(&self) -> &str {
        self.cause_value("request_id").unwrap_or_default()
    }

    /// The correlation id of all its events, except those of a tenant's close.
    pub fn correlation_id(&self) -> String {
        let (resource, action) = (self.action.resource(), self.action.as_str());
        let action = action.to_ascii_lowercase();
        format!("{resource}_bulk_action:{action}:{}", self.request_id())
    }

    /// The correlation id of the events of a tenant's close.
    pub fn close_correlation_id(&self, tenant: &TenantId) -> String {
        format!("tenant_close_cascade:{tenant}:{}", self.request_id())
    }
}

/// A row that was chosen: its id, and where to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// As the answer names it.
    pub id: String,
    /// Of a ledger its unit and scope, with a blank between; of a subscription its owner; of a tenant nothing.
    pub place: String,
}

impl Row {
    /// A tenant.
    pub fn tenant(tenant: &TenantId) -> Self {
        Self {
            id: tenant.to_string(),
            place: String::new(),
        }
    }

    fn stored(&self) -> String {
        format!("{} {}", self.id, self.place)
    }

    fn from_stored(line: &str) -> Self {
        let (id, place) = line.split_once(' ').unwrap_or((line, ""));
        Self {
            id: id.to_owned(),
            place: place.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::amount::Unit;

    fn bulk(action: BulkAction) -> Bulk {
        Bulk {
            action,
            cause: "source service-admin\nactor admin\nrequest_id req_1\ntrace_id t".to_owned(),
            filter: r#"{"search":"x"}"#.to_owned(),
            idempotency_key: "a key\nof two lines".to_owned(),
            audit_tenant: "__admin__".to_owned(),
            gone_row: "GONE".to_owned(),
            thresholds_max: 64,
            rows: vec![
                Row {
                    id: "l1".to_owned(),
                    place: "TOKENS tenant:acme".to_owned(),
                },
                Row {
                    id: "l2".to_owned(),
                    place: String::new(),
                },
            ],
        }
    }

    #[test]
    fn a_claim_reads_back_as_it_was_written() {
        let funding = BulkFunding {
            tenant: TenantId::parse("acme").expect("an id"),
            operation: FundingOperation::ResetSpent,
            amount: Amount::new(Unit::Tokens, i64::MAX),
            spent: Some(0),
            reason: Some("a\nb".to_owned()),
        };
        for action in [
            BulkAction::Tenants(TenantAction::Close),
            BulkAction::Webhooks(WebhookAction::Resume),
            BulkAction::Budgets(funding),
        ] {
            let bulk = bulk(action);
            let record = bulk.fields().into_iter().collect();
            assert_eq!(Bulk::from_record(&record).as_ref(), Ok(&bulk));
        }
        let mut empty = bulk(BulkAction::Tenants(TenantAction::Close));
        empty.rows.clear();
        let record = empty.fields().into_iter().collect();
        assert_eq!(Bulk::from_record(&record).as_ref(), Ok(&empty));
    }

    #[test]
    fn correlation_ids_are_per_action_and_request() {
        let close = bulk(BulkAction::Tenants(TenantAction::Close));
        assert_eq!(close.correlation_id(), "tenant_bulk_action:close:req_1");
        let acme = TenantId::parse("acme").expect("an id");
        assert_eq!(
            close.close_correlation_id(&acme),
            "tenant_close_cascade:acme:req_1"
        );
        let pause = bulk(BulkAction::Webhooks(WebhookAction::Pause));
        assert_eq!(pause.correlation_id(), "webhook_bulk_action:pause:req_1");
    }
}
