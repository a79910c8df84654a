//! Decides which certificates of services are trusted.

use crate::runtime::tls::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage};

/// Trusts a list of certificates: each as an authority, and each as a service's own certificate.
///
/// The verifier of rustls treats them as authorities only, and refuses the certificate that `openssl req -x509` makes: a CA
/// certificate that the service presents as its own.
#[derive(Debug)]
pub struct Trust {
    authorities: Arc<WebPkiServerVerifier>,
    /// SHA-256 of each certificate, since the system's list is long.
    digests: HashSet<[u8; 32]>,
}

impl Trust {
    /// Trusts the system's certificates. Unreadable ones are skipped.
    ///
    /// # Errors
    /// No certificate is readable.
    pub fn system() -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        let mut trusted = rustls_native_certs::load_native_certs().certs;
        trusted.retain(|certificate| roots.add(certificate.clone()).is_ok());
        Self::of(&trusted, roots)
    }

    /// Trusts these certificates. `roots` contains the same ones as authorities.
    pub(super) fn of(
        certificates: &[CertificateDer<'static>],
        roots: RootCertStore,
    ) -> Result<Self, VerifierBuilderError> {
        let authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
        Ok(Self {
            authorities: authorities.build()?,
            digests: certificates.iter().map(digest).collect(),
        })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.digests.contains(&digest(end_entity)) {
            // A certificate that is itself trusted needs no issuer, but must be valid now and for this name and, unless it is a CA
            // certificate, for servers.
            let parsed = ParsedCertificate::try_from(end_entity)?;
            check(end_entity, now)?;
            verify_server_name(&parsed, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Checks the validity period and the purpose of a certificate. webpki checks the time first, then the purpose, and then looks
/// for an issuer; it gets none here. It does not check the purpose of a CA certificate, which is no loss: the holder of the key
/// could issue a certificate for servers anyway.
///
/// # Errors
/// `Expired`, `NotValidYet`, `InvalidPurpose`, or `BadEncoding` if the certificate or its time is malformed.
pub(super) fn check(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    use webpki::Error;
    let certificate =
        EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let purpose = KeyUsage::server_auth();
    match certificate.verify_for_usage(&[], &[], &[], now, purpose, None, None) {
        Err(Error::CertExpired { .. }) => Err(CertificateError::Expired),
        Err(Error::CertNotValidYet { .. }) => Err(CertificateError::NotValidYet),
        Err(Error::EmptyEkuExtension | Error::RequiredEkuNotFoundContext(_)) => {
            Err(CertificateError::InvalidPurpose)
        }
        Ok(_) | Err(Error::UnknownIssuer | Error::CaUsedAsEndEntity) => Ok(()),
        Err(_) => Err(CertificateError::BadEncoding),
    }
}

fn digest(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}
