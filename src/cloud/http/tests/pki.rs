//! Certificates made by the command `openssl`. A service presents them, and the Account trusts some of them.

use super::*;
use crate::runtime::tls::certificates;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const HERE: &str = "-addext subjectAltName=IP:127.0.0.1";
const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";
const P384: &str = "ec -pkeyopt ec_paramgen_curve:P-384";
const P521: &str = "ec -pkeyopt ec_paramgen_curve:P-521";

/// A folder for the keys and certificates of openssl.
struct Pki(TempDir);

impl Pki {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new("openssl");
        let openssl = openssl.args(arguments.split_whitespace());
        let output = openssl.current_dir(&self.0).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments}: {message}");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    /// Makes NAME.pem and NAME.key by `openssl req -x509`.
    fn self_signed(&self, name: &str, key: &str, more: &str) {
        self.openssl(&format!(
            "req -x509 -newkey {key} -nodes -keyout {name}.key -out {name}.pem -days 2 -subj /CN={name} {more}"
        ));
    }

    /// Makes NAME.pem, with a key on P-256, issued by the authority with these options of `openssl x509`.
    fn issued(&self, name: &str, authority: &str, request: &str, more: &str) {
        self.openssl(&format!(
            "req -new -newkey {P256} -nodes -keyout {name}.key -out {name}.csr -subj /CN={name} {request}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -out {name}.pem -days 2 {more}"
        ));
    }

    /// A service that presents NAME.pem.
    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let chain = certificates(&self.read(&format!("{name}.pem"))).unwrap();
        let key = self.read(&format!("{name}.key"));
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let key = provider().key_provider.load_private_key(key).unwrap();
        let certified = rustls::sign::CertifiedKey::new(chain, key);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        Arc::new(config)
    }

    /// The result of a request to a service that presents NAME.pem, for an Account that trusts this bundle.
    async fn probe(&self, name: &str, bundle: &str) -> Result<(), String> {
        let (address, _) = service(Some(self.server(name))).await;
        let trusting = by(&open(), tls(Some(bundle), None), None);
        probe(&trusting, &format!("https://{address}")).await
    }
}

#[tokio::test]
async fn a_self_signed_certificate_of_openssl_is_trusted_where_the_bundle_holds_it() {
    let pki = Pki::new();
    for key in ["rsa:2048", P256, P384, "ed25519"] {
        pki.self_signed("service", key, HERE);
        pki.self_signed("other", key, HERE);
        let bundle = pki.read("service.pem");
        assert_eq!(pki.probe("service", &bundle).await, Ok(()), "{key}");
        let refused = pki.probe("service", &pki.read("other.pem")).await;
        let words = "put it into spec.tls.caBundle";
        assert!(refused.as_ref().unwrap_err().contains(words), "{refused:?}");
    }
    // A trusted certificate must still be valid for this name, and now.
    pki.self_signed("elsewhere", P256, "-addext subjectAltName=IP:127.0.0.2");
    pki.self_signed("nameless", P256, "");
    for (name, words) in [
        ("elsewhere", "for another name"),
        ("nameless", "a subjectAltName"),
    ] {
        let refused = pki.probe(name, &pki.read(&format!("{name}.pem"))).await;
        assert!(refused.as_ref().unwrap_err().contains(words), "{refused:?}");
    }
    // Its purpose must match as well, except that of a CA certificate, which is openssl's default.
    for (usage, ca, is_trusted) in [
        ("clientAuth", "FALSE", false),
        ("codeSigning,emailProtection", "FALSE", false),
        ("critical,clientAuth", "FALSE", false),
        ("clientAuth,serverAuth", "FALSE", true),
        ("critical,serverAuth", "FALSE", true),
        ("critical,serverAuth", "TRUE", true),
        ("clientAuth", "TRUE", true),
    ] {
        let more = format!(
            "{HERE} -addext extendedKeyUsage={usage} -addext basicConstraints=critical,CA:{ca}"
        );
        pki.self_signed("purpose", P256, &more);
        let answered = pki.probe("purpose", &pki.read("purpose.pem")).await;
        match is_trusted {
            true => assert_eq!(answered, Ok(()), "{usage} {ca}"),
            false => {
                let refused = answered.unwrap_err();
                assert!(refused.contains("serverAuth"), "{usage} {ca}: {refused}");
            }
        }
    }
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = KeyPair::generate().unwrap();
    let over = params.self_signed(&key).unwrap().pem();
    for (file, text) in [("over.pem", over), ("over.key", key.serialize_pem())] {
        fs::write(pki.0.path().join(file), text).unwrap();
    }
    let both = pki.read("over.pem") + &pki.read("service.pem");
    let refused = pki.probe("over", &both).await.unwrap_err();
    assert!(refused.contains("has expired"), "{refused}");
}

