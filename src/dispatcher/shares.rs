//! Each live dispatcher's share of the partitions, computed alike by all of them.

use std::hash::Hasher;

use crate::domain::ids::Partition;

/// The partitions that `dispatcher` should own while `dispatchers` are alive.
///
/// Rendezvous hashing with a bound: each partition goes to the dispatcher that scores highest for it and has not reached
/// the average, rounded up. When a dispatcher comes or goes, few partitions change owners beyond its own.
pub(super) fn share_of(dispatcher: &str, dispatchers: &[String]) -> Vec<Partition> {
    let limit = usize::from(Partition::COUNT).div_ceil(dispatchers.len().max(1));
    let mut loads = vec![0; dispatchers.len()];
    let mut share = Vec::with_capacity(limit);
    for partition in Partition::all() {
        let open = (0..dispatchers.len()).filter(|candidate| loads[*candidate] < limit);
        let Some(owner) = open.max_by_key(|candidate| score(&dispatchers[*candidate], partition))
        else {
            break;
        };
        loads[owner] += 1;
        if dispatchers[owner] == dispatcher {
            share.push(partition);
        }
    }
    share
}

/// FNV-1a, then mixed so that neighbouring partitions do not score alike. Fixed for all releases, because dispatchers of
/// two releases may run side by side.
fn score(dispatcher: &str, partition: Partition) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(dispatcher.as_bytes());
    hash.write(&partition.index().to_be_bytes());
    let mixed = (hash.0 ^ (hash.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn dispatchers(count: usize) -> Vec<String> {
        (0..count)
            .map(|index| format!("dispatcher-{index}"))
            .collect()
    }

    #[test]
    fn every_partition_has_one_owner_and_no_dispatcher_exceeds_its_share() {
        for count in [1, 2, 3, 7, 50] {
            let dispatchers = dispatchers(count);
            let mut seen = HashSet::new();
            for dispatcher in &dispatchers {
                let share = share_of(dispatcher, &dispatchers);
                assert!(share.len() <= 1024_usize.div_ceil(count), "{count}");
                assert!(
                    count > 7 || share.len() + 8 >= 1024 / count,
                    "{count}: {}",
                    share.len()
                );
                for partition in share {
                    assert!(seen.insert(partition), "{count}: {partition} twice");
                }
            }
            assert_eq!(seen.len(), 1024, "{count}");
        }
    }

    #[test]
    fn a_new_dispatcher_moves_few_partitions_beyond_its_share() {
        let (before, after) = (dispatchers(4), dispatchers(5));
        let mut moved = 0;
        for dispatcher in &before {
            let now: HashSet<_> = share_of(dispatcher, &after).into_iter().collect();
            moved += share_of(dispatcher, &before)
                .iter()
                .filter(|p| !now.contains(p))
                .count();
        }
        assert!(
            (200..320).contains(&moved),
            "{moved} of 1024 changed owners; its share is 204"
        );
    }

    #[test]
    fn a_dead_dispatcher_has_no_share() {
        assert!(share_of("stranger", &dispatchers(2)).is_empty());
        assert!(share_of("stranger", &[]).is_empty());
    }
}
