//! Copies of API tokens in the operator's own namespace. With a copy the operator can release servers when a deleted namespace
//! took Secret and Account with it and the operator restarted since.
//!
//! The copy of an Account is one Secret. It holds the endpoint together with the token, so that neither is ever used without the
//! other. The operator writes it before the first server of the Account is bought or recorded, updates it when the service has
//! accepted a new token, and deletes it once no Instance needs it any more. A process reads the copies when its term begins, and
//! uses them for deletions only. A copy that cannot be written blocks nothing.

use super::account_session::ServiceCredentials;
use super::tls::{CERTIFICATE, KEY};
use crate::api::AccountSpec;
use crate::api::names::{MANAGED_BY, MANAGER, TOKEN_COPY};
use crate::cloud::{Tls, TlsPem};
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Metrics, Shard};
use data_encoding::HEXLOWER;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, Preconditions};
use kube::{Api, Client, ResourceExt};
use rustls::pki_types::UnixTime;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroize;

/// Keys of the copy's Secret, in addition to those of a client certificate.
const TOKEN: &str = "token";
const ACCOUNT: &str = "account";
const CA_BUNDLE: &str = "ca.crt";
/// Labels. With `NAMESPACE`, an operator that watches only some namespaces finds its own copies.
const IS_COPY: &str = "cloudserver.dev/token-copy";
const NAMESPACE: &str = "cloudserver.dev/namespace";
const PAGE: u32 = 100;

/// The Account that the token belongs to, stored next to the token.
#[derive(Serialize, Deserialize)]
struct Source {
    namespace: String,
    name: String,
    spec: AccountSpec,
}

pub struct TokenCopy {
    pub account: ObjectKey,
    /// The Account's spec at the time of the copy, above all the endpoint.
    pub spec: AccountSpec,
    /// The token, and the certificates that a connection to the service needs.
    pub credentials: ServiceCredentials,
}

/// The copies of a process; cheap to clone.
#[derive(Clone)]
pub struct Copies(Arc<Inner>);

struct Inner {
    secrets: Api<Secret>,
    metrics: Metrics,
    /// By Account: a digest of each copy that is known to exist. Zeros if its content is not known.
    known: Mutex<HashMap<ObjectKey, [u8; 32]>>,
    /// Held during a write or a deletion. A write of equal content does not change the version of a Secret, so a deletion of that
    /// version would remove a copy that was written in the meantime.
    change: tokio::sync::Mutex<()>,
}

impl Copies {
    /// Copies in this namespace, which only the operator should be able to read.
    pub fn new(client: Client, namespace: &str, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            secrets: Api::namespaced(client, namespace),
            metrics,
            known: Mutex::default(),
            change: tokio::sync::Mutex::default(),
        }))
    }

    /// Reads the copies of one namespace, or of all, that belong to this shard.
    ///
    /// # Errors
    /// The list could not be read. A copy that cannot be parsed is skipped and left unchanged.
    pub async fn read(
        &self,
        namespace: Option<&str>,
        shard: Shard,
    ) -> Result<Vec<TokenCopy>, KubeError> {
        let labels = namespace.map_or_else(
            || IS_COPY.to_owned(),
            |namespace| format!("{IS_COPY},{NAMESPACE}={namespace}"),
        );
        let mut params = ListParams::default().labels(&labels).limit(PAGE);
        let mut copies = Vec::new();
        loop {
            let list = self.0.secrets.list(&params);
            let page = call("read the copies of tokens", list).await?;
            params.continue_token = page.metadata.continue_.clone().filter(|c| !c.is_empty());
            for secret in page.items {
                let name = secret.name_any();
                match understand(secret) {
                    Some(copy) if shard.owns(&copy.account.namespace) => copies.push(copy),
                    Some(_) => {}
                    None => tracing::warn!(name, "a copy of a token cannot be understood"),
                }
            }
            if params.continue_token.is_none() {
                break;
            }
        }
        let digests = copies.iter().map(|copy| {
            let digest = digest(&copy.spec, &copy.credentials);
            (copy.account.clone(), digest)
        });
        self.known().extend(digests);
        Ok(copies)
    }

    /// Writes the copy of an Account's token, unless it is known to be up to date.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn write(
        &self,
        account: &ObjectKey,
        spec: &AccountSpec,
        credentials: &ServiceCredentials,
    ) -> Result<(), KubeError> {
        let digest = digest(spec, credentials);
        if self.known().get(account) == Some(&digest) {
            return Ok(());
        }
        let _change = self.0.change.lock().await;
        let of = Source {
            namespace: account.namespace.clone(),
            name: account.name.clone(),
            spec: spec.clone(),
        };
        let mut secret = secret(&of, credentials);
        let (name, params) = (name_of(account), patch_params().force());
        let patch = Patch::Apply(&secret);
        let written = self.0.secrets.patch(&name, &params, &patch);
        let written = call("write the copy of a token", written).await;
        wipe(&mut secret);
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        self.0.metrics.kube_writes.count(["token_copy", result]);
        let client = credentials.tls.pem().and_then(|pem| pem.client.as_ref());
        let key = client.map(|(_, key)| key.expose_secret());
        let secrets = [Some(credentials.token.expose_secret()), key];
        let hidden = |error: KubeError| error.hiding(secrets.into_iter().flatten());
        wipe(&mut written.map_err(hidden)?);
        self.known().insert(account.clone(), digest);
        Ok(())
    }

    /// Deletes the copies that no Instance needs, until cancelled.
    pub async fn delete_unneeded(
        &self,
        is_needed: impl Fn(&ObjectKey) -> bool,
        stop: &CancellationToken,
    ) {
        let idle: Vec<ObjectKey> = {
            let known = self.known();
            let idle = known.keys().filter(|account| !is_needed(account));
            idle.cloned().collect()
        };
        for account in idle {
            if stop.is_cancelled() {
                return;
            }
            if let Err(error) = self.delete(&account, &is_needed).await {
                let (namespace, name) = (&account.namespace, &account.name);
                tracing::warn!(namespace, name, %error, "the copy of a token was not deleted");
            }
        }
    }

    /// Deletes a copy, but exactly the version that was read: a copy to which another process writes other content stays.
    async fn delete(
        &self,
        account: &ObjectKey,
        is_needed: impl Fn(&ObjectKey) -> bool,
    ) -> Result<(), KubeError> {
        const WHAT: &str = "delete the copy of a token";
        let _change = self.0.change.lock().await;
        let name = name_of(account);
        let found = match call(WHAT, self.0.secrets.get_metadata(&name)).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                self.known().remove(account);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // From here on, an Instance that needs the copy writes it again.
        self.known().remove(account);
        if is_needed(account) {
            return Ok(());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: found.metadata.resource_version,
                uid: found.metadata.uid,
            }),
            ..DeleteParams::default()
        };
        let deleted = call(WHAT, self.0.secrets.delete(&name, &params)).await;
        let result = deleted.as_ref().map_or_else(KubeError::category, |_| "ok");
        self.0.metrics.kube_writes.count(["token_copy", result]);
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                self.known().insert(account.clone(), [0; 32]); // a later sweep tries again
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ObjectKey, [u8; 32]>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an Account's copy: a digest, since namespace and Account name together can exceed the limit for names.
fn name_of(account: &ObjectKey) -> String {
    let parts = [account.namespace.as_bytes(), account.name.as_bytes()];
    let digest = HEXLOWER.encode(&super::digest::digest(&parts)[..16]);
    format!("token-copy-{digest}")
}

