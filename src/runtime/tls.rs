//! The TLS settings of the whole process: one crypto provider, and certificates in PEM.

mod p521;

use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error, PemObject};
use std::sync::{Arc, LazyLock};

/// ring, extended by signatures with P-521: ring does not verify them, but the authorities of some organisations make them.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let mut provider = ring::default_provider();
    let known = provider.signature_verification_algorithms;
    provider.signature_verification_algorithms = WebPkiSupportedAlgorithms {
        all: [known.all, p521::ALL].concat().leak(),
        mapping: [known.mapping, p521::MAPPING].concat().leak(),
    };
    Arc::new(provider)
});

/// The provider of the process.
pub fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// Makes the provider the default for libraries that open their own connections.
pub fn install_provider() {
    // An error means that a default is installed already.
    let _ = CryptoProvider::clone(&PROVIDER).install_default();
}

/// The certificates in a PEM text. Also reads files that were joined without a line break, files with a byte order mark, and
/// indented files. The parser alone would skip a certificate whose first line does not begin with dashes.
///
/// # Errors
/// A part of the text is malformed.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = pem
        .replace("-----BEGIN ", "\n-----BEGIN ")
        .replace("-----END ", "\n-----END ");
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

#[cfg(test)]
mod tests;
