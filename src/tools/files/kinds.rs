//! The kinds of objects that a file describes, one row each.

use serde_json::{Value, json};

use crate::api::operations::OperationId;
use crate::domain::api_key::ApiKeyCreateRequest;
use crate::domain::budget::ledger::BudgetCreateRequest;
use crate::domain::fields::{Problems, Read};
use crate::domain::json::{Json, Place};
use crate::domain::policy::{OveragePolicy, PolicyCreateRequest};
use crate::domain::tenant::TenantCreateRequest;
use crate::domain::webhook::WebhookCreateRequest;

/// A kind of object. Its members are those of the request that creates one, which are read as the API reads them.
pub(super) struct Kind {
    pub word: &'static str,
    /// The list of a tenant that has them.
    pub list: &'static str,
    /// What identifies one within its tenant: all of these members of a budget, else the first that it has.
    pub identity: &'static str,
    /// Its id, if requests name it by one.
    pub id: &'static str,
    pub create: OperationId,
    pub read: OperationId,
    pub update: OperationId,
    pub check: fn(Json, Place<'_>) -> Result<(), Problems>,
    /// The status of one that is out of use; `REVOKED` is for good.
    pub off: &'static str,
    /// What `--prune` does with one that the file does not list.
    pub prune: &'static str,
    /// Which requests take idempotency keys. A create does, if its response shows no secret and the name is never free again; an
    /// update, if a list shows when the object was changed, so that the same change at another time is another request.
    pub keyed: &'static str,
    /// Members that no file has: they belong to the tenant, are secret, or no response shows them.
    pub without: &'static str,
    /// Members that the service chooses where a file does not have them.
    pub chosen: &'static str,
    /// Defaults that no schema states.
    pub defaults: fn() -> Value,
    /// Steps of a lower order come first: a budget exists before a template makes it, and before a key charges it.
    pub order: usize,
}

macro_rules! kinds {
    ($($name:ident $word:literal $list:literal identity $identity:literal id $id:literal
        $create:ident $read:ident $update:ident $request:ident
        off $off:literal $prune:literal keyed $keyed:literal without $without:literal chosen $chosen:literal
        defaults $defaults:tt order $order:literal;)+) => {
        $(pub(super) static $name: Kind = Kind {
            word: $word, list: $list, identity: $identity, id: $id, off: $off, prune: $prune, keyed: $keyed,
            create: OperationId::$create, read: OperationId::$read, update: OperationId::$update,
            check: |json, place| $request::read_whole(json, place, Problems::default()).map(drop),
            without: $without, chosen: $chosen, defaults: || json!($defaults), order: $order,
        };)+
    };
}

kinds! {
    TENANT "tenant" "tenants" identity "tenant_id" id "tenant_id"
        CreateTenant GetTenant UpdateTenant TenantCreateRequest
        off "SUSPENDED" "" keyed "create update" without "" chosen ""
        defaults {"default_commit_overage_policy": OveragePolicy::DEFAULT} order 0;
    BUDGET "budget" "budgets" identity "scope unit" id ""
        CreateBudget ListBudgets UpdateBudget BudgetCreateRequest
        off "FROZEN" "- freeze" keyed "create update" without "tenant_id metadata period_start period_end" chosen ""
        defaults {"overdraft_limit": 0} order 1;
    POLICY "policy" "policies" identity "name" id "policy_id"
        CreatePolicy ListPolicies UpdatePolicy PolicyCreateRequest
        off "DISABLED" "- disable" keyed "update" without "tenant_id" chosen "" defaults {} order 100;
    WEBHOOK "webhook" "webhooks" identity "name url" id "subscription_id"
        CreateWebhookSubscription ListWebhookSubscriptions UpdateWebhookSubscription WebhookCreateRequest
        off "PAUSED" "- pause" keyed "update" without "signing_secret headers" chosen ""
        defaults {"retry_policy": {}} order 200;
    KEY "key" "keys" identity "name" id "key_id"
        CreateApiKey ListApiKeys UpdateApiKey ApiKeyCreateRequest
        off "REVOKED" "- revoke" keyed "" without "tenant_id" chosen "permissions expires_at" defaults {} order 300;
}

/// What a tenant owns.
pub(super) static OWNED: [&Kind; 4] = [&BUDGET, &POLICY, &WEBHOOK, &KEY];

/// Whether `name` is one of some words.
pub(super) fn is_among(words: &str, name: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

impl Kind {
    pub fn is_budget(&self) -> bool {
        self.word == BUDGET.word
    }

    /// What identifies an object of this kind within its tenant.
    pub fn name(&self, members: &Value) -> String {
        let parts = self.identity.split(' ');
        let mut parts = parts.filter_map(|name| members[name].as_str());
        match self.is_budget() {
            true => parts.collect::<Vec<_>>().join(" "),
            false => parts.next().unwrap_or_default().to_owned(),
        }
    }
}
