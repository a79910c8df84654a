//! The TLS settings of an Account: trusted authorities and client certificate.

use super::trust::{Trust, check};
use crate::runtime::tls::{certificates, provider};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, InconsistentKeys, RootCertStore};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Maximum length of a bundle. All authorities of Mozilla's list, in PEM, take some 220 KiB.
pub const LONGEST_BUNDLE: usize = 256 * 1024;
/// Maximum length of the chain or key of a client certificate. A chain of four with RSA keys takes some 10 KiB.
pub const LONGEST_IDENTITY: usize = 64 * 1024;
/// Remembered TLS sessions: a service has a handful of names, and each session takes some KiB.
const SESSIONS: usize = 8;

/// The TLS settings of an Account, in PEM. By default: the authorities of the system, and no client certificate.
#[derive(Clone, Default)]
pub struct TlsPem {
    /// Authorities that are trusted instead of the system's.
    pub ca_bundle: Option<String>,
    /// The client's certificate with its chain, and its private key.
    pub client: Option<(String, SecretString)>,
}

/// The settings of a [`TlsPem`], parsed and checked. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tls(Option<Arc<Material>>);

struct Material {
    pem: TlsPem,
    trust: Option<Arc<Trust>>,
    client: Option<Arc<CertifiedKey>>,
    digest: [u8; 32],
}

/// The reason why the settings cannot be used. Does not quote the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// The CA bundle is not usable.
    #[error("the CA bundle {0}")]
    Bundle(&'static str),
    /// Every certificate of the bundle has expired.
    #[error("every certificate in the CA bundle has expired")]
    BundleExpired,
    /// The client certificate or its key is not usable.
    #[error("{0}")]
    Client(&'static str),
    /// No trusted authority is usable, for example since the system has no certificates.
    #[error("TLS could not be set up: no certificate of a trusted authority is usable")]
    Setup,
}

const NO_AUTHORITY: TlsError = TlsError::Bundle("holds no certificate in PEM");
const AUTHORITY_INVALID: TlsError =
    TlsError::Bundle("holds something that is no certificate of an authority");
const BUNDLE_TOO_LONG: TlsError = TlsError::Bundle("is longer than 256 KiB");
const NO_CERTIFICATE: TlsError = TlsError::Client("tls.crt holds no certificate in PEM");
const NO_KEY: TlsError =
    TlsError::Client("tls.key holds no private key in PEM, or one that is encrypted");
const KEY_INVALID: TlsError = TlsError::Client(
    "the private key in tls.key is malformed or has an unsupported type; supported are RSA (2048 to 4096 bits), ECDSA on P-256 and \
     P-384, Ed25519: have the client certificate issued for such a key",
);
const KEY_MISMATCH: TlsError =
    TlsError::Client("the private key in tls.key does not belong to the certificate in tls.crt");
const CERTIFICATE_EXPIRED: TlsError =
    TlsError::Client("the client certificate in tls.crt has expired");
const CERTIFICATE_NOT_YET: TlsError =
    TlsError::Client("the client certificate in tls.crt is not valid yet");
const IDENTITY_TOO_LONG: TlsError = TlsError::Client("tls.crt or tls.key is longer than 64 KiB");

impl Tls {
    /// Parses the settings and checks that they are usable now.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(pem: TlsPem, now: UnixTime) -> Result<Self, TlsError> {
        if pem.ca_bundle.is_none() && pem.client.is_none() {
            return Ok(Self::default());
        }
        let trust = pem.ca_bundle.as_ref().map(|bundle| trust(bundle, now));
        let client = pem.client.as_ref();
        let client = client.map(|(chain, key)| identity(chain, key, now));
        Ok(Self(Some(Arc::new(Material {
            trust: trust.transpose()?.map(Arc::new),
            client: client.transpose()?.map(Arc::new),
            digest: digest(&pem),
            pem,
        }))))
    }

    /// The settings that it was made from; none for the defaults.
    pub fn pem(&self) -> Option<&TlsPem> {
        self.0.as_ref().map(|material| &material.pem)
    }

    /// A digest that identifies the settings without revealing a key.
    pub fn digest(&self) -> [u8; 32] {
        self.0.as_ref().map_or([0; 32], |material| material.digest)
    }

    /// The TLS configuration of connections. `system` trusts the system's authorities.
    pub(super) fn config(&self, system: Arc<Trust>) -> Result<ClientConfig, TlsError> {
        let (trust, client) = match &self.0 {
            Some(material) => (material.trust.clone(), material.client.clone()),
            None => (None, None),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsError::Setup)?
            .dangerous()
            .with_custom_certificate_verifier(trust.unwrap_or(system));
        let mut config = match client {
            Some(client) => {
                let resolver = rustls::sign::SingleCertAndKey::from(client);
                config.with_client_cert_resolver(Arc::new(resolver))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(config)
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn trust(bundle: &str, now: UnixTime) -> Result<Trust, TlsError> {
    if bundle.len() > LONGEST_BUNDLE {
        return Err(BUNDLE_TOO_LONG);
    }
    let mut roots = RootCertStore::empty();
    let mut is_any_unexpired = false;
    let certificates = certificates(bundle).map_err(|_| AUTHORITY_INVALID)?;
    for certificate in &certificates {
        // A bundle may contain expired authorities next to the current ones: one that has not expired suffices.
        let is_expired = check(certificate, now) == Err(CertificateError::Expired);
        is_any_unexpired |= !is_expired;
        roots
            .add(certificate.clone())
            .map_err(|_| AUTHORITY_INVALID)?;
    }
    if roots.is_empty() {
        return Err(NO_AUTHORITY);
    }
    if !is_any_unexpired {
        return Err(TlsError::BundleExpired);
    }
    Trust::of(&certificates, roots).map_err(|_| TlsError::Setup)
}

fn identity(chain: &str, key: &SecretString, now: UnixTime) -> Result<CertifiedKey, TlsError> {
    let key = key.expose_secret();
    if chain.len() > LONGEST_IDENTITY || key.len() > LONGEST_IDENTITY {
        return Err(IDENTITY_TOO_LONG);
    }
    let chain = certificates(chain).map_err(|_| NO_CERTIFICATE)?;
    let first = chain.first().ok_or(NO_CERTIFICATE)?.clone();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| NO_KEY)?;
    let certified =
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => KEY_MISMATCH,
            rustls::Error::InvalidCertificate(_) => NO_CERTIFICATE,
            _ => KEY_INVALID,
        })?;
    match check(&first, now) {
        Err(CertificateError::Expired) => Err(CERTIFICATE_EXPIRED),
        Err(CertificateError::NotValidYet) => Err(CERTIFICATE_NOT_YET),
        // The service checks the encoding and the purpose.
        Err(_) | Ok(()) => Ok(certified),
    }
}

fn digest(pem: &TlsPem) -> [u8; 32] {
    let (chain, key) = match &pem.client {
        Some((chain, key)) => (Some(chain.as_str()), Some(key.expose_secret())),
        None => (None, None),
    };
    let mut hash = Sha256::new();
    for part in [pem.ca_bundle.as_deref(), chain, key] {
        // Distinguish a missing part from an empty one.
        hash.update([u8::from(part.is_some())]);
        let part = part.unwrap_or_default();
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
