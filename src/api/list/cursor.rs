//! Where the next page of a list starts, as an opaque text that the client brings back.
//!
//! A cursor names the last entry that was looked at, and carries a tag by which the service recognizes its own. It opens only
//! under the filters and the tenant that it was made for, and widens nothing: both are applied to each page anew.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::api::errors::ApiError;
use crate::domain::ids::DeploymentSecret;
use crate::listing::{Position, Sort, SortKey, SortValue};

/// A cursor of another form than this release's is refused.
const VERSION: u32 = 1;
/// Length of the tag, in bytes.
const TAG_BYTES: usize = 8;

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

/// Version, digest of the binding, sort, whether it is descending, and the position: its value and its id.
type Sealed = (u32, String, String, bool, SortValue, String);

/// The binding of a cursor: a list, and all parameters that select its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Names the list.
    pub list: &'static str,
    /// Names and values, in a fixed order; a filter that is not given is an empty text.
    pub filters: Vec<(&'static str, String)>,
}

impl Binding {
    /// The cursor of the page after a position.
    pub fn seal<K: SortKey>(
        &self,
        sort: Sort<K>,
        last: &Position,
        secret: &DeploymentSecret,
    ) -> String {
        let (by, value) = (sort.by.as_str().to_owned(), last.value.clone());
        let sealed: Sealed = (
            VERSION,
            self.digest(),
            by,
            sort.descending,
            value,
            last.id.clone(),
        );
        tagged(&sealed, secret)
    }

    /// The order of the list that a cursor was made for, and the position after which its page starts.
    pub fn open<K: SortKey>(
        &self,
        cursor: &str,
        secret: &DeploymentSecret,
    ) -> Result<(Sort<K>, Position), CursorError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
        let parts = bytes.as_ref().and_then(|b| b.split_at_checked(TAG_BYTES));
        let (tag, text) = parts.ok_or(CursorError::Unreadable)?;
        let text = std::str::from_utf8(text).map_err(|_| CursorError::Unreadable)?;
        if tag != secret.tag("cursor", text) {
            return Err(CursorError::Unreadable);
        }
        let sealed: Sealed = serde_json::from_str(text).map_err(|_| CursorError::Unreadable)?;
        let (version, digest, by, descending, value, id) = sealed;
        if version != VERSION {
            return Err(CursorError::Unreadable);
        }
        if digest != self.digest() {
            return Err(CursorError::Stale);
        }
        let by = K::parse(&by).ok_or(CursorError::Unreadable)?;
        Ok((Sort { by, descending }, Position { value, id }))
    }

    fn digest(&self) -> String {
        let text = serde_json::to_string(&(self.list, &self.filters)).expect("texts are JSON");
        BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..12])
    }
}

fn tagged(sealed: &Sealed, secret: &DeploymentSecret) -> String {
    let text = serde_json::to_string(sealed).expect("texts and numbers are JSON");
    let mut bytes = secret.tag("cursor", &text).to_vec();
    bytes.extend_from_slice(text.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::ReservationSort;

    const SORT: Sort<ReservationSort> = Sort {
        by: ReservationSort::Reserved,
        descending: true,
    };

    fn position() -> Position {
        Position::new(i64::MIN, "r05f_\"odd\u{0}")
    }

    fn binding(list: &'static str, status: &str) -> Binding {
        let filters = vec![("tenant", "acme".to_owned()), ("status", status.to_owned())];
        Binding { list, filters }
    }

    #[test]
    fn a_cursor_is_valid_only_for_its_own_list() {
        let (secret, reservations) = (DeploymentSecret::generate(), binding("reservations", ""));
        for value in [SortValue::Number(i64::MIN), "300".into(), SortValue::Absent] {
            let last = Position::new(value, "r05f_\"odd\u{0}");
            let text = reservations.seal(SORT, &last, &secret);
            assert_eq!(reservations.open(&text, &secret), Ok((SORT, last)));
        }
        let text = reservations.seal(SORT, &position(), &secret);
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        let open = |binding: Binding, secret| binding.open::<ReservationSort>(&text, secret);
        for other in [binding("reservations", "ACTIVE"), binding("balances", "")] {
            assert_eq!(open(other, &secret), Err(CursorError::Stale));
        }
        let stranger = DeploymentSecret::generate();
        assert_eq!(open(reservations, &stranger), Err(CursorError::Unreadable));
    }

    #[test]
    fn a_changed_cursor_is_refused() {
        let (secret, list) = (DeploymentSecret::generate(), binding("l", ""));
        let text = list.seal(SORT, &position(), &secret);
        let open = |text: &str| list.open::<ReservationSort>(text, &secret);
        for cut in 0..text.len() {
            let (before, rest) = text.split_at(cut);
            assert_eq!(open(before), Err(CursorError::Unreadable), "cut at {cut}");
            let swapped = if rest.starts_with('A') { "B" } else { "A" };
            let forged = format!("{before}{swapped}{}", &rest[1..]);
            let opened = open(&forged);
            assert_eq!(opened, Err(CursorError::Unreadable), "changed at {cut}");
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
    fn a_cursor_of_another_version_or_sort_is_refused() {
        let (secret, list) = (DeploymentSecret::generate(), binding("l", ""));
        let sealed = |version, by: &str| {
            let (digest, by) = (list.digest(), by.to_owned());
            let sealed = (version, digest, by, false, SortValue::Absent, String::new());
            tagged(&sealed, &secret)
        };
        let open = |text: &str| list.open::<ReservationSort>(text, &secret);
        assert!(open(&sealed(VERSION, "reserved")).is_ok());
        for (version, by) in [(0, "reserved"), (VERSION, "price"), (VERSION, "RESERVED")] {
            let opened = open(&sealed(version, by));
            assert_eq!(opened, Err(CursorError::Unreadable), "{version} {by}");
        }
    }
}
