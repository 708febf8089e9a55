//! Signed evidence: an envelope attests one decision, so that anybody who holds it can check what was asked, what the response
//! was, and when. `docs/evidence-format.md` describes the format for those who write a verifier.
//!
//! The format itself is a function of its arguments: no I/O, no clock. The same statement of the same issuer has the same bytes and
//! the same id wherever it is computed. Only [`Issuing`], [`Attesting`] and [`Signer`](signing::Signer) call the store.

mod attesting;
mod envelope;
mod issuers;
mod issuing;
mod keys;
mod payload;
mod registry;
mod schema;
pub mod signing;
pub mod statements;
mod verification;

pub use attesting::Attesting;
pub(crate) use attesting::{Attester, Draft};
pub use envelope::{Rounded, Statement, Unsigned};
pub use issuers::{Issuer, Issuers, ServerId, Signer, SignerForm};
pub use issuing::{Issuing, REFRESH_EVERY, register_issuers};
pub use keys::{KeySet, ListedKey, PublicKey, SigningKey};
pub use payload::{Payload, attested_body, attested_request, attested_response};
pub use registry::{Registered, Registry};
pub use schema::{Artifact, Endpoint, Misfit};
pub use verification::{Disposition, Keys, Verification, dialect_of, verify};
