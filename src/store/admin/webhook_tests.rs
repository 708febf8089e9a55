//! `webhook_test.lua`: the limit of test deliveries.

use crate::domain::ids::Partition;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::SubscriptionId;
use crate::store::Store;
use crate::store::admin::AdminError;
use crate::store::signature::signature;

signature! {
    /// Counts a test delivery of a subscription against its limit, in UTC minutes.
    WEBHOOK_TEST: WebhookTest -> WebhookTestReply = "admin/webhooks/webhook_test";
    names { partition: Partition, subscription_id: &'a str }
    keys of partition { write webhook_tests(subscription_id); }
    args {
        /// In a minute.
        most: u32,
    }
    replies { limited: Limited { retry_in_ms: i64, until_ms: i64 }, counted: Counted }
    writes "On counted: the count."
}

impl Store {
    /// Counts a test of a subscription.
    ///
    /// # Errors
    /// [`AdminRefusal::TestedTooOften`] beyond `most` in a minute.
    pub async fn count_webhook_test(
        &self,
        subscription_id: &SubscriptionId,
        most: u32,
    ) -> Result<(), AdminError> {
        let call = WebhookTest {
            partition: subscription_id.partition(),
            subscription_id: subscription_id.as_str(),
            most,
        };
        match self.outcome(&call).await? {
            WebhookTestReply::Counted => Ok(()),
            WebhookTestReply::Limited {
                retry_in_ms,
                until_ms,
            } => Err(AdminRefusal::TestedTooOften {
                retry_in_ms,
                until_ms,
            }
            .into()),
        }
    }
}
