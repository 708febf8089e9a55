//! Creates a subscription.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::SecretString;

use super::{WebhookError, millionths};
use super::{Webhooks, about, associated};
use crate::admin::audit::entry;
use crate::admin::{Parts, Request, push_actor, refuse};
use crate::domain::caller::Caller;
use crate::domain::event::types::{EventCategory, EventTypeName};
use crate::domain::fields::Unsent;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, set_fields};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::{
    HeaderNames, Owner, SelectorProblem, Subscription, SubscriptionId, WebhookCreateRequest,
    WebhookStatus, check_selectors,
};
use crate::store::OperationError;
use crate::store::admin::Pairs;
use crate::store::admin::webhooks::{CreateWebhook, CreateWebhookReply};
use crate::store::signature::Counted;

/// Two random ids of 96 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;

/// A subscription that was just made, the only time that its secret is told.
pub struct CreatedWebhook {
    /// Without secrets.
    pub subscription: Subscription,
    /// The key of the signatures.
    pub signing_secret: SecretString,
}

impl std::fmt::Debug for CreatedWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CreatedWebhook({}, redacted)",
            self.subscription.subscription_id
        )
    }
}

impl Webhooks {
    /// Makes a subscription. Repeating the call under its idempotency key brings the same one back, its secret included.
    ///
    /// # Errors
    /// Refusals: selectors that the owner may not have, or none; the key; the owner closed, suspended or unknown; the
    /// address; an idempotency key where nothing can be sealed.
    pub async fn create(
        &self,
        caller: &Caller,
        owner: &Owner,
        settings: &WebhookCreateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<CreatedWebhook, WebhookError> {
        // Nobody without a good key learns what is wrong, or makes us resolve a name.
        self.store
            .admin_access(caller, "webhooks:write", "")
            .await?;
        check(owner, &settings.event_types, &settings.event_categories).map_err(about(owner))?;
        if request.idempotency_key.is_some() && !self.seals() {
            return refuse(AdminRefusal::NotRepeatable).map_err(about(owner));
        }
        let created = self.created(caller, owner, settings, operation, request);
        let record = created.await.map_err(about(owner))?;
        let subscription = Subscription::from_record(&record)?;
        let id = subscription.subscription_id.as_str();
        let corrupt = || OperationError::from(AdminRefusal::Corrupt(id.to_owned()));
        let sealed = record.get("signing_secret").ok_or_else(corrupt)?;
        let secret = self.keys.open(sealed, &associated(id, "signing_secret"));
        let secret = secret.map_err(|_| corrupt())?;
        Ok(CreatedWebhook {
            subscription,
            signing_secret: secret.into(),
        })
    }

    /// The record with its sealed secrets.
    async fn created(
        &self,
        caller: &Caller,
        owner: &Owner,
        settings: &WebhookCreateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<Record, OperationError> {
        let admitted = self.check_url(&settings.url).await;
        if matches!(admitted, Err(OperationError::Store(_))) {
            return admitted.and(refuse(AdminRefusal::WebhookNotFound));
        }
        let generated = generated_secret();
        let secret = settings.signing_secret.as_ref().unwrap_or(&generated);
        for _ in 0..DRAWS_MAX {
            let id = SubscriptionId::mint(owner.partition());
            let mut audit = entry(request.cause, operation, "webhook", id.as_str());
            audit.extend([
                ("status", "201".to_owned()),
                ("metadata.url", settings.url.clone()),
            ]);
            push_actor(&mut audit, request.cause);
            let parts = Parts::of(request, operation, audit);
            let watched = millionths(&as_made(owner, &id, settings));
            let mut fields = fields(settings, &watched);
            fields.push(("signing_secret", self.seal_secret(&id, secret)));
            if let Some(headers) = settings
                .headers
                .as_ref()
                .filter(|headers| !headers.is_empty())
            {
                fields.extend(self.seal_headers(&id, headers));
            }
            let call = CreateWebhook {
                partition: owner.partition(),
                caller: caller.into(),
                change: &parts.change(),
                owner: owner.as_str(),
                subscription_id: id.as_str(),
                mode: match (&admitted, owner.tenant()) {
                    // Where the address is refused, what stands before it in order may refuse first, or be a replay.
                    (Err(_), _) => "check",
                    (Ok(_), Some(_)) => "tenant",
                    (Ok(_), None) => "system",
                },
                millionths: &watched,
                fields: Counted(&fields),
            };
            if admitted.is_ok() {
                self.store.register_webhook(&id).await?;
            }
            match self.store.admin(&call).await? {
                CreateWebhookReply::Created { watched, record } => {
                    self.spread(watched).await;
                    return Ok(record.0);
                }
                CreateWebhookReply::Checked => {
                    return admitted.and(refuse(AdminRefusal::WebhookNotFound));
                }
                CreateWebhookReply::Taken => {}
            }
        }
        refuse(AdminRefusal::Corrupt("random subscription id".to_owned()))
    }
}

/// Whether an owner may select these.
pub(super) fn check(
    owner: &Owner,
    types: &[EventTypeName],
    categories: &[EventCategory],
) -> Result<(), OperationError> {
    check_selectors(owner, types, categories).map_err(|problem| {
        OperationError::from(match problem {
            SelectorProblem::Empty => AdminRefusal::NothingSelected,
            SelectorProblem::Forbidden(hidden) => AdminRefusal::HiddenSelector(hidden),
        })
    })
}

fn generated_secret() -> SecretString {
    let random: [u8; 32] = rand::random();
    format!("whsec_{}", BASE64_URL_SAFE_NO_PAD.encode(random)).into()
}

/// What the record keeps of the settings, but for the secrets.
fn fields(settings: &WebhookCreateRequest, watched: &str) -> Pairs {
    let mut fields = set_fields(settings.fields());
    fields.push(("millionths", watched.to_owned()));
    fields
}

/// The subscription that the settings make, so far as it matters to what it watches.
fn as_made(owner: &Owner, id: &SubscriptionId, settings: &WebhookCreateRequest) -> Subscription {
    Subscription {
        subscription_id: id.clone(),
        owner: owner.clone(),
        name: None,
        description: None,
        url: settings.url.clone(),
        event_types: settings.event_types.clone(),
        event_categories: settings.event_categories.clone(),
        scope_filter: settings.scope_filter.clone(),
        thresholds: settings.thresholds.clone(),
        headers: HeaderNames::default(),
        signing_secret: Unsent::default(),
        status: WebhookStatus::Active,
        retry_policy: settings.retry_policy,
        disable_after_failures: settings.disable_after_failures,
        consecutive_failures: 0,
        created_at: Moment::from_ms(0).expect("the epoch is a time"),
        updated_at: None,
        last_triggered_at: None,
        last_success_at: None,
        last_failure_at: None,
        metadata: None,
        version: 1,
    }
}
