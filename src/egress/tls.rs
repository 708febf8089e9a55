//! The certificate authorities that deliveries trust.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// The trusted certificate authorities.
#[derive(Debug, Clone)]
pub struct TrustedRoots(Arc<RootCertStore>);

/// Why a file of certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RootsError(String);

impl TrustedRoots {
    /// The public authorities.
    pub fn public() -> Self {
        let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
        Self(Arc::new(RootCertStore {
            roots: roots.collect(),
        }))
    }

    /// Only the authorities of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub fn of_file(path: &Path) -> Result<Self, RootsError> {
        let refused = |reason: String| RootsError(format!("{}: {reason}", path.display()));
        let read = CertificateDer::pem_file_iter(path).map_err(|e| refused(e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in read {
            let certificate = certificate.map_err(|e| refused(e.to_string()))?;
            roots.add(certificate).map_err(|e| refused(e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(refused("it holds no certificate".to_owned()));
        }
        Ok(Self(Arc::new(roots)))
    }
}

pub(super) fn connector(roots: &TrustedRoots) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(Arc::clone(&roots.0))
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
