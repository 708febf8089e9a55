//! Enumerations whose variants are one word each, the same on the wire, in records and in messages.

use std::str::FromStr;

use strum::VariantNames;

/// A closed set of words.
pub trait Word:
    Copy + PartialEq + Send + Sync + FromStr + Into<&'static str> + VariantNames + 'static
{
    /// Every word, in order.
    const WORDS: &'static [&'static str] = Self::VARIANTS;

    /// The word.
    fn as_str(self) -> &'static str {
        self.into()
    }

    /// Reads the word, whose case counts.
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// Declares such an enumeration: `words! { /// Doc. Name: "snake_case" { /// Doc. Variant, … } }`. The word of a variant is its
/// name in that case, or what the variant says: `Variant = "word"`. `Name as "Published"` gives the schema another name.
///
/// The words are case-sensitive. What follows from them (the list of all, reading, writing, the schema) is made here.
macro_rules! words {
    (
        $(#[doc = $doc:expr])* $(#[expect($($lint:tt)*)])?
        $name:ident $(as $published:literal)? $(: $case:tt)? {
            $($(#[$variant_doc:meta])* $variant:ident $(= $word:tt)?),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        $(#[expect($($lint)*)])?
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize,
            strum::EnumString, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames,
        )]
        $(#[strum(serialize_all = $case)])?
        #[serde(into = "&'static str")]
        pub enum $name {
            $($(#[$variant_doc])* $(#[strum(serialize = $word)])? $variant,)+
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

            /// The word.
            pub fn as_str(self) -> &'static str {
                self.into()
            }

            /// Reads the word.
            pub fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }

        impl $crate::domain::words::Word for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::domain::fields::plain_field!(
            $name,
            (),
            |(), components| {
                let name = [stringify!($name) $(, $published)?];
                components.refer_words(name[name.len() - 1], concat!($($doc, "\n"),*), Self::WORDS)
            },
            |value, ()| value.one_of(Self::parse, Self::WORDS)
        );
        $crate::domain::record::stored_text!($name, Self::parse);
    };
}
pub(crate) use words;