#[tokio::test]
async fn an_authority_with_p521_is_trusted_with_each_hash_function() {
    let pki = Pki::new();
    for hash in ["-sha256", "-sha384", "-sha512"] {
        pki.self_signed("root", P521, hash);
        pki.issued(
            "leaf",
            "root",
            HERE,
            &format!("{hash} -copy_extensions copy"),
        );
        assert_eq!(
            pki.probe("leaf", &pki.read("root.pem")).await,
            Ok(()),
            "{hash}"
        );
        // An authority with the same name and another key.
        let namesake = Pki::new();
        namesake.self_signed("root", P521, hash);
        let refused = pki.probe("leaf", &namesake.read("root.pem")).await;
        let words = "authority that the operator does not trust";
        assert!(refused.as_ref().unwrap_err().contains(words), "{refused:?}");
    }
}

/// The service is openssl's, since rustls does not sign with P-521.
#[tokio::test]
async fn a_handshake_with_a_p521_server_key_succeeds() {
    let pki = Pki::new();
    pki.self_signed("service", P521, HERE);
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-cert", "service.pem"])
        .args(["-key", "service.key", "-www"])
        .current_dir(&pki.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut accepts = lines.map_while(Result::ok).filter_map(|line| {
        let address = line.strip_prefix("ACCEPT ")?;
        address.parse::<SocketAddr>().ok()
    });
    let address = accepts.next().unwrap();
    let trusting = by(&open(), tls(Some(&pki.read("service.pem")), None), None);
    let answered = probe(&trusting, &format!("https://{address}")).await;
    server.kill().unwrap();
    server.wait().unwrap();
    // openssl's page about the handshake is not an answer of a cloud service.
    let message = answered.unwrap_err();
    assert!(message.contains("answer"), "{message}");
}

#[tokio::test]
async fn a_bundle_joined_without_a_line_break_loses_no_certificate() {
    let pki = Pki::new();
    for name in ["one", "two", "three"] {
        pki.self_signed(name, P256, HERE);
    }
    let [one, two, three] = ["one.pem", "two.pem", "three.pem"].map(|file| pki.read(file));
    let joined = [&one, &two, &three].map(|pem| pem.trim_end()).concat();
    let indented = joined.replace('\n', "\n  ");
    for bundle in [
        joined.clone(),
        format!("\u{feff}{joined}"),
        joined.replace('\n', "\r\n"),
        format!("  {indented}"),
    ] {
        assert_eq!(certificates(&bundle).unwrap().len(), 3, "{bundle:?}");
        for name in ["one", "two", "three"] {
            assert_eq!(
                pki.probe(name, &bundle).await,
                Ok(()),
                "{name} of {bundle:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_verified_is_refused_with_its_flaw_and_the_remedy() {
    let pki = Pki::new();
    let copied = "-copy_extensions copy";
    let for_clients = format!("{HERE} -addext extendedKeyUsage=clientAuth");
    let no_authority = "-addext basicConstraints=critical,CA:FALSE";
    for (key, root, request, more, words) in [
        (
            P256,
            "",
            HERE,
            "-sha512 -copy_extensions copy",
            "does not verify the signature algorithm",
        ),
        (
            P384,
            "",
            HERE,
            "-sha512 -copy_extensions copy",
            "does not verify the signature algorithm",
        ),
        (
            "rsa:2048",
            "",
            HERE,
            "-sha1 -copy_extensions copy",
            "does not verify the signature algorithm",
        ),
        ("rsa:1024", "", HERE, copied, "RSA of fewer than 2048 bits"),
        ("rsa:2048", "", "", "", "UnsupportedCertVersion"),
        ("rsa:2048", "", &for_clients, copied, "serverAuth"),
        (
            P256,
            "",
            "-addext subjectAltName=IP:127.0.0.2",
            copied,
            "for another name",
        ),
    ] {
        pki.self_signed("root", key, root);
        pki.issued("leaf", "root", request, more);
        let refused = pki.probe("leaf", &pki.read("root.pem")).await.unwrap_err();
        assert!(refused.contains(words), "{words}: {refused}");
    }
    // The issuer of the intermediate certificate is not an authority.
    pki.self_signed("root", P256, "");
    pki.issued("between", "root", no_authority, copied);
    pki.issued("leaf", "between", HERE, copied);
    let chain = pki.read("leaf.pem") + &pki.read("between.pem");
    fs::write(pki.0.path().join("leaf.pem"), chain).unwrap();
    let refused = pki.probe("leaf", &pki.read("root.pem")).await.unwrap_err();
    assert!(refused.contains("EndEntityUsedAsCa"), "{refused}");
}
