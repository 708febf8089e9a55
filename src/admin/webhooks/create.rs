//! Creates a subscription.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::SecretString;
use tracing::warn;

use super::secrets::associated;
use super::{WebhookTarget, Webhooks};
use crate::admin::{Change, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::record::{Record, set_fields};
use crate::domain::refusal::{AccessRefusal, WebhookRefusal};
use crate::domain::webhook::{
    Owner, Subscription, SubscriptionId, WebhookCreateRequest, check_selectors, watched,
};
use crate::store::admin::Pairs;
use crate::store::admin::webhooks::{CreateWebhook, CreateWebhookReply};
use crate::store::signature::Counted;
use crate::store::target::Target as _;
use crate::store::target::about;
use crate::store::{Lane, StoreError};

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
    /// Makes a subscription, in two round trips to Redis. Repeating the call under its idempotency key returns the same one,
    /// with its secret.
    ///
    /// # Errors
    /// Refusals: the key; selectors that the owner may not have, or none; an idempotency key where nothing can be sealed; the
    /// owner closed, suspended or unknown; the address.
    pub async fn create(
        &self,
        caller: &Caller,
        owner: &Owner,
        settings: &WebhookCreateRequest,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<WebhookCreateResponse, StoreError> {
        let selectors = check_selectors(owner, &settings.event_types, &settings.event_categories);
        let checked = match (selectors, request.idempotency_key) {
            (Err(refusal), _) => refuse(refusal),
            (Ok(()), Some(_)) if !self.seals() => refuse(AccessRefusal::NotRepeatable),
            (Ok(()), _) => Ok(()),
        };
        if let Err(refusal) = checked {
            // Without a valid key, nobody learns what is wrong.
            let filter = settings.scope_filter.as_deref().unwrap_or_default();
            let subscribes = format!("={filter}");
            let access = self
                .store
                .access(caller, "webhooks:write", "", Some(&subscribes));
            access.await?;
            return about(owner.tenant(), Err(refusal));
        }
        let created = async {
            let id = SubscriptionId::mint(owner.partition());
            let mut change = Change::new(request, operation, ("webhook", id.as_str()), Some(201));
            change.audit.push(("metadata.url", settings.url.clone()));
            let watched = watched(
                &settings.event_types,
                &settings.event_categories,
                settings.scope_filter.as_deref(),
                settings.thresholds.as_ref(),
            );
            let fields = self.fields(&id, settings, &watched);
            let target = WebhookTarget::new(&id, owner);
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
            // Whatever else could refuse the request comes before the name is resolved, and before anything is written.
            let check = call("check");
            let check = self.store.run(Lane::Request, &check);
            let (checked, policy) = tokio::join!(check, self.policy());
            if let CreateWebhookReply::Created { watched, record } = target.outcome(checked)? {
                self.copy_thresholds(watched).await;
                return self.replayed(&record.0).await;
            }
            self.check_url(&settings.url, owner, &policy?).await?;
            let mode = owner.tenant().map_or("system", |_| "tenant");
            let create = call(mode);
            let create = self.store.run(Lane::Request, &create);
            let (created, entered) = tokio::join!(create, self.store.enter_webhook_directory(&id));
            let created = match target.outcome(created) {
                Ok(CreateWebhookReply::Created { watched, record }) => {
                    self.copy_thresholds(watched).await;
                    Ok(record.0)
                }
                Ok(_) => Err(StoreError::Corrupt(format!("webhook:{id}"))),
                Err(error) => Err(error),
            };
            let is_own = |record: &Record| record.get("subscription_id") == Some(id.as_str());
            match created {
                Ok(record) if is_own(&record) => {
                    if let Err(error) = entered {
                        warn!(%error, webhook.id = %id, "{id} is not in the directory yet; a dispatcher adds it: {error}");
                    }
                    self.created(&record)
                }
                // Another request came between.
                Ok(record) => {
                    self.leave_directory(&id).await;
                    self.replayed(&record).await
                }
                Err(error) => {
                    if error.refusal().is_some() {
                        self.leave_directory(&id).await;
                    }
                    Err(error)
                }
            }
        };
        about(owner.tenant(), created.await)
    }

    /// The response from a record with its sealed secrets.
    fn created(&self, record: &Record) -> Result<WebhookCreateResponse, StoreError> {
        let subscription = Subscription::from_record(record)?;
        let id = subscription.subscription_id.as_str();
        let corrupt = || StoreError::Corrupt(id.to_owned());
        let sealed = record.get("signing_secret").ok_or_else(corrupt)?;
        let secret = self.keys.open(sealed, &associated(id, "signing_secret"));
        Ok(WebhookCreateResponse {
            signing_secret: Some(secret.map_err(|_| corrupt())?),
            subscription,
        })
    }

    /// The response to an earlier request, from the record that was stored with it. If the secret has been changed since, only
    /// the caller who changed it has the new one.
    async fn replayed(&self, record: &Record) -> Result<WebhookCreateResponse, StoreError> {
        let subscription = Subscription::from_record(record)?;
        let id = &subscription.subscription_id;
        match self.store.webhook_secret(id).await? {
            None => refuse(WebhookRefusal::NotFound(id.to_string())),
            Some(present) if record.get("signing_secret") != Some(present.as_str()) => {
                Ok(WebhookCreateResponse {
                    subscription,
                    signing_secret: None,
                })
            }
            Some(_) => self.created(record),
        }
    }

    /// Takes the id of a subscription that was not created out of the directory. Lists skip an entry that stays there.
    async fn leave_directory(&self, id: &SubscriptionId) {
        if let Err(error) = self.store.leave_webhook_directory(&[id.as_str()]).await {
            warn!(%error, webhook.id = %id, "{id} does not exist but is still in the directory: {error}");
        }
    }

    /// The fields of the record that come from the settings, with sealed secrets.
    fn fields(&self, id: &SubscriptionId, settings: &WebhookCreateRequest, watched: &str) -> Pairs {
        let mut fields = set_fields(settings.fields());
        fields.push(("watched", watched.to_owned()));
        let generated = generated_secret();
        let secret = settings.signing_secret.as_ref().unwrap_or(&generated);
        fields.push(("signing_secret", self.seal_secret(id, secret)));
        let headers = settings.headers.as_ref();
        if let Some(headers) = headers.filter(|headers| !headers.is_empty()) {
            fields.extend(self.seal_headers(id, headers));
        }
        fields
    }
}

fn generated_secret() -> SecretString {
    let random: [u8; 32] = rand::random();
    format!("whsec_{}", BASE64_URL_SAFE_NO_PAD.encode(random)).into()
}
