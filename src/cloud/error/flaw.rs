//! Describes the flaw in a service's certificate, with the remedy for the flaws that occur most.

use rustls::CertificateError;
use std::borrow::Cow;

pub(super) fn flaw(why: &CertificateError) -> Cow<'static, str> {
    let words = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired and is to be renewed"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: a clock is wrong, there or here"
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "its certificate names no host: issue it with a subjectAltName, such as DNS:cloud.example or IP:192.0.2.1; a common \
             name does not count"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::UnknownIssuer => {
            "its certificate was issued by an authority that the operator does not trust"
        }
        CertificateError::BadSignature => {
            "its certificate was issued by an authority that the operator does not trust: a trusted one has the \
             same name but another key, or RSA of fewer than 2048 bits"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for servers: issue it with the extended key usage serverAuth"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the operator does not verify the signature algorithm of its certificate, or of one of its authorities: have them \
             issued with RSA of 2048 to 8192 bits and SHA-256, SHA-384 or SHA-512, ECDSA on P-256 or P-384 and SHA-256 or SHA-384, \
             ECDSA on P-521, or Ed25519"
        }
        CertificateError::Other(other) => {
            return match other.0.downcast_ref::<webpki::Error>() {
                Some(webpki::Error::CaUsedAsEndEntity) => {
                    "its certificate is one of an authority (CA:TRUE), such as openssl req -x509 makes, and the operator does not \
                     trust this very certificate: put it into spec.tls.caBundle"
                        .into()
                }
                Some(error) => format!("its certificate is not valid: {error}").into(),
                None => "its certificate is not valid".into(),
            };
        }
        other => return format!("its certificate is not valid: {other:?}").into(),
    };
    words.into()
}
