//! Ids of evidence.

use super::{Partition, is_lower_hex, text_id};

text_id! {
    /// Names an envelope by its content: 64 lower-case hexadecimal digits.
    EvidenceId
}

impl EvidenceId {
    /// What an id looks like, as a regular expression.
    pub const PATTERN: &'static str = "^[0-9a-f]{64}$";

    /// Accepts exactly that.
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = text.len() == 64 && text.bytes().all(is_lower_hex);
        is_one.then(|| Self(text.to_owned()))
    }

    /// The partition in which the envelope is kept: the first ten bits of the id.
    pub fn partition(&self) -> Partition {
        let bits = u16::from_str_radix(&self.0[..3], 16).unwrap_or_default() >> 2;
        Partition::new(bits).unwrap_or(Partition::FIRST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_64_lower_case_digits_and_its_partition_in_the_first_ten_bits() {
        for (start, partition) in [("000", 0), ("003", 0), ("004", 1), ("fff", 1023)] {
            let text = format!("{start}{}", "0".repeat(61));
            let id = EvidenceId::parse(&text).expect("an id");
            assert_eq!((id.as_str(), id.partition().index()), (&*text, partition));
        }
        let upper = "A".repeat(64);
        let (short, long) = ("a".repeat(63), "a".repeat(65));
        for text in ["", &upper, &short, &long, &"é".repeat(32)] {
            assert_eq!(EvidenceId::parse(text), None, "{text}");
        }
    }
}
