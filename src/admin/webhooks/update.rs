//! Changes a subscription: reads it, computes the result, and writes it if nobody has changed it meanwhile.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use super::{LoadedSubscription, ReadResult, Webhooks, joined};
use crate::admin::{Change, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::event::types::EventTypeName;
use crate::domain::fields::Patch;
use crate::domain::record::{FieldChange, Record, Written as _};
use crate::domain::refusal::WebhookRefusal;
use crate::domain::webhook::{
    DISABLE_AFTER_FAILURES, HEADER_MASK, RetryPolicy, SettableStatus, Subscription, WebhookStatus,
    WebhookUpdateRequest, check_selectors,
};
use crate::store::StoreError;
use crate::store::admin::Pairs;
use crate::store::admin::webhooks::{UpdateWebhook, UpdateWebhookReply, idempotency_scope};
use crate::store::signature::Counted;
use crate::store::target::Target as _;

/// How often a change is computed anew because others were faster.
const ATTEMPTS: usize = 8;

/// The result of a change.
struct Plan {
    next: Subscription,
    changed: Vec<&'static str>,
    dropped: Vec<&'static str>,
    fields: Pairs,
}

impl Webhooks {
    /// Changes a subscription and returns it.
    ///
    /// # Errors
    /// Refusals, in this order: the key; no such subscription; the owner closed or suspended; selectors that the owner may
    /// not have; the address; nothing selected; pausing what is disabled.
    pub async fn update(
        &self,
        caller: &Caller,
        id: &str,
        patch: &WebhookUpdateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<Subscription, StoreError> {
        let id = self.parse_id(caller, id, "webhooks:write").await?;
        let mut admitted = false;
        let subscribes = match &patch.scope_filter {
            Patch::Keep => None,
            Patch::Clear => Some("=".to_owned()),
            Patch::Set(filter) => Some(format!("={filter}")),
        };
        let subscribes = subscribes.as_deref();
        let change = Change::new(request, operation, ("webhook", id.as_str()), Some(200));
        for _ in 0..ATTEMPTS {
            let read = self.read(caller, &id, "webhooks:write", subscribes, Some(&change));
            let loaded = match read.await? {
                ReadResult::Found(loaded) => loaded,
                // The word and what each partition was sent come before the record.
                ReadResult::Replayed(outcome) => {
                    let record = Record::from_pairs(outcome.into_iter().skip(3).collect());
                    return Ok(Subscription::from_record(&record)?);
                }
            };
            let updated =
                self.update_loaded(caller, &loaded, patch, &mut admitted, (operation, request));
            if let Some(updated) = loaded.target().about(updated.await)? {
                return Ok(updated);
            }
        }
        refuse(WebhookRefusal::Contended(id.to_string()))
    }

    /// Changes a subscription as it was read; `None` if it has been changed since.
    async fn update_loaded(
        &self,
        caller: &Caller,
        loaded: &LoadedSubscription,
        patch: &WebhookUpdateRequest,
        admitted: &mut bool,
        (operation, request): (&'static str, &Request<'_>),
    ) -> Result<Option<Subscription>, StoreError> {
        let plan = self.plan(loaded, patch, admitted).await?;
        let subscription = &loaded.subscription;
        let (id, owner) = (&subscription.subscription_id, &subscription.owner);
        let mut change = Change::new(request, operation, ("webhook", id.as_str()), Some(200));
        let types = patch.event_types.as_ref();
        let types = types.map(|types| joined(types.iter().map(EventTypeName::as_str)));
        change.add("metadata.url", Some(&plan.next.url));
        change.add("metadata.name", patch.name.value());
        change.add("metadata.new_url", patch.url.as_ref());
        change.add("metadata.event_types", types);
        change.add("metadata.new_status", patch.status);
        let watched = match plan.next.status {
            WebhookStatus::Active => plan.next.watched(),
            _ => String::new(),
        };
        let call = UpdateWebhook {
            caller: caller.into(),
            idempotency_scope: idempotency_scope(caller, id),
            change: &change,
            owner,
            subscription_id: id,
            version: subscription.version,
            status: subscription.status.as_str(),
            scope_filter: plan.next.scope_filter.as_deref(),
            watched: &watched,
            thresholds_max: self.limits.thresholds,
            event_type: event_type(subscription.status, &plan),
            changed_fields: &joined(plan.changed.iter().copied()),
            dropped: &joined(plan.dropped.iter().copied()),
            fields: Counted(&plan.fields),
        };
        let target = loaded.target();
        match target.run(&self.store, &call).await? {
            UpdateWebhookReply::Updated { watched, record } => {
                self.copy_thresholds(watched).await;
                Ok(Some(Subscription::from_record(&record.0)?))
            }
            UpdateWebhookReply::Stale => Ok(None),
        }
    }

    async fn plan(
        &self,
        loaded: &LoadedSubscription,
        patch: &WebhookUpdateRequest,
        admitted: &mut bool,
    ) -> Result<Plan, StoreError> {
        loaded.check_owner()?;
        let present = &loaded.subscription;
        let next = patched(present, patch);
        // That nothing is selected is said after a refusal of the address.
        let selectors =
            match check_selectors(&next.owner, &next.event_types, &next.event_categories) {
                Err(hidden @ WebhookRefusal::HiddenSelector(_)) => return refuse(hidden),
                selectors => selectors,
            };
        if let Some(url) = patch.url.as_ref().filter(|_| !*admitted) {
            let policy = self.policy().await?;
            self.check_url(url, &next.owner, &policy).await?;
            *admitted = true;
        }
        selectors?;
        if present.status == WebhookStatus::Disabled && next.status == WebhookStatus::Paused {
            return refuse(WebhookRefusal::PauseOfDisabled);
        }
        let mut plan = Plan {
            changed: Vec::new(),
            dropped: Vec::new(),
            fields: Pairs::new(),
            next,
        };
        plan.compare(present);
        self.plan_secrets(loaded, patch, &mut plan)?;
        plan.fields.push(("watched", plan.next.watched()));
        if patch.status.is_some() {
            let status = plan.next.status.as_str().to_owned();
            plan.fields.push(("status", status));
        }
        if patch.status == Some(SettableStatus::Active) {
            plan.fields.push(("consecutive_failures", "0".to_owned()));
        }
        Ok(plan)
    }

    /// A new secret counts as a change whatever it is; headers are compared by what they say. What was sealed under an older
    /// key is sealed under the first on this occasion.
    fn plan_secrets(
        &self,
        loaded: &LoadedSubscription,
        patch: &WebhookUpdateRequest,
        plan: &mut Plan,
    ) -> Result<(), StoreError> {
        let id = &loaded.subscription.subscription_id;
        let stored = self.open_secrets(id.as_str(), &loaded.record);
        let stale = |field: &str| {
            let stored = loaded.record.get(field);
            stored.is_some_and(|stored| !self.keys.is_current(stored))
        };
        let secret = match (&patch.signing_secret, &stored) {
            (None, Ok(stored)) if stale("signing_secret") => Some(&stored.signing_secret),
            (secret, _) => secret.as_ref(),
        };
        if patch.signing_secret.is_some() {
            plan.changed.push("signing_secret");
        }
        let sealed = secret.map(|secret| ("signing_secret", self.seal_secret(id, secret)));
        plan.fields.extend(sealed);
        let sent = match (&patch.headers, &stored) {
            (Patch::Keep, Ok(stored)) if stale("headers") => {
                plan.fields.extend(self.seal_headers(id, &stored.headers));
                return Ok(());
            }
            (Patch::Keep, _) => return Ok(()),
            (Patch::Clear, _) => &BTreeMap::new(),
            (Patch::Set(headers), _) => headers,
        };
        let is_masked = |value: &SecretString| value.expose_secret() == HEADER_MASK;
        let before = match stored {
            Ok(stored) => Some(stored.headers),
            // Values that must be kept cannot be, if they cannot be read.
            Err(error) if sent.values().any(is_masked) => return Err(error),
            Err(_) => None,
        };
        let mut next = sent.clone();
        for (name, value) in next.iter_mut().filter(|(_, value)| is_masked(value)) {
            let present = before.as_ref().and_then(|before| before.get(name));
            let masked = || WebhookRefusal::MaskedHeader(name.clone());
            *value = present.ok_or_else(masked)?.clone();
        }
        let exposed = |headers: &BTreeMap<String, SecretString>| -> Vec<(String, String)> {
            let pairs = headers.iter();
            let pairs = pairs.map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
            pairs.collect()
        };
        let is_same = before.as_ref().map(exposed) == Some(exposed(&next));
        if is_same && !stale("headers") {
            return Ok(());
        }
        if !is_same {
            plan.changed.push("headers");
        }
        match next.is_empty() {
            true => plan.dropped.extend(["headers", "header_names"]),
            false => plan.fields.extend(self.seal_headers(id, &next)),
        }
        Ok(())
    }
}

impl Plan {
    /// Notes each member whose value is another now, and what is to be stored of it.
    fn compare(&mut self, before: &Subscription) {
        let (was, is) = (settings(before), settings(&self.next));
        for (before, after) in was.into_iter().zip(is) {
            if before == after {
                continue;
            }
            self.changed.push(after.field);
            match after.value {
                Some(value) => self.fields.push((after.field, value)),
                None => self.dropped.push(after.field),
            }
        }
    }
}

/// The settings in their stored form.
fn settings(subscription: &Subscription) -> Vec<FieldChange> {
    let mut settings = Vec::new();
    subscription.write_to(FieldChange::default(), &mut settings);
    settings
}

fn patched(present: &Subscription, patch: &WebhookUpdateRequest) -> Subscription {
    let (p, mut next) = (patch.clone(), present.clone());
    next.url = p.url.unwrap_or(next.url);
    next.name = p.name.apply(next.name);
    next.description = p.description.apply(next.description);
    next.event_types = p.event_types.unwrap_or(next.event_types);
    let none = Vec::new();
    next.event_categories = p.event_categories.apply_or(next.event_categories, none);
    next.scope_filter = p.scope_filter.apply(next.scope_filter);
    next.thresholds = p.thresholds.apply(next.thresholds);
    let usual = RetryPolicy::default();
    next.retry_policy = p.retry_policy.apply_or(next.retry_policy, usual);
    let (failures, usual) = (next.disable_after_failures, DISABLE_AFTER_FAILURES);
    next.disable_after_failures = p.disable_after_failures.apply_or(failures, usual);
    let seconds = next.disable_after_seconds;
    next.disable_after_seconds = p.disable_after_seconds.apply_or(seconds, 0);
    next.metadata = p.metadata.apply(next.metadata);
    next.status = p.status.map_or(next.status, WebhookStatus::from);
    next
}

fn event_type(before: WebhookStatus, plan: &Plan) -> Option<&'static str> {
    match plan.next.status {
        status if status == before => (!plan.changed.is_empty()).then_some("webhook.updated"),
        WebhookStatus::Paused => Some("webhook.paused"),
        _ => Some("webhook.resumed"),
    }
}
