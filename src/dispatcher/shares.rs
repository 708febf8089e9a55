//! Which of the live dispatchers should own which partition: the same answer wherever it is computed.

use std::hash::Hasher;

use crate::domain::ids::Partition;

/// The partitions that `member` should own while `members` are alive.
///
/// Each partition goes to the member that scores highest for it, unless that one has its share already (rendezvous
/// hashing with a bound): nobody has more than the share rounded up, and when a member comes or goes, few partitions
/// change hands beyond its own.
pub(super) fn share_of(member: &str, members: &[String]) -> Vec<Partition> {
    let limit = usize::from(Partition::COUNT).div_ceil(members.len().max(1));
    let mut loads = vec![0; members.len()];
    let mut share = Vec::with_capacity(limit);
    for partition in Partition::all() {
        let open = (0..members.len()).filter(|candidate| loads[*candidate] < limit);
        let Some(owner) = open.max_by_key(|candidate| score(&members[*candidate], partition))
        else {
            break;
        };
        loads[owner] += 1;
        if members[owner] == member {
            share.push(partition);
        }
    }
    share
}

/// FNV-1a, then mixed so that neighbouring partitions do not score alike. Fixed for all releases: dispatchers of two
/// releases that run side by side must agree.
fn score(member: &str, partition: Partition) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(member.as_bytes());
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

    fn members(count: usize) -> Vec<String> {
        (0..count)
            .map(|index| format!("dispatcher-{index}"))
            .collect()
    }

    #[test]
    fn every_partition_has_one_owner_and_nobody_more_than_its_share() {
        for count in [1, 2, 3, 7, 50] {
            let members = members(count);
            let mut seen = HashSet::new();
            for member in &members {
                let share = share_of(member, &members);
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
    fn a_newcomer_takes_little_from_those_who_stay_beyond_its_share() {
        let (before, after) = (members(4), members(5));
        let mut moved = 0;
        for member in &before {
            let now: HashSet<_> = share_of(member, &after).into_iter().collect();
            moved += share_of(member, &before)
                .iter()
                .filter(|p| !now.contains(p))
                .count();
        }
        assert!(
            (200..320).contains(&moved),
            "{moved} of 1024 changed hands; its share is 204"
        );
    }

    #[test]
    fn who_is_not_alive_has_no_share() {
        assert!(share_of("stranger", &members(2)).is_empty());
        assert!(share_of("stranger", &[]).is_empty());
    }
}
