//! How an Account's service is reached: trusted authorities, client certificate, and proxy.

use super::secrets::SecretKeyRef;
use super::valid::{KEY_MESSAGE, KEY_RULE, NAME_MESSAGE, NAME_RULE};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// TLS settings for connections to the service.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.caBundle) || has(self.clientCertificateSecretRef)")
    .message("set spec.tls.caBundle, spec.tls.clientCertificateSecretRef, or both"))]
pub struct TlsSettings {
    /// The authorities that may issue the service's certificate, in PEM, at most 256 KiB. They replace the authorities of the
    /// operator's image: a bundle with only a private authority pins the service to it, and a bundle that also contains the
    /// public ones trusts both. A change takes effect within a minute.
    pub ca_bundle: Option<CaBundle>,

    /// The Secret, in this namespace, that contains the client certificate for the service: keys tls.crt (PEM, including the
    /// chain) and tls.key (PEM, not encrypted), as in a Secret of type kubernetes.io/tls. It must consent by the label
    /// cloudserver.dev/use: client-certificate. A change takes effect at once.
    pub client_certificate_secret_ref: Option<SecretRef>,
}

/// The source of a CA bundle: a ConfigMap or a Secret of this namespace.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configMapKeyRef) != has(self.secretKeyRef)")
    .message("set exactly one of caBundle.configMapKeyRef and caBundle.secretKeyRef"))]
pub struct CaBundle {
    /// One key of a ConfigMap.
    pub config_map_key_ref: Option<ConfigMapKeyRef>,
    /// One key of a Secret. It needs no consent, since its content is not sent anywhere.
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

/// The proxy for connections to the service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its URL, http://host:port, without user name and path. An https endpoint is reached by CONNECT, and TLS is end-to-end
    /// with the service. The proxy resolves the service's name, and therefore decides which host it reaches.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(
        "isURL(self) && url(self).getScheme() == 'http' && url(self).getHostname().size() > 0 && url(self).getEscapedPath() in ['', '/'] && url(self).getQuery().size() == 0 && !self.contains('@') && !self.contains('#')"
    ).message("proxy.url must be an http URL of host and port alone, for example http://proxy.example:3128"))]
    pub url: String,
}
