//! Where the next page of a list starts, as an opaque text that the client brings back.
//!
//! A cursor names the last row that was shown, and carries a tag by which the service recognises its own. It opens only
//! under the filters and the tenant that it was made for, and widens nothing: both are applied to each page anew.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::errors::ApiError;
use crate::domain::ids::DeploymentSecret;

/// A cursor of another form than this release's is refused.
const VERSION: &str = "1";

/// The place of the last row of a page in the order of its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// What the list is sorted by.
    pub sort: String,
    /// Whether the order is turned round.
    pub descending: bool,
    /// The row.
    pub last: Last,
}

/// The last row of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Its value of what the list is sorted by.
    pub value: String,
    /// Its id, which decides between equal values.
    pub id: String,
}

/// Why a cursor cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Not made by this service, or not whole.
    #[error(
        "Invalid cursor: it is not one that this list has returned; start again without a cursor"
    )]
    Unreadable,
    /// Made for another sort, other filters or another tenant.
    #[error(
        "Invalid cursor: sort or filters have changed since it was returned; drop the cursor and start again"
    )]
    Stale,
}

impl From<CursorError> for ApiError {
    fn from(error: CursorError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl Cursor {
    /// The text for the client. `list` names the list, `filters` are all that select its rows, in a fixed order.
    pub fn seal(
        &self,
        list: &str,
        filters: &[(&str, String)],
        secret: &DeploymentSecret,
    ) -> String {
        let direction = if self.descending { "desc" } else { "asc" };
        let hash = filters_hash(list, filters);
        let fields = [
            VERSION,
            &hash,
            &self.sort,
            direction,
            &self.last.value,
            &self.last.id,
        ];
        let text = serde_json::to_string(&fields).expect("strings serialize");
        let mut bytes = secret.tag("cursor", &text).to_vec();
        bytes.extend_from_slice(text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads the text again.
    ///
    /// # Errors
    /// [`CursorError`].
    pub fn open(
        text: &str,
        list: &str,
        filters: &[(&str, String)],
        secret: &DeploymentSecret,
    ) -> Result<Self, CursorError> {
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| CursorError::Unreadable)?;
        let (tag, text) = bytes.split_at_checked(8).ok_or(CursorError::Unreadable)?;
        let text = std::str::from_utf8(text).map_err(|_| CursorError::Unreadable)?;
        if tag != secret.tag("cursor", text) {
            return Err(CursorError::Unreadable);
        }
        let fields: [String; 6] =
            serde_json::from_str(text).map_err(|_| CursorError::Unreadable)?;
        let [version, hash, sort, direction, value, id] = fields;
        if version != VERSION {
            return Err(CursorError::Unreadable);
        }
        if hash != filters_hash(list, filters) {
            return Err(CursorError::Stale);
        }
        Ok(Self {
            sort,
            descending: direction == "desc",
            last: Last { value, id },
        })
    }
}

fn filters_hash(list: &str, filters: &[(&str, String)]) -> String {
    let text = serde_json::to_string(&(list, filters)).expect("strings serialize");
    BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> Cursor {
        Cursor {
            sort: "reserved".to_owned(),
            descending: true,
            last: Last {
                value: i64::MIN.to_string(),
                id: "r05f_\"odd\u{0}".to_owned(),
            },
        }
    }

    #[test]
    fn a_cursor_opens_under_what_it_was_made_for_and_nothing_else() {
        let secret = DeploymentSecret::generate();
        let filters = [("tenant", "acme".to_owned()), ("status", String::new())];
        let text = cursor().seal("reservations", &filters, &secret);
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        assert_eq!(
            Cursor::open(&text, "reservations", &filters, &secret),
            Ok(cursor())
        );

        let mut other = filters.clone();
        other[1].1 = "ACTIVE".to_owned();
        assert_eq!(
            Cursor::open(&text, "reservations", &other, &secret),
            Err(CursorError::Stale)
        );
        assert_eq!(
            Cursor::open(&text, "balances", &filters, &secret),
            Err(CursorError::Stale)
        );
        let stranger = DeploymentSecret::generate();
        assert_eq!(
            Cursor::open(&text, "reservations", &filters, &stranger),
            Err(CursorError::Unreadable)
        );
    }

    #[test]
    fn a_changed_cursor_is_refused() {
        let secret = DeploymentSecret::generate();
        let text = cursor().seal("l", &[], &secret);
        let open = |text: &str| Cursor::open(text, "l", &[], &secret);
        for cut in 0..text.len() {
            assert_eq!(
                open(&text[..cut]),
                Err(CursorError::Unreadable),
                "cut at {cut}"
            );
            let swapped = if text.as_bytes()[cut] == b'A' {
                "B"
            } else {
                "A"
            };
            let forged = format!("{}{swapped}{}", &text[..cut], &text[cut + 1..]);
            assert_eq!(
                open(&forged),
                Err(CursorError::Unreadable),
                "changed at {cut}"
            );
        }
        for garbage in [
            "",
            "x",
            "%%%",
            "AAAAAAAAAAAA",
            &format!("{text}A"),
            &format!("{text}="),
        ] {
            assert_eq!(open(garbage), Err(CursorError::Unreadable), "{garbage}");
        }
    }

    #[test]
    fn a_cursor_of_another_version_is_refused() {
        let secret = DeploymentSecret::generate();
        let hash = filters_hash("l", &[]);
        let text = format!(r#"["0","{hash}","s","asc","v","i"]"#);
        let mut bytes = secret.tag("cursor", &text).to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let sealed = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(
            Cursor::open(&sealed, "l", &[], &secret),
            Err(CursorError::Unreadable)
        );
    }
}
