//! The place of an entry in a log: the id that its stream gave it.

use std::fmt;

/// An entry's id, `<ms>-<sequence>`: the clock of the store when it was appended, and a number among those of that
/// millisecond. In one log later entries have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EntryId {
    /// Milliseconds since the epoch.
    pub ms: u64,
    /// Among the entries of that millisecond, from 0.
    pub sequence: u64,
}

impl EntryId {
    /// Before every entry.
    pub const ZERO: Self = Self { ms: 0, sequence: 0 };

    /// Reads `<ms>-<sequence>`, padded or not.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let (ms, sequence) = text.split_once('-')?;
        Some(Self {
            ms: number(ms)?,
            sequence: number(sequence)?,
        })
    }

    /// The greatest id before this one.
    pub fn before(self) -> Self {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Self { sequence, ..self },
            None => Self {
                ms: self.ms.saturating_sub(1),
                sequence: u64::MAX,
            },
        }
    }

    /// The id as sorted texts need it: texts of the same length have the order of their ids.
    pub fn padded(self) -> String {
        format!("{:013}-{:05}", self.ms, self.sequence)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_padded_or_not() {
        let id = EntryId {
            ms: 1_700_000_000_000,
            sequence: 12,
        };
        assert_eq!(id.to_string(), "1700000000000-12");
        assert_eq!(id.padded(), "1700000000000-00012");
        assert_eq!(EntryId::parse(&id.to_string()), Some(id));
        assert_eq!(EntryId::parse(&id.padded()), Some(id));
        for text in [
            "",
            "1",
            "1-",
            "-1",
            "+1-1",
            "1-1-1",
            "1- 1",
            "99999999999999999999-0",
        ] {
            assert_eq!(EntryId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_id_lies_between_an_id_and_its_predecessor() {
        let id = |ms, sequence| EntryId { ms, sequence };
        assert_eq!(id(17, 2).before(), id(17, 1));
        assert_eq!(id(17, 0).before(), id(16, u64::MAX));
    }

    #[test]
    fn padded_ids_sort_like_the_numbers_that_they_hold() {
        let id = |sequence| EntryId { ms: 17, sequence };
        assert!(id(2).padded() < id(10).padded() && id(2) < id(10));
    }
}
