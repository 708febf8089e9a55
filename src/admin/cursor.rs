//! Where a list goes on: the position of the last row in the order of the list, with what makes that order.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The position after a row. Opaque to clients, and good only for the same sort and filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    #[serde(rename = "v")]
    version: u8,
    #[serde(rename = "s")]
    pub sort: String,
    #[serde(rename = "d")]
    pub descending: bool,
    #[serde(rename = "k")]
    pub key: String,
    #[serde(rename = "i")]
    pub id: String,
    #[serde(rename = "f")]
    filters: String,
}

const VERSION: u8 = 1;

impl Cursor {
    pub fn after(sort: &str, descending: bool, key: String, id: String, filters: &[&str]) -> Self {
        Self {
            version: VERSION,
            sort: sort.to_owned(),
            descending,
            key,
            id,
            filters: digest(filters),
        }
    }

    /// Reads what [`Cursor::encode`] wrote; `None` for anything else, and for other filters.
    pub fn decode(text: &str, filters: &[&str]) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let cursor: Self = serde_json::from_slice(&bytes).ok()?;
        (cursor.version == VERSION && cursor.filters == digest(filters)).then_some(cursor)
    }

    pub fn encode(&self) -> String {
        // A struct of texts and flags cannot fail to be written.
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }
}

fn digest(filters: &[&str]) -> String {
    let digest = Sha256::digest(serde_json::to_vec(filters).unwrap_or_default());
    BASE64_URL_SAFE_NO_PAD.encode(&digest[..9])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_filters_only() {
        let cursor = Cursor::after("name", true, "Acme \"1\"".into(), "acme".into(), &["a", ""]);
        let text = cursor.encode();
        assert_eq!(Cursor::decode(&text, &["a", ""]), Some(cursor));
        assert_eq!(Cursor::decode(&text, &["", "a"]), None);
        for text in ["", "x", "e30", &text[1..]] {
            assert_eq!(Cursor::decode(text, &["a", ""]), None, "{text}");
        }
    }
}
