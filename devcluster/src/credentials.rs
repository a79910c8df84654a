//! Certificates, keys and tokens of one cluster, created before its processes start.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use data_encoding::HEXLOWER;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// The user of the admin kubeconfig, as it appears in the audit log.
pub(crate) const ADMIN: &str = "devcluster-admin";

/// The user of the controllers, with its usual name.
const CONTROLLERS: &str = "system:kube-controller-manager";

/// The credentials of clients.
pub(crate) struct Credentials {
    pub(crate) ca_pem: String,
    pub(crate) admin_token: String,
    pub(crate) controllers_token: String,
    /// The name that identifies this cluster's etcd. Not a secret.
    pub(crate) etcd_name: String,
}

/// The reason why credentials cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
}

/// Writes the files that the servers read. They are new at each start, except for the key of the service accounts: their tokens
/// are in a store that may be kept.
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

/// Creates an authority for this cluster and a certificate for loopback; returns the authority's certificate.
///
/// kube-apiserver can create both on its own. But then clients get the authority only once the server runs, and the server
/// spends a second on RSA keys.
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

/// Writes a file that only its owner can read.
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
