//! Describes the flaw in a service's certificate. Each flaw has its own remedy, which the text names.

use rustls::CertificateError;
use rustls::pki_types::alg_id;
use std::borrow::Cow;

const VERIFIED: &str = "the operator verifies RSA of 2048 to 8192 bits with SHA-256, SHA-384 or SHA-512, ECDSA on P-256 and P-384 with \
     SHA-256 or SHA-384, ECDSA on P-521, and Ed25519: have the certificates issued with one of these";

/// RSA with SHA-1, as encoded in certificates.
const RSA_PKCS1_SHA1: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05\x05\x00";
/// ECDSA with SHA-1.
const ECDSA_SHA1: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x04\x01";

pub(super) fn flaw(why: &CertificateError) -> Cow<'static, str> {
    match why {
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
            "its certificate was issued by an authority that the operator does not trust: one of the same name is trusted, and its key is \
             another one, or RSA of fewer than 2048 bits"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for servers: issue it with the extended key usage serverAuth"
        }
        CertificateError::UnhandledCriticalExtension => CRITICAL_EXTENSION,
        CertificateError::BadEncoding => "its certificate is malformed",
        CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id,
            ..
        } => return unverified(signature_algorithm_id, &[]),
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id,
            public_key_algorithm_id,
        } => return unverified(signature_algorithm_id, public_key_algorithm_id),
        CertificateError::Other(other) => {
            return match other.0.downcast_ref::<webpki::Error>() {
                Some(error) => flaw_of_chain(error),
                None => "its certificate is not valid".into(),
            };
        }
        _ => "its certificate is not valid",
    }
    .into()
}

const CRITICAL_EXTENSION: &str =
    "its certificate has a critical extension that the operator does not know: issue it without";

/// Errors that rustls passes on without a variant of its own.
fn flaw_of_chain(error: &webpki::Error) -> Cow<'static, str> {
    use webpki::Error;
    match error {
        Error::CaUsedAsEndEntity => {
            "its certificate is one of an authority (CA:TRUE), such as openssl req -x509 makes, and the operator does not trust this \
             very certificate: put it into spec.tls.caBundle"
        }
        Error::EndEntityUsedAsCa => {
            "the issuer of its certificate is no authority: issue that one with basicConstraints CA:TRUE"
        }
        Error::PathLenConstraintViolated => {
            "the path length of one of its authorities does not allow as many authorities below it"
        }
        Error::NameConstraintViolation => {
            "the name constraints of one of its authorities do not allow this name"
        }
        Error::UnsupportedCertVersion => {
            "its certificate is of X.509 version 1: issue it as version 3, with a subjectAltName"
        }
        Error::UnsupportedCriticalExtension => CRITICAL_EXTENSION,
        other => return format!("its certificate is not valid: {other}").into(),
    }
    .into()
}

/// A signature for which the TLS provider has no algorithm.
fn unverified(signature: &[u8], key: &[u8]) -> Cow<'static, str> {
    let signature = if signature == &*alg_id::ECDSA_SHA512 {
        "ECDSA and SHA-512"
    } else if signature == RSA_PKCS1_SHA1 {
        "RSA and SHA-1"
    } else if signature == ECDSA_SHA1 {
        "ECDSA and SHA-1"
    } else {
        "an algorithm that it does not know"
    };
    let key = if key == &*alg_id::ECDSA_P256 {
        " by a key on P-256"
    } else if key == &*alg_id::ECDSA_P384 {
        " by a key on P-384"
    } else {
        ""
    };
    format!(
        "its certificate, or one of its authorities', is signed with {signature}{key}: {VERIFIED}"
    )
    .into()
}
