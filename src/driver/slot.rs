//! Computes the cluster slot of a key.

use crc16::{State, XMODEM};

/// Number of slots of a Redis Cluster.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of `key`: CRC-16/XMODEM of its hash tag, or of the whole key when it has none.
pub(crate) fn of(key: &[u8]) -> u16 {
    State::<XMODEM>::calculate(hash_tag(key)) % SLOTS as u16
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

#[cfg(test)]
mod tests {
    use redis::cluster_routing::Slot;

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        assert_eq!(super::of(b"123456789"), 0x31c3);
        for key in [
            "ba:{05f}:tenant:a",
            "{}x",
            "a{b",
            "ba:meta",
            "{a}{b}",
            "",
            "x{{y}}",
        ] {
            let computed = Slot::new(super::of(key.as_bytes()));
            assert_eq!(Some(Slot::for_key(key)), computed, "{key}");
        }
    }
}