fn digest(spec: &AccountSpec, ServiceCredentials { token, tls }: &ServiceCredentials) -> [u8; 32] {
    let spec = serde_json::to_vec(spec).unwrap_or_default();
    let token = token.expose_secret().as_bytes();
    super::digest::digest(&[&spec, token, &tls.digest()])
}

fn secret(of: &Source, ServiceCredentials { token, tls }: &ServiceCredentials) -> Secret {
    let account = ObjectKey::new(&of.namespace, &of.name);
    let labels = [
        (MANAGED_BY, MANAGER),
        (IS_COPY, "true"),
        (NAMESPACE, &of.namespace),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let text = serde_json::to_vec(of).unwrap_or_default();
    let mut data = BTreeMap::new();
    let mut put = |key: &str, text: &str| {
        let bytes = ByteString(text.as_bytes().to_vec());
        data.insert(key.to_owned(), bytes);
    };
    put(TOKEN, token.expose_secret());
    if let Some(TlsPem { ca_bundle, client }) = tls.pem() {
        if let Some(bundle) = ca_bundle {
            put(CA_BUNDLE, bundle);
        }
        if let Some((certificate, key)) = client {
            put(CERTIFICATE, certificate);
            put(KEY, key.expose_secret());
        }
    }
    data.insert(ACCOUNT.to_owned(), ByteString(text));
    Secret {
        metadata: ObjectMeta {
            name: Some(name_of(&account)),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some(TOKEN_COPY.to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

fn wipe(secret: &mut Secret) {
    for bytes in secret.data.iter_mut().flat_map(|data| data.values_mut()) {
        bytes.0.zeroize();
    }
}

/// Parses a copy, and checks that it bears the name that belongs to its Account and holds the certificates that the Account names.
fn understand(mut secret: Secret) -> Option<TokenCopy> {
    let copy = (|| {
        let data = secret.data.as_ref()?;
        let of: Source = serde_json::from_slice(&data.get(ACCOUNT)?.0).ok()?;
        let text = |key: &str| {
            let bytes = data.get(key)?;
            std::str::from_utf8(&bytes.0).ok()
        };
        let token = text(TOKEN)?;
        let client = text(CERTIFICATE).zip(text(KEY));
        let pem = TlsPem {
            ca_bundle: text(CA_BUNDLE).map(str::to_owned),
            client: client.map(|(certificate, key)| (certificate.to_owned(), key.into())),
        };
        // Without a certificate that the Account names, the connection would use other trust settings than the Account's.
        let is_complete = has_certificates(&of.spec, &pem);
        let tls = Tls::new(pem, UnixTime::now())
            .ok()
            .filter(|_| is_complete)?;
        let account = ObjectKey::new(&of.namespace, &of.name);
        (secret.name_any() == name_of(&account)).then(|| TokenCopy {
            account,
            spec: of.spec,
            credentials: ServiceCredentials {
                token: SecretString::from(token),
                tls,
            },
        })
    })();
    wipe(&mut secret);
    copy
}

/// Whether the copy holds exactly the certificates that the Account names.
fn has_certificates(spec: &AccountSpec, TlsPem { ca_bundle, client }: &TlsPem) -> bool {
    let tls = spec.tls.as_ref();
    let names_bundle = tls.is_some_and(|tls| tls.ca_bundle.is_some());
    let names_client = tls.is_some_and(|tls| tls.client_certificate_secret_ref.is_some());
    names_bundle == ca_bundle.is_some() && names_client == client.is_some()
}

#[cfg(test)]
mod tests;
