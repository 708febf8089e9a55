//! How long caches may keep an envelope.

use super::public_reads::{PublishedEnvelope, header, path_of};
use crate::harness::evidence_keys::{issuers, listed, signed};
use crate::harness::redis_fixture::now_ms;

/// How long caches may keep an envelope, in seconds.
fn max_age(response: &reqwest::Response) -> i64 {
    let caching = header(response, "cache-control").expect("a header");
    let seconds = caching.strip_prefix("public, max-age=");
    let seconds = seconds.and_then(|rest| rest.strip_suffix(", immutable"));
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.unwrap_or_else(|| panic!("{caching}"))
}

/// A cache must not show what the deployment has deleted.
#[tokio::test]
async fn e28_caches_keep_an_envelope_no_longer_than_the_service() {
    let for_ever = ["--evidence-retention-days", "0"];
    let published = PublishedEnvelope::new(&for_ever).await;
    let response = published.get(&published.path(), &[]).await;
    assert_eq!(max_age(&response), 365 * 86_400);

    let published = PublishedEnvelope::new(&[]).await;
    let store = &published.app.store;
    for (age_days, days_left) in [(0, 30), (29, 1), (31, 0)] {
        let issued_at_ms = now_ms(store).await - age_days * 86_400_000;
        let (id, bytes) = signed(&issuers(&[listed('a', 0, None)]), 'a', issued_at_ms);
        PublishedEnvelope::keep(store, &id, &bytes, None).await;
        let seconds = max_age(&published.get(&path_of(id.as_str()), &[]).await);
        let left = days_left * 86_400;
        assert!(
            (left - 600..=left).contains(&seconds),
            "{age_days}: {seconds}"
        );
    }
}
