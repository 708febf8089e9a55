//! Names of policies.

use crate::domain::fields::text_field;
use crate::domain::ids::{Partition, text_id};

/// Characters of the random part: drawn from 36, so 62 bits.
const RANDOM_CHARS: usize = 12;

text_id! {
    /// Names a policy: `pol_05f_` and 12 lower-case letters and digits. It carries the partition of its tenant.
    PolicyId
}

text_field!(PolicyId, PolicyId::parse);

impl PolicyId {
    /// Accepts an id of the form that the service makes; another id names no policy.
    pub fn parse(text: &str) -> Option<Self> {
        let (partition, random) = text.strip_prefix("pol_")?.split_once('_')?;
        let charset = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let well_formed = Partition::parse(partition).is_some()
            && random.len() == RANDOM_CHARS
            && random.bytes().all(charset);
        well_formed.then(|| Self(text.to_owned()))
    }

    /// A new random id in a partition.
    pub fn generate(partition: Partition) -> Self {
        const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let random: String = (0..RANDOM_CHARS)
            .map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]))
            .collect();
        Self(format!("pol_{partition}_{random}"))
    }

    /// Where its record is kept.
    pub fn partition(&self) -> Partition {
        Partition::parse(&self.0[4..7]).expect("checked when the id was made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_where_its_record_is() {
        let partition = Partition::new(0x05f).expect("below 1024");
        let id = PolicyId::generate(partition);
        assert_eq!(PolicyId::parse(id.as_str()).as_ref(), Some(&id));
        assert_eq!(id.partition(), partition);
        assert_ne!(id, PolicyId::generate(partition));
        for other in [
            "",
            "pol_05f_",
            "pol_400_abcdefghij12",
            "pol_05F_abcdefghij12",
            "pol_05f_ABCDEFGHIJ12",
            "pol_05f_abcdefghij123",
            "key_05f_abcdefghij12",
        ] {
            assert_eq!(PolicyId::parse(other), None, "{other}");
        }
    }
}
