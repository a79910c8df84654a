//! How an Account's service is reached: whom we trust, who we say we are, and through what.

use super::secrets::SecretKeyRef;
use super::valid::{KEY_MESSAGE, KEY_RULE, NAME_MESSAGE, NAME_RULE};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How connections to the service do TLS.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.caBundle) || has(self.clientCertificateSecretRef)")
    .message("set spec.tls.caBundle, spec.tls.clientCertificateSecretRef, or both"))]
pub struct TlsSettings {
    /// The authorities that the service's certificate may be of, in PEM, at most 256 KiB. They are trusted instead of those of
    /// the operator's image, so that a bundle of one's own authority alone is a pin; a bundle that holds the public ones too
    /// trusts both. Read again within half a minute of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,

    /// The Secret, in this namespace, that holds the client certificate by which the service knows us: keys tls.crt (PEM, with
    /// the chain behind it) and tls.key (PEM, not encrypted), as in a Secret of type kubernetes.io/tls. It has to consent, by
    /// the label cloudserver.dev/use: client-certificate. Used as soon as it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_secret_ref: Option<SecretRef>,
}

/// Where a CA bundle stands: in a ConfigMap or in a Secret of this namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configMapKeyRef) != has(self.secretKeyRef)")
    .message("set exactly one of caBundle.configMapKeyRef and caBundle.secretKeyRef"))]
pub struct CaBundle {
    /// One key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<ConfigMapKeyRef>,
    /// One key of a Secret. Needs no consent: nothing of it is sent anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,
}

/// One key of a ConfigMap in the object's own namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapKeyRef {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub name: String,
    /// Key within the ConfigMap's data.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(KEY_RULE).message(KEY_MESSAGE))]
    pub key: String,
}

/// A Secret in the object's own namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub name: String,
}

/// The proxy that connections to the service go through.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its address, http://host:port, without user name and path. An https endpoint is reached by CONNECT, and TLS is with the
    /// service itself; the service's name is resolved by the proxy, which so decides where it leads to.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(
        "isURL(self) && url(self).getScheme() == 'http' && url(self).getHostname().size() > 0 && url(self).getEscapedPath() in ['', '/'] && url(self).getQuery().size() == 0 && !self.contains('@') && !self.contains('#')"
    ).message("proxy.url must be an http URL of host and port alone, for example http://proxy.example:3128"))]
    pub url: String,
}
