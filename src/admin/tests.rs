//! Every word with which a script of the admin plane may refuse is known to the target of its calls.

use super::api_keys::KeyTarget;
use super::budgets::BudgetTarget;
use super::policies::PolicyTarget;
use super::webhooks::WebhookTarget;
use crate::domain::amount::Unit;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::policy::PolicyId;
use crate::domain::refusal::BudgetName;
use crate::domain::scope::BudgetScope;
use crate::domain::webhook::SubscriptionId;
use crate::signatures::SIGNATURES;
use crate::store::StoreError;
use crate::store::signature::{Refused, Signature};
use crate::store::target::{Creation, Target};

/// The refusal for a word of a script; `None` for a script whose words the store keeps to itself.
fn error(signature: &Signature, refused: Refused) -> Option<StoreError> {
    let tenant = TenantId::parse("acme").expect("an id");
    let scope = BudgetScope::parse("tenant:acme").expect("a scope");
    let budget = BudgetTarget {
        increase_id: Some("inc".to_owned()),
        tenant: tenant.clone(),
        budget: BudgetName {
            scope: scope.path().clone(),
            unit: Unit::Tokens,
        },
        requested: Some(1),
    };
    let policy = PolicyTarget {
        tenant: &tenant,
        policy_id: PolicyId::mint(tenant.partition()),
        name: Some("fair use"),
    };
    let key = KeyTarget {
        key_id: KeyId::parse("key_05f_abcdefghij12").expect("an id"),
        tenant: tenant.clone(),
    };
    let webhook = WebhookTarget {
        id: SubscriptionId::mint(tenant.partition()),
        tenant: Some(tenant.clone()),
    };
    let target: &dyn Target = match signature.script.path().strip_prefix("admin/")? {
        "audit_failure" | "get_event" => return None,
        name if name.starts_with("bulk_actions/") || name.starts_with("tenants/close_") => {
            return None;
        }
        "admin_access" | "api_keys/introspect" | "policies/list_policies" => &tenant,
        "budgets/create_budget" => &Creation::new(true, &budget),
        "policies/create_policy" => &Creation::new(true, &policy),
        "api_keys/create_api_key" => &Creation::new(true, &key),
        name => match name.split_once('/') {
            Some(("tenants", _)) => &tenant,
            Some(("budgets", _)) => &budget,
            Some(("policies", _)) => &policy,
            Some(("api_keys", _)) => &key,
            Some(("webhooks", _)) => &webhook,
            _ => panic!("no target is known for {name}"),
        },
    };
    Some(target.error(refused, signature))
}

#[test]
fn every_word_of_a_script_is_a_refusal_of_its_target() {
    let mut known = 0;
    for signature in SIGNATURES {
        for refused in Refused::samples(signature) {
            // Such a call is repeated, or the request that it is for.
            if matches!(
                refused,
                Refused::Clock { .. } | Refused::TurnFirst { .. } | Refused::Stale { .. }
            ) {
                continue;
            }
            let (script, word) = (signature.script.path(), refused.word());
            let Some(error) = error(signature, refused) else {
                continue;
            };
            assert!(
                !matches!(error, StoreError::Reply { .. }),
                "{script}: {word}"
            );
            known += 1;
        }
    }
    assert!(known > 100, "{known} words were tried");
}
