//! Reads an Account's TLS settings from the ConfigMap and the Secrets that it names.

use super::account_session::Problem;
use super::consent::{Destination, Use, UseProblem, read_for};
use super::secrets::{SecretProblem, SecretVersions, read, version};
use crate::api::conditions::Reason;
use crate::api::valid;
use crate::api::{AccountSpec, CaBundle, ConfigMapKeyRef, SecretKeyRef, TlsSettings};
use crate::cloud::{Route, Tls, TlsError, TlsPem};
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use rustls::pki_types::UnixTime;
use secrecy::ExposeSecret;

/// Keys in the Secret of a client certificate, as in `kubernetes.io/tls`.
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";

/// Reads the objects that an Account's `spec.tls` names. Returns the settings, and the versions of the objects as
/// [`tls_version`] does.
///
/// # Errors
/// An object is missing, does not consent, or is not usable. The message never contains the object's content.
pub async fn read_tls(
    client: &Client,
    namespace: &str,
    spec: &AccountSpec,
    destination: &Destination,
) -> Result<(Tls, String), Problem> {
    let Some(TlsSettings {
        ca_bundle,
        client_certificate_secret_ref,
    }) = &spec.tls
    else {
        return Ok((Tls::default(), String::new()));
    };
    let (mut pem, mut versions) = (TlsPem::default(), Vec::new());
    if let Some(bundle) = ca_bundle {
        let (text, version) = read_bundle(client, namespace, bundle).await?;
        pem.ca_bundle = Some(text);
        versions.push(version);
    }
    if let Some(reference) = client_certificate_secret_ref {
        let name = &reference.name;
        let used_as = Use::ClientCertificate;
        let content = read_for(client, namespace, name, used_as, destination).await;
        let mut content = content.map_err(|problem| match problem {
            UseProblem::Secret(problem) => CLIENT.problem(&problem, namespace),
            UseProblem::Refused(refusal) => refusal.problem(),
        })?;
        let mut take = |key| {
            let taken = content.take(name, key);
            taken.map_err(|problem| CLIENT.problem(&problem, namespace))
        };
        let chain = take(CERTIFICATE)?.expose_secret().to_owned();
        pem.client = Some((chain, take(KEY)?));
        versions.push(content.version());
    }
    let tls = Tls::new(pem, UnixTime::now()).map_err(|error| not_usable(error, spec))?;
    Ok((tls, versions.join(" ")))
}

/// The versions of the objects that `spec.tls` names, as watches show them; None if an object must be read to know its version. No
/// watch covers ConfigMaps, so `bundle` is the last known version of the ConfigMap.
pub fn tls_version(
    secrets: &SecretVersions,
    namespace: &str,
    spec: &AccountSpec,
    bundle: Option<&str>,
) -> Option<String> {
    let mut versions = Vec::new();
    if names_config_map(spec) {
        versions.push(bundle?.to_owned());
    }
    for name in tls_secrets(spec) {
        versions.push(secrets.of(&ObjectKey::new(namespace, name))?);
    }
    Some(versions.join(" "))
}

/// The CA bundle's part of the versions that [`read_tls`] returned.
pub fn bundle_version(version: &str) -> &str {
    version.split(' ').next().unwrap_or_default()
}

/// How to reach an Account's service.
pub fn route(spec: &AccountSpec, tls: &Tls) -> Route {
    Route {
        tls: tls.clone(),
        proxy: spec.proxy.as_ref().map(|proxy| proxy.url.clone()),
    }
}

/// The Secrets that `spec.tls` names, in the order in which [`read_tls`] reads them.
pub fn tls_secrets(spec: &AccountSpec) -> impl Iterator<Item = &str> {
    let bundle = bundle_secret(spec).map(|reference| reference.name.as_str());
    bundle.into_iter().chain(client_secret(spec))
}

fn bundle_secret(spec: &AccountSpec) -> Option<&SecretKeyRef> {
    let bundle = spec.tls.as_ref()?.ca_bundle.as_ref()?;
    bundle.secret_key_ref.as_ref()
}

fn client_secret(spec: &AccountSpec) -> Option<&str> {
    let reference = spec.tls.as_ref()?.client_certificate_secret_ref.as_ref()?;
    Some(&reference.name)
}

/// Whether the Account names a ConfigMap, which no watch covers.
pub fn names_config_map(spec: &AccountSpec) -> bool {
    let bundle = spec.tls.as_ref().and_then(|tls| tls.ca_bundle.as_ref());
    bundle.is_some_and(|bundle| bundle.config_map_key_ref.is_some())
}

