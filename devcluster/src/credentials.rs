//! Certificates, keys and tokens of one cluster, made before its processes start.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use data_encoding::HEXLOWER;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// The user of the admin kubeconfig, as the audit log names it.
pub(crate) const ADMIN: &str = "devcluster-admin";

/// The user of the controllers, named as in any cluster.
const CONTROLLERS: &str = "system:kube-controller-manager";

/// What a client needs.
pub(crate) struct Credentials {
    pub(crate) ca_pem: String,
    pub(crate) admin_token: String,
    pub(crate) controllers_token: String,
    /// By which etcd is told from any other. Not a secret.
    pub(crate) etcd_name: String,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
}

/// Writes the files that the servers read, new ones at each start but for the key of the service accounts: their tokens
/// live in a store that may be kept.
pub(crate) fn write(directory: &Path) -> Result<Credentials, Error> {
    let credentials = Credentials {
        ca_pem: write_server_certificate(directory)?,
        admin_token: token(),
        controllers_token: token(),
        etcd_name: HEXLOWER.encode(&rand::random::<[u8; 8]>()),
    };
    let tokens = format!(
        "{},{ADMIN},{ADMIN},system:masters\n{},{CONTROLLERS},{CONTROLLERS},system:masters\n",
        credentials.admin_token, credentials.controllers_token,
    );
    write_private(&directory.join("tokens.csv"), &tokens)?;
    let private = directory.join("service-account.key");
    if !private.exists() {
        let key = KeyPair::generate()?;
        fs::write(directory.join("service-account.pub"), key.public_key_pem())?;
        write_private(&private, &key.serialize_pem())?;
    }
    Ok(credentials)
}

/// An authority of this cluster's own and a certificate for loopback; returns the authority's certificate.
///
/// kube-apiserver can make a pair by itself, but then nobody has the authority before the server is up, and it spends a
/// second on RSA keys.
fn write_server_certificate(directory: &Path) -> Result<String, Error> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "devcluster-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();

    let mut server = CertificateParams::new([
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
        "localhost".to_owned(),
        "kubernetes.default.svc".to_owned(),
    ])?;
    server
        .distinguished_name
        .push(DnType::CommonName, "devcluster-apiserver");
    let server_key = KeyPair::generate()?;
    let server_pem = server
        .signed_by(&server_key, &Issuer::new(authority, authority_key))?
        .pem();

    fs::write(directory.join("apiserver.crt"), server_pem)?;
    write_private(
        &directory.join("apiserver.key"),
        &server_key.serialize_pem(),
    )?;
    Ok(authority_pem)
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

fn token() -> String {
    HEXLOWER.encode(&rand::random::<[u8; 32]>())
}
