//! Enumerations whose variants are one word each, the same on the wire, in records and in messages.

/// A closed set of words.
pub trait Word: Copy + PartialEq + Send + Sync + 'static {
    /// Every word, in order.
    const WORDS: &'static [&'static str];

    /// The word.
    fn as_str(self) -> &'static str;
    /// Reads the word, whose case counts.
    fn parse(text: &str) -> Option<Self>;
}

/// Declares such an enumeration: `words! { /// Doc. Name { /// Doc. Variant = "WORD", … } }`. `Name as "Published"` gives
/// the schema another name.
///
/// The words are case-sensitive. What follows from them (the list of all, reading, writing, the schema) is made here.
macro_rules! words {
    (
        $(#[doc = $doc:expr])* $(#[expect($($lint:tt)*)])?
        $name:ident $(as $published:literal)? { $($(#[$variant_doc:meta])* $variant:ident = $word:tt),+ $(,)? }
    ) => {
        $(#[doc = $doc])*
        $(#[expect($($lint)*)])?
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Reads the word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl $crate::domain::words::Word for $name {
            const WORDS: &'static [&'static str] = Self::WORDS;

            fn as_str(self) -> &'static str {
                self.as_str()
            }

            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }

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