async fn read_bundle(
    client: &Client,
    namespace: &str,
    bundle: &CaBundle,
) -> Result<(String, String), Problem> {
    if let Some(reference) = &bundle.config_map_key_ref {
        return read_config_map(client, namespace, reference).await;
    }
    // The CRD's schema rejects a bundle without a source.
    let Some(SecretKeyRef { name, key }) = &bundle.secret_key_ref else {
        let message = "spec.tls.caBundle names neither a ConfigMap nor a Secret: name one";
        return Err(Problem::new(Reason::CaBundleNotFound, message));
    };
    let content = read(client, namespace, name).await;
    let mut content = content.map_err(|problem| BUNDLE.problem(&problem, namespace))?;
    let text = content.take(name, key);
    let text = text.map_err(|_| no_bundle_under(name, key))?;
    Ok((text.expose_secret().to_owned(), content.version()))
}

async fn read_config_map(
    client: &Client,
    namespace: &str,
    ConfigMapKeyRef { name, key }: &ConfigMapKeyRef,
) -> Result<(String, String), Problem> {
    let missing = |message| Problem::new(Reason::CaBundleNotFound, message);
    valid::object_name(name)
        .map_err(|no_name| missing(format!("{no_name}: fix spec.tls.caBundle")))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut found = match call("read ConfigMap", api.get(name)).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => {
            return Err(missing(format!(
                "ConfigMap {name} does not exist in namespace {namespace}: create it with the CA bundle under key {key}"
            )));
        }
        Err(error) => {
            let message = format!("ConfigMap {name} could not be read: {error}");
            return Err(Problem::new(Reason::ConfigMapReadFailed, message));
        }
    };
    let text = found.data.as_mut().and_then(|data| data.remove(key));
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| {
        missing(format!(
            "ConfigMap {name} has nothing under key {key}: put the CA bundle there"
        ))
    })?;
    let (uid, resource_version) = (found.uid(), found.resource_version());
    let version = version(
        &uid.unwrap_or_default(),
        &resource_version.unwrap_or_default(),
    );
    Ok((text, version))
}

/// A part of `spec.tls`, as its problems describe it.
struct TlsPart {
    field: &'static str,
    content: &'static str,
    not_found: Reason,
}

const BUNDLE: TlsPart = TlsPart {
    field: "spec.tls.caBundle",
    content: "the CA bundle",
    not_found: Reason::CaBundleNotFound,
};
const CLIENT: TlsPart = TlsPart {
    field: "spec.tls.clientCertificateSecretRef",
    content: "the client certificate as tls.crt and its private key as tls.key",
    not_found: Reason::ClientCertificateNotFound,
};

impl TlsPart {
    /// The Secret that should hold this part yields no value.
    fn problem(&self, problem: &SecretProblem, namespace: &str) -> Problem {
        let Self { field, content, .. } = self;
        let (reason, remedy) = match problem {
            SecretProblem::NoSecret(_) => (
                self.not_found,
                format!(" in namespace {namespace}: create it with {content}"),
            ),
            SecretProblem::InvalidName(_) => (self.not_found, format!(": fix {field}")),
            SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => {
                (self.not_found, format!(": put {content} there"))
            }
            // For a bundle see `no_bundle_under`.
            SecretProblem::NotText { .. } => (
                Reason::ClientCertificateInvalid,
                format!(": put {content} there, in PEM"),
            ),
            SecretProblem::Unread { .. } => (Reason::SecretReadFailed, String::new()),
        };
        Problem::new(reason, format!("{problem}{remedy}"))
    }
}

/// A Secret need not consent to be used as a CA bundle. A missing key and a value that is not a certificate get the same
/// message, so that no message reveals the keys of such a Secret.
fn no_bundle_under(name: &str, key: &str) -> Problem {
    let message = format!(
        "Secret {name} holds no CA bundle under key {key}: put certificates of authorities in PEM there, at most 256 KiB"
    );
    Problem::new(Reason::CaBundleInvalid, message)
}

/// The problem to report for content that is not usable.
fn not_usable(error: TlsError, spec: &AccountSpec) -> Problem {
    match (error, bundle_secret(spec), client_secret(spec)) {
        (TlsError::Bundle(_) | TlsError::Setup, Some(SecretKeyRef { name, key }), _) => {
            no_bundle_under(name, key)
        }
        (TlsError::Client(_), _, Some(name)) => {
            let message = format!("{error}: fix Secret {name}");
            Problem::new(Reason::ClientCertificateInvalid, message)
        }
        _ => {
            let message = format!("{error}: fix what spec.tls.caBundle names");
            Problem::new(Reason::CaBundleInvalid, message)
        }
    }
}
