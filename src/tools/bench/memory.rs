//! The memory of stored keys.

use redis::Cmd;

use crate::store::{Store, StoreError};

/// Keys whose memory is asked for at once.
const KEYS: usize = 500;

/// The keys of all partitions whose name fits a pattern.
pub(super) async fn keys(store: &Store, pattern: &str) -> Result<Vec<String>, StoreError> {
    let pattern = format!("{}:{{???}}:{pattern}", store.keys().prefix());
    let mut keys = Vec::new();
    let visit = |key: &str| keys.push(key.to_owned());
    store.scan(&pattern, None, visit).await?;
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Memory of keys, in bytes.
pub(super) async fn memory(store: &Store, keys: &[String]) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for some in keys.chunks(KEYS) {
        let usage = |key: &String| {
            let mut usage = Cmd::new();
            usage
                .arg("MEMORY")
                .arg("USAGE")
                .arg(key)
                .arg("SAMPLES")
                .arg(0);
            (key.clone(), usage)
        };
        let commands: Vec<_> = some.iter().map(usage).collect();
        let replies = store.query_all(&commands).await?;
        let replies = replies.into_iter();
        let each = replies.map(|reply| redis::from_redis_value::<u64>(reply).unwrap_or(0));
        bytes += each.sum::<u64>();
    }
    Ok(bytes)
}
