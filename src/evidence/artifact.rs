//! Kinds of envelopes, and the operations that they attest.

use crate::domain::words::words;

words! {
    /// The kind of an envelope, and the only member of its payload.
    Artifact {
        /// A decision.
        Decide = "decide",
        /// A reservation, or a dry run.
        Reserve = "reserve",
        /// A commit.
        Commit = "commit",
        /// A release.
        Release = "release",
        /// A refusal of one of them.
        Error = "error",
    }
}

words! {
    /// An operation that envelopes attest. The braces are literal.
    Endpoint {
        /// Decide.
        Decide = "POST /v1/decide",
        /// Reserve, dry runs too.
        Reserve = "POST /v1/reservations",
        /// Commit.
        Commit = "POST /v1/reservations/{reservation_id}/commit",
        /// Release.
        Release = "POST /v1/reservations/{reservation_id}/release",
    }
}

impl Endpoint {
    /// Whether the path names a reservation.
    pub(super) fn names_reservation(self) -> bool {
        match self {
            Self::Decide | Self::Reserve => false,
            Self::Commit | Self::Release => true,
        }
    }
}
