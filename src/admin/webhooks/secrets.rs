//! The secrets of subscriptions: sealed in the store, open only while they are used.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use tracing::error;

use super::Webhooks;
use crate::domain::record::Record;
use crate::domain::webhook::SubscriptionId;
use crate::store::StoreError;

/// The secrets of a subscription.
pub(super) struct Secrets {
    pub signing_secret: SecretString,
    pub headers: BTreeMap<String, SecretString>,
}

impl Webhooks {
    /// What a subscription sends with, by its record.
    pub(super) fn open_secrets(&self, id: &str, record: &Record) -> Result<Secrets, StoreError> {
        let corrupt = || StoreError::Corrupt(id.to_owned());
        let open = |field: &str| {
            let stored = record.get(field);
            let opened = stored.map(|stored| self.keys.open(stored, &associated(id, field)));
            opened.transpose().map_err(|why| {
                error!(
                    webhook.id = id,
                    "{field} of webhook `{id}` cannot be opened: {why}"
                );
                corrupt()
            })
        };
        let signing_secret = open("signing_secret")?.ok_or_else(corrupt)?;
        let headers: BTreeMap<String, String> = match open("headers")? {
            Some(json) => serde_json::from_str(&json).map_err(|_| corrupt())?,
            None => BTreeMap::new(),
        };
        let secret = |(name, value): (String, String)| (name, value.into());
        Ok(Secrets {
            signing_secret: signing_secret.into(),
            headers: headers.into_iter().map(secret).collect(),
        })
    }

    pub(super) fn seal_secret(&self, id: &SubscriptionId, secret: &SecretString) -> String {
        let owner = associated(id.as_str(), "signing_secret");
        self.keys.seal(secret.expose_secret(), &owner)
    }

    /// The two fields that keep headers: sealed values, and names.
    pub(super) fn seal_headers(
        &self,
        id: &SubscriptionId,
        headers: &BTreeMap<String, SecretString>,
    ) -> [(&'static str, String); 2] {
        let exposed: BTreeMap<&str, &str> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose_secret()))
            .collect();
        let names: Vec<&String> = headers.keys().collect();
        let json = serde_json::to_string(&exposed).expect("texts serialize");
        let sealed = self.keys.seal(&json, &associated(id.as_str(), "headers"));
        let names = serde_json::to_string(&names).expect("texts serialize");
        [("headers", sealed), ("header_names", names)]
    }
}

/// The associated data of a secret: a stored one fits into no other record and no other field.
pub(super) fn associated(id: &str, field: &str) -> String {
    match field {
        "signing_secret" => id.to_owned(),
        field => format!("{id}/{field}"),
    }
}
