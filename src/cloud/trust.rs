//! Which certificates of services are trusted.

use crate::runtime::tls::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;

/// Trusts a list of certificates: each as an authority, and each as a service's own certificate.
///
/// The verifier of rustls takes them for authorities alone, and refuses the certificate that `openssl req -x509` makes: it is
/// one of an authority, and a service shows it as its own.
#[derive(Debug)]
pub struct Trust {
    authorities: Arc<WebPkiServerVerifier>,
    /// SHA-256 of each certificate: the system's list is long.
    digests: HashSet<[u8; 32]>,
}

impl Trust {
    /// Trusts the system's certificates. One that cannot be read is left out.
    ///
    /// # Errors
    /// None can be read.
    pub fn system() -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        let mut trusted = rustls_native_certs::load_native_certs().certs;
        trusted.retain(|certificate| roots.add(certificate.clone()).is_ok());
        Self::of(&trusted, roots)
    }

    /// Trusts these certificates. `roots` holds the same ones as authorities.
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
            return verify_trusted(end_entity, server_name, now);
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

/// A certificate that is trusted itself needs no issuer: it has to be valid now, and for this name.
fn verify_trusted(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    match time_of(&certificate.clone().into_owned(), now) {
        Some(Time::Expired) => return Err(CertificateError::Expired.into()),
        Some(Time::NotYet) => return Err(CertificateError::NotValidYet.into()),
        None => {}
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    Ok(ServerCertVerified::assertion())
}

/// How a certificate is out of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Its end is over.
    Expired,
    /// Its begin is to come.
    NotYet,
}

/// Whether a certificate is out of its time. The verifier of rustls checks the time first; its other errors do not matter here.
pub(super) fn time_of(certificate: &CertificateDer<'static>, now: UnixTime) -> Option<Time> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).ok()?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build();
    match verifier.ok()?.verify_client_cert(certificate, &[], now) {
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Some(Time::Expired),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Some(Time::NotYet),
        _ => None,
    }
}

fn digest(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}
