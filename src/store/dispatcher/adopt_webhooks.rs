//! `adopt_webhooks.lua`: subscriptions of a release that noted less about them.

use crate::domain::ids::Partition;
use crate::domain::webhook::Owner;
use crate::store::records::{NO_ARGS, command, read_or_default};
use crate::store::signature::signature;
use crate::store::{Lane, OnFailure, Store, StoreError, outcome};

signature! {
    /// Gives subscriptions that do not say since when they are active the present place of their outbox, and their owner a mark of them.
    ADOPT_WEBHOOKS: AdoptWebhooks -> AdoptWebhooksReply = "dispatcher/adopt_webhooks", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read outbox(), webhooks(owner);
        write webhooks_mark(owner), watch(owner), thresholds(), tenant_key: tenant(owner);
    }
    builds { write webhook }
    args {
        webhook_prefix = webhook_prefix(),
        owner: &'a str,
        /// Each with what it watches, blanks between.
        subscriptions: &'a [(String, String)],
    }
    replies { adopted: Adopted { mark: String } }
    writes "On adopted: the subscriptions, what they watch, the mark."
}

/// Subscriptions that one call adopts.
const SOME: usize = 50;

impl Store {
    /// The key of the list of an owner's subscriptions.
    pub(crate) fn webhooks_key(&self, owner: &str) -> String {
        self.keys().webhooks(home(owner), owner)
    }

    /// Whether these owners have subscriptions at all; perhaps, where their list has another type.
    pub(crate) async fn have_webhooks(&self, owners: &[String]) -> Result<Vec<bool>, StoreError> {
        let count = |owner: &String| command("ZCARD", self.webhooks_key(owner), NO_ARGS);
        let commands: Vec<_> = owners.iter().map(count).collect();
        let replies = self
            .send_each(&commands, OnFailure::Fail)
            .await?
            .into_iter();
        let has_some = |reply| read_or_default::<i64>(reply) > 0;
        Ok(replies
            .map(|reply: Result<_, _>| reply.map_or(true, has_some))
            .collect())
    }

    /// Lets subscriptions of an owner, with what they watch, count from now on; returns the owner's mark.
    pub(crate) async fn adopt_webhooks(
        &self,
        owner: &str,
        subscriptions: &[(String, String)],
    ) -> Result<String, StoreError> {
        let mut mark = String::new();
        // Without any, too: the owner may lack a mark alone.
        let mut rest = Some(subscriptions);
        while let Some(subscriptions) = rest {
            let (some, others) = subscriptions.split_at(subscriptions.len().min(SOME));
            let call = AdoptWebhooks {
                partition: home(owner),
                owner,
                subscriptions: some,
            };
            let AdoptWebhooksReply::Adopted { mark: renewed } =
                outcome(self.run(Lane::Background, &call).await)?;
            mark = renewed;
            rest = Some(others).filter(|others| !others.is_empty());
        }
        Ok(mark)
    }
}

fn home(owner: &str) -> Partition {
    Owner::parse(owner).map_or(Partition::FIRST, |owner| owner.partition())
}
