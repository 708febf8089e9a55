//! W33: a lane that somebody deletes, though nothing was wrong with it, loses nothing; nor does a count that is no number.

use std::time::Duration;

use super::mended_keys::{Mended, arrive};
use crate::harness::deliveries::{Running, fund, reached};
use crate::harness::receiver::{Receiver, Reply};

const WELL: Reply = Reply::Status(200, "");

async fn both(reply: Reply) -> Vec<(Mended, Receiver)> {
    let receivers = [
        Receiver::start(reply.clone()).await,
        Receiver::start(reply).await,
    ];
    let [own, system] = receivers;
    vec![
        (Mended::own(&own).await, own),
        (Mended::system(&system).await, system),
    ]
}

#[tokio::test]
async fn w33_a_lane_that_is_deleted_before_it_is_looked_at_loses_nothing() {
    for (mended, receiver) in both(WELL).await {
        mended.queue(4).await;
        mended.delete(&mended.lane()).await;
        let _running = Running::start(&mended.app);
        arrive(&receiver, 4).await;
        mended.is_even("the lane is gone").await;
    }
}

#[tokio::test]
async fn w33_what_is_queued_after_a_lane_was_deleted_hides_no_loss() {
    for (mended, receiver) in both(WELL).await {
        mended.queue(4).await;
        mended.delete(&mended.lane()).await;
        mended.queue(1).await;
        let _running = Running::start(&mended.app);
        arrive(&receiver, 5).await;
        mended.is_even("the lane is gone").await;
    }
}

#[tokio::test]
async fn w33_a_lane_that_is_deleted_while_its_first_is_in_flight_loses_nothing() {
    for is_queued_after in [false, true] {
        for (mended, receiver) in both(Reply::After(Duration::from_secs(2))).await {
            let _running = Running::start(&mended.app);
            fund(&mended.app, 4).await;
            arrive(&receiver, 1).await;
            reached(&mended.app, &mended.id, "PENDING", 4).await;
            mended.delete(&mended.lane()).await;
            receiver.reply(WELL);
            if is_queued_after {
                fund(&mended.app, 1).await;
            }
            arrive(&receiver, 4 + usize::from(is_queued_after)).await;
            mended.is_even("the lane is gone").await;
        }
    }
}

#[tokio::test]
async fn w33_retries_that_are_deleted_unnoticed_are_attempted_again() {
    for is_followed in [false, true] {
        for (mended, receiver) in both(Reply::Status(503, "")).await {
            let _running = Running::start(&mended.app);
            fund(&mended.app, 3).await;
            reached(&mended.app, &mended.id, "RETRYING", 3).await;
            mended.delete(&mended.retries()).await;
            let mut count = 3;
            if is_followed {
                fund(&mended.app, 1).await;
                count += 1;
                reached(&mended.app, &mended.id, "RETRYING", count).await;
            }
            receiver.reply(WELL);
            mended.look_now().await;
            reached(&mended.app, &mended.id, "SUCCESS", count).await;
            mended.is_even("the retries are gone").await;
        }
    }
}

#[tokio::test]
async fn w33_a_count_of_open_deliveries_that_is_no_number_costs_no_attempt() {
    for (owner, (mended, receiver)) in ["umbra", "__system__"].iter().zip(both(WELL).await) {
        mended.queue(3).await;
        mended.damage_count(owner).await;
        let _running = Running::start(&mended.app);
        let ended = reached(&mended.app, &mended.id, "SUCCESS", 3).await;
        let attempts: Vec<_> = ended.iter().map(|row| &row["attempts"]).collect();
        assert_eq!(attempts, [1, 1, 1], "{owner}");
        assert_eq!(receiver.arrived().len(), 3);
        mended.is_even("it is counted from 0").await;
    }
}
