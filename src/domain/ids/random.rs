//! Ids that the service draws at random. Each names the partition of its record: `pol_05f_` and 12 characters.

use super::Partition;

/// The random part of an id.
pub struct RandomPart {
    alphabet: &'static [u8],
    chars: usize,
}

impl RandomPart {
    /// 12 lower-case letters and digits: 62 bits.
    pub const SHORT: Self = Self {
        alphabet: b"0123456789abcdefghijklmnopqrstuvwxyz",
        chars: 12,
    };
    /// 24 hexadecimal digits: 96 bits.
    pub const LONG: Self = Self {
        alphabet: b"0123456789abcdef",
        chars: 24,
    };

    /// `<letters>_<partition>_` and a random part.
    pub fn mint(&self, letters: &str, partition: Partition) -> String {
        let draw = |_| char::from(self.alphabet[rand::random_range(0..self.alphabet.len())]);
        let random: String = (0..self.chars).map(draw).collect();
        format!("{letters}_{partition}_{random}")
    }

    /// The partition of an id of that form.
    pub fn partition_of(&self, letters: &str, id: &str) -> Option<Partition> {
        let (partition, random) = id
            .strip_prefix(letters)?
            .strip_prefix('_')?
            .split_once('_')?;
        let well_formed =
            random.len() == self.chars && random.bytes().all(|byte| self.alphabet.contains(&byte));
        Partition::parse(partition).filter(|_| well_formed)
    }
}

/// Declares such an id: `random_id! { /// Doc. Name: "pol", RandomPart::SHORT }`.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident: $letters:literal, $random:expr) => {
        $crate::domain::ids::text_id! {
            $(#[$doc])*
            $name
        }
        $crate::domain::fields::text_field!($name, $name::parse);

        impl $name {
            /// A new random id in a partition.
            pub fn mint(partition: $crate::domain::ids::Partition) -> Self {
                Self($random.mint($letters, partition).into())
            }

            /// Accepts an id of the form that the service makes; another id names nothing.
            pub fn parse(text: &str) -> Option<Self> {
                $random.partition_of($letters, text).map(|_| Self(text.into()))
            }

            /// Where its record is kept.
            pub fn partition(&self) -> $crate::domain::ids::Partition {
                $random.partition_of($letters, &self.0).expect("checked when the id was made")
            }
        }
    };
}
pub(crate) use random_id;
