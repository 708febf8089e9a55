//! Creates a subscription.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::SecretString;

use super::secrets::associated;
use super::{WebhookTarget, Webhooks};
use crate::admin::{Parts, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::record::{Record, set_fields};
use crate::domain::refusal::{AccessRefusal, WebhookRefusal};
use crate::domain::webhook::{
    Owner, SelectorProblem, Subscription, SubscriptionId, WebhookCreateRequest, check_selectors,
    watched,
};
use crate::store::admin::Pairs;
use crate::store::admin::target::about;
use crate::store::admin::webhooks::{CreateWebhook, CreateWebhookReply};
use crate::store::signature::Counted;
use crate::store::{Lane, OperationError};

/// Two random ids of 96 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;

object! {
    /// A new subscription. Only this response shows its signing secret.
    pub struct WebhookCreateResponse: Serialize + Open {
        /// The subscription.
        pub subscription: Subscription,
        /// Key of the signatures of its deliveries.
        signing_secret: Option<String>,
    }
}

impl std::fmt::Debug for WebhookCreateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.subscription.subscription_id;
        write!(f, "WebhookCreateResponse({id}, redacted)")
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
    ) -> Result<WebhookCreateResponse, OperationError> {
        // Nobody without a good key learns what is wrong, or makes us resolve a name.
        self.store
            .access_to_subscribe(caller, "webhooks:write", settings.scope_filter.as_deref())
            .await?;
        let created = self.create_for(caller, owner, settings, operation, request);
        about(owner.tenant(), created.await)
    }

    async fn create_for(
        &self,
        caller: &Caller,
        owner: &Owner,
        settings: &WebhookCreateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<WebhookCreateResponse, OperationError> {
        check_selectors(owner, &settings.event_types, &settings.event_categories)
            .map_err(refusal_of)?;
        if request.idempotency_key.is_some() && !self.seals() {
            return refuse(AccessRefusal::NotRepeatable);
        }
        let record = self.created(caller, owner, settings, operation, request);
        let (record, is_replay) = record.await?;
        let subscription = Subscription::from_record(&record)?;
        let id = subscription.subscription_id.as_str();
        let corrupt = || OperationError::Corrupt(id.to_owned());
        let sealed = record.get("signing_secret").ok_or_else(corrupt)?;
        if is_replay {
            let id = &subscription.subscription_id;
            match self.store.webhook_secret(id).await? {
                None => return refuse(WebhookRefusal::NotFound(id.to_string())),
                // Another secret since; that one is for who has set it.
                Some(present) if present != sealed => {
                    return Ok(WebhookCreateResponse {
                        subscription,
                        signing_secret: None,
                    });
                }
                Some(_) => {}
            }
        }
        let secret = self.keys.open(sealed, &associated(id, "signing_secret"));
        let secret = secret.map_err(|_| corrupt())?;
        Ok(WebhookCreateResponse {
            subscription,
            signing_secret: Some(secret),
        })
    }

    /// The record with its sealed secrets, and whether it is that of an earlier request.
    async fn created(
        &self,
        caller: &Caller,
        owner: &Owner,
        settings: &WebhookCreateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<(Record, bool), OperationError> {
        // A refusal of the address is said after those that stand before it in order.
        let url_refused = match self.check_url(&settings.url, owner).await {
            Ok(()) => None,
            Err(refused @ (OperationError::Refused(_) | OperationError::Corrupt(_))) => {
                Some(refused)
            }
            Err(failure) => return Err(failure),
        };
        let generated = generated_secret();
        let secret = settings.signing_secret.as_ref().unwrap_or(&generated);
        for _ in 0..DRAWS_MAX {
            let id = SubscriptionId::mint(owner.partition());
            let mut parts = Parts::new(request, operation, ("webhook", id.as_str()), 201);
            parts.audit.push(("metadata.url", settings.url.clone()));
            let watched = watched(
                &settings.event_types,
                &settings.event_categories,
                settings.scope_filter.as_deref(),
                settings.thresholds.as_ref(),
            );
            let mut fields = fields(settings, &watched);
            fields.push(("signing_secret", self.seal_secret(&id, secret)));
            if let Some(headers) = settings
                .headers
                .as_ref()
                .filter(|headers| !headers.is_empty())
            {
                fields.extend(self.seal_headers(&id, headers));
            }
            let (target, change) = (WebhookTarget::new(&id, owner), parts.change());
            let call = |mode| CreateWebhook {
                caller: caller.into(),
                change: &change,
                owner,
                subscription_id: &id,
                mode,
                scope_filter: settings.scope_filter.as_deref(),
                watched: &watched,
                webhooks_max: self.limits.webhooks,
                thresholds_max: self.limits.thresholds,
                fields: Counted(&fields),
            };
            // Nothing may enter the directory for a request that is refused, or a replay.
            let checked = self
                .store
                .run_for(Lane::Request, &target, &call("check"))
                .await?;
            match checked {
                CreateWebhookReply::Created { watched, record } => {
                    self.spread(watched).await;
                    return Ok((record.0, true));
                }
                CreateWebhookReply::Checked if url_refused.is_some() => break,
                CreateWebhookReply::Checked => {}
                CreateWebhookReply::Taken => continue,
            }
            self.store.register_webhook(&id).await?;
            let mode = owner.tenant().map_or("system", |_| "tenant");
            let created = self
                .store
                .run_for(Lane::Request, &target, &call(mode))
                .await;
            match created {
                Ok(CreateWebhookReply::Created { watched, record }) => {
                    self.spread(watched).await;
                    let is_replay = record.0.get("subscription_id") != Some(id.as_str());
                    if is_replay {
                        self.unregister(&id).await;
                    }
                    return Ok((record.0, is_replay));
                }
                // Another request came between.
                Err(error) => {
                    if error.is_refusal() {
                        self.unregister(&id).await;
                    }
                    return Err(error);
                }
                Ok(CreateWebhookReply::Checked | CreateWebhookReply::Taken) => {}
            }
        }
        let repeated = || OperationError::Corrupt("random subscription id".to_owned());
        Err(url_refused.unwrap_or_else(repeated))
    }

    /// Takes the id of a subscription that was not made out of the directory. One that stays there is passed over by lists.
    async fn unregister(&self, id: &SubscriptionId) {
        if let Err(error) = self.store.leave_webhook_directory(&[id.as_str()]).await {
            tracing::warn!(%error, webhook.id = %id, "{id} is no subscription and is still in the directory: {error}");
        }
    }
}

/// The refusal of what an owner may not select.
pub(super) fn refusal_of(problem: SelectorProblem) -> WebhookRefusal {
    match problem {
        SelectorProblem::Empty => WebhookRefusal::NothingSelected,
        SelectorProblem::Forbidden(hidden) => WebhookRefusal::HiddenSelector(hidden),
    }
}

fn generated_secret() -> SecretString {
    let random: [u8; 32] = rand::random();
    format!("whsec_{}", BASE64_URL_SAFE_NO_PAD.encode(random)).into()
}

/// What the record keeps of the settings, but for the secrets.
fn fields(settings: &WebhookCreateRequest, watched: &str) -> Pairs {
    let mut fields = set_fields(settings.fields());
    fields.push(("watched", watched.to_owned()));
    fields
}
