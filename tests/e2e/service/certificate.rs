//! Invalid certificates: expired, not valid yet, for another name. Their authority is trusted, so that they have no other flaw.

use crate::support::{
    Setup, World, eventually, insist, instance, names, posts, quiet_all, server_id,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// The flaw of a certificate, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    Expired,
    NotYet,
    OtherName,
}

/// Issues certificates for loopback.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = "an authority of this test";
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub(super) fn certify(&self, flaw: Flaw) -> Certified {
        self.certify_to(flaw, None)
    }

    /// The certificate of a service that requires a client certificate of `clients`.
    pub(super) fn demanding(&self, clients: &Self) -> Certified {
        let mut roots = RootCertStore::empty();
        let pem = CertificateDer::from_pem_slice(clients.pem.as_bytes());
        roots.add(pem.unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
        self.certify_to(Flaw::None, Some(verifier.unwrap()))
    }

    /// A client's certificate and key, in PEM.
    pub(super) fn client(&self) -> (String, String) {
        let params = CertificateParams::new(["the operator".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn certify_to(&self, flaw: Flaw, clients: Option<Arc<dyn ClientCertVerifier>>) -> Certified {
        let name = match flaw {
            Flaw::OtherName => "elsewhere.example",
            _ => "127.0.0.1",
        };
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        match flaw {
            Flaw::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            Flaw::NotYet => params.not_before = date_time_ymd(4000, 1, 1),
            Flaw::None | Flaw::OtherName => {}
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => config.with_client_cert_verifier(clients),
        };
        let config = config.with_single_cert(chain, key).unwrap();
        Certified(flaw, Arc::new(config))
    }
}

/// A certificate in use.
#[derive(Clone)]
pub(super) struct Certified(Flaw, Arc<ServerConfig>);

impl Certified {
    /// A certificate and its key from files that another program made.
    pub(super) fn read(certificate: &Path, key: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate], key).unwrap();
        Self(Flaw::None, Arc::new(config))
    }
}

/// Each handshake: whether the client accepted the certificate before it sent anything.
type Handshakes = Arc<Mutex<Vec<(Flaw, bool)>>>;

/// Terminates TLS in front of the service.
pub(super) struct Front {
    pub(super) endpoint: String,
    certified: watch::Sender<Certified>,
    handshakes: Handshakes,
    task: AbortHandle,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Front {
    pub(super) async fn begin(world: &World, certified: Certified) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        let service = world.sim.url().rsplit('/').next().unwrap().to_owned();
        let (certified, current) = watch::channel(certified);
        let handshakes = Handshakes::default();
        let task = tokio::spawn(listen(listener, service, current, handshakes.clone()));
        Self {
            endpoint,
            certified,
            handshakes,
            task: task.abort_handle(),
        }
    }

    /// Replaces its certificate and restarts it: open connections end.
    pub(super) fn exchange(&self, certified: Certified) {
        self.certified.send_replace(certified);
    }

    pub(super) fn has_met(&self, flaw: Flaw, is_taken: bool) -> bool {
        self.handshakes.lock().unwrap().contains(&(flaw, is_taken))
    }

    pub(super) fn handshakes(&self) -> usize {
        self.handshakes.lock().unwrap().len()
    }

    async fn until_refused(&self, flaw: Flaw) {
        eventually(&format!("{flaw:?} is met"), async || {
            match self.has_met(flaw, false) {
                true => Ok(()),
                false => Err("no connection arrived".to_owned()),
            }
        })
        .await;
    }
}

async fn listen(
    listener: TcpListener,
    service: String,
    certified: watch::Receiver<Certified>,
    handshakes: Handshakes,
) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let (mut certified, handshakes) = (certified.clone(), handshakes.clone());
        let service = service.clone();
        tokio::spawn(async move {
            let Certified(flaw, config) = certified.borrow_and_update().clone();
            let near = TlsAcceptor::from(config).accept(near).await;
            handshakes.lock().unwrap().push((flaw, near.is_ok()));
            let Ok(mut near) = near else { return };
            let mut far = TcpStream::connect(service).await.unwrap();
            // An end of either side ends the connection.
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                _ = certified.changed() => {}
            }
        });
    }
}

/// Waits until the Account reports these words.
async fn until_reported(world: &World, words: &str) {
    eventually(&format!("the Account reports: {words}"), async || {
        let account = insist("read it", async || world.accounts().get("default").await);
        let status = account.await.unwrap().status.unwrap_or_default();
        let message = status
            .conditions
            .iter()
            .any(|c| c.reason == "ServiceUnreachable" && c.message.contains(words));
        match message {
            true => Ok(()),
            false => Err(format!("{:?}", status.conditions)),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_certificate_gets_no_token_and_is_reported() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("authorities.pem");
    std::fs::write(&trusted, &authority.pem).unwrap();
    let setup = Setup::default().environment("SSL_CERT_FILE", trusted.to_str().unwrap());
    let world = setup.begin("certificate").await;
    let front = Front::begin(&world, authority.certify(Flaw::None)).await;
    world.account("default", &front.endpoint).await;
    let fleet = names("web", 2);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    assert!(front.has_met(Flaw::None, true), "the authority is trusted");
    let before = posts(&world, 0).len();
    for (flaw, words) in [
        (Flaw::NotYet, "its certificate is not valid yet"),
        (Flaw::OtherName, "its certificate is for another name"),
    ] {
        let strange = Front::begin(&world, authority.certify(flaw)).await;
        world.account("default", &strange.endpoint).await;
        strange.until_refused(flaw).await;
        until_reported(&world, words).await;
        assert!(!strange.has_met(flaw, true), "a client accepted it");
    }
    // It expires while it is in use; only the certificate is fixed.
    world.account("default", &front.endpoint).await;
    eventually("it is in use again", async || {
        let account = insist("read it", async || world.accounts().get("default").await);
        let status = account.await.unwrap().status.unwrap_or_default();
        let is_ready = status
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        match is_ready {
            true => Ok(()),
            false => Err(format!("{:?}", status.conditions)),
        }
    })
    .await;
    front.exchange(authority.certify(Flaw::Expired));
    world.apply(&instance("new")).await;
    front.until_refused(Flaw::Expired).await;
    until_reported(&world, "its certificate has expired and is to be renewed").await;
    let new = world.until_reason("new", "ServiceUnreachable").await;
    assert!(new.status.unwrap().id.is_none());
    assert!(!front.has_met(Flaw::Expired, true), "a client accepted it");
    assert_eq!(posts(&world, 0).len(), before, "{}", world.ledger_text());
    front.exchange(authority.certify(Flaw::None));
    world.ready("new").await;
    for (web, before) in fleet.iter().zip(&ready) {
        assert_eq!(server_id(&world.ready(web).await), server_id(before));
    }
    quiet_all(&world).await;
    assert_eq!(world.sim.servers().len(), 3, "{}", world.ledger_text());
    world.finish().await;
}
