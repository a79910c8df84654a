//! The operator's certificate verifier understands the environment that the chart sets for a CA bundle.

use crate::rendered::helm_with;
use cloud_server_operator::cloud::Trust;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the folder in which the second test finds the certificates.
const CERTIFICATES: &str = "CHART_TEST_CERTIFICATES";
const NAME: &str = "cloud.example";

/// An authority, and a certificate that it issued.
fn authority() -> (String, Vec<u8>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let leaf = CertificateParams::new([NAME.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer);
    (pem, leaf.unwrap().der().to_vec())
}

/// A folder as a kubelet mounts a ConfigMap: a link to a file behind a link to a folder.
fn mounted(folder: &Path, pem: &str) {
    let data = folder.join("..2026_01_01");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("ca.crt"), pem).unwrap();
    std::os::unix::fs::symlink("..2026_01_01", folder.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/ca.crt", folder.join("ca.crt")).unwrap();
}

#[test]
fn a_ca_bundle_is_trusted_in_addition_to_the_authorities_of_the_image() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    let (of_the_image, by_the_image) = authority();
    let (of_the_bundle, by_the_bundle) = authority();
    let (_, untrusted) = authority();
    for folder in ["image", "trusted", "refused"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("image/ca-certificates.crt"), of_the_image).unwrap();
    mounted(&at("bundle"), &of_the_bundle);
    fs::write(at("trusted/image.der"), by_the_image).unwrap();
    fs::write(at("trusted/bundle.der"), by_the_bundle).unwrap();
    fs::write(at("refused/untrusted.der"), untrusted).unwrap();

    // The value from the chart, with the container's two folders replaced by local ones.
    let release = helm_with(&[r#"caBundle.configMapName="ours""#]);
    let pod = &release["Deployment cloud-server-system/cloud-server-operator"]["spec"]["template"]
        ["spec"];
    let container = &pod["containers"][0];
    let variables = container["env"].as_array().unwrap();
    let variable = variables
        .iter()
        .find(|one| one["name"] == "SSL_CERT_DIR")
        .unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    let bundle = mounts.iter().find(|one| one["name"] == "ca-bundle");
    let bundle = bundle.unwrap()["mountPath"].as_str().unwrap();
    let folders = variable["value"].as_str().unwrap();
    let here = |path: PathBuf| path.to_str().unwrap().to_owned();
    let folders = folders
        .replace("/etc/ssl/certs", &here(at("image")))
        .replace(bundle, &here(at("bundle")));

    // In a separate process, since the environment belongs to the process.
    let judged = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "authorities::certificates_are_judged_by_the_environment",
        ])
        .env_remove("SSL_CERT_FILE")
        .env("SSL_CERT_DIR", folders)
        .env(CERTIFICATES, directory.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&judged.stdout);
    assert!(
        judged.status.success() && output.contains("1 passed"),
        "{output}"
    );
}

#[test]
#[ignore = "the test above runs it, with certificates and an environment"]
fn certificates_are_judged_by_the_environment() {
    let directory = PathBuf::from(std::env::var_os(CERTIFICATES).unwrap());
    let verifier = Trust::system().unwrap();
    let mut judged = 0;
    for (folder, trusted) in [("trusted", true), ("refused", false)] {
        for file in fs::read_dir(directory.join(folder)).unwrap() {
            let file = file.unwrap().path();
            let certificate = CertificateDer::from(fs::read(&file).unwrap());
            let name = ServerName::try_from(NAME).unwrap();
            let verdict =
                verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now());
            assert_eq!(verdict.is_ok(), trusted, "{}: {verdict:?}", file.display());
            judged += 1;
        }
    }
    assert_eq!(judged, 3);
}
