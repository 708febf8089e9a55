//! Signed evidence: an envelope attests one decision, so that anybody who holds it can check what was asked, what the response
//! was, and when. `docs/evidence-format.md` describes the format for those who write a verifier.
//!
//! Everything here is a function of its arguments: no I/O, no clock. The same statement of the same issuer has the same bytes and
//! the same id wherever it is computed.

mod artifact;
mod envelope;
mod issuer;
mod issuers;
mod key;
mod key_set;
mod payload;
mod registry;
mod schema;
mod verification;

pub use artifact::{Artifact, Endpoint};
pub use envelope::{Rounded, Statement, Unsigned};
pub use issuer::{Issuer, ServerId, ServerIdError, Signer};
pub use issuers::{Issuers, IssuersError, SignerForm};
pub use key::{PublicKey, SigningKey};
pub use key_set::{KeySet, KeySetError, ListedKey};
pub use payload::{Payload, attested_body, attested_request, attested_response};
pub use registry::{Registered, Registry};
pub use schema::Misfit;
pub use verification::{Disposition, Keys, Verification, dialect_of, verify};
