//! Signatures by keys on P-521, verified by the crate `p521`. Only public values are involved.

use p521::ecdsa::signature::hazmat::PrehashVerifier;
use p521::ecdsa::{Signature, VerifyingKey};
use rustls::SignatureScheme;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// ECDSA on P-521 with one hash function.
#[derive(Debug)]
struct Ecdsa {
    signature: AlgorithmIdentifier,
    hash: fn(&[u8]) -> Vec<u8>,
}

static WITH_SHA256: Ecdsa = Ecdsa {
    signature: alg_id::ECDSA_SHA256,
    hash: |message| Sha256::digest(message).to_vec(),
};
static WITH_SHA384: Ecdsa = Ecdsa {
    signature: alg_id::ECDSA_SHA384,
    hash: |message| Sha384::digest(message).to_vec(),
};
static WITH_SHA512: Ecdsa = Ecdsa {
    signature: alg_id::ECDSA_SHA512,
    hash: |message| Sha512::digest(message).to_vec(),
};

type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

/// For certificates. OpenSSL signs with SHA-256 by default.
pub(super) static ALL: Algorithms = &[&WITH_SHA256, &WITH_SHA384, &WITH_SHA512];

/// For handshakes: TLS 1.3 allows only this hash function with the curve. A TLS 1.2 server must choose it, too.
pub(super) static MAPPING: &[(SignatureScheme, Algorithms)] =
    &[(SignatureScheme::ECDSA_NISTP521_SHA512, &[&WITH_SHA512])];

impl SignatureVerificationAlgorithm for Ecdsa {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }

    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        let hash = (self.hash)(message);
        key.verify_prehash(&hash, &signature)
            .map_err(|_| InvalidSignature)
    }
}
