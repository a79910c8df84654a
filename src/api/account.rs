use super::account_status::AccountStatus;
use super::names::DEFAULT_ACCOUNT;
use super::paths::PathOverrides;
use super::secrets::SecretKeyRef;
use super::transport::{ProxySettings, TlsSettings};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// An account at a cloud-server management service: the endpoint and the credentials.
///
/// An Instance uses the Account that its `accountRef` names (`default` if it names none), always in its own namespace: no
/// credential crosses a namespace boundary.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "cloudserver.dev",
    version = "v1alpha1",
    kind = "Account",
    plural = "accounts",
    namespaced,
    status = "AccountStatus",
    derive = "PartialEq",
    shortname = "csacct",
    category = "cloudserver",
    doc = "An account at the cloud-server management service: its endpoint, its token, and limits on its use.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Servers", type_ = "integer", json_path = ".status.servers"),
    printcolumn(
        name = "Unowned",
        type_ = "integer",
        json_path = ".status.unownedServers"
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.limits.waiting"
    ),
    printcolumn(name = "Zones", type_ = "string", json_path = ".status.listedZones"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.endpoint",
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.tls) || !isURL(self.endpoint) || url(self.endpoint).getScheme() == 'https'"
).message("spec.tls needs an https endpoint: with http there is no TLS"))]
pub struct AccountSpec {
    /// Base URL of the service (the specification's {base_url}), without a query. With http, the token is sent unencrypted, and
    /// the condition InsecureEndpoint reports that. Internal addresses (loopback, link-local, metadata services) are refused,
    /// even if a name resolves to one, unless the operator's --allowed-endpoint names the host.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(
        "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getQuery().size() == 0 && !self.contains('@')"
    ).message("endpoint must be an http or https URL without user name and query, for example https://cloud.example/api"))]
    pub endpoint: String,

    /// The Secret, in this namespace, that contains the token for the header x-open-token. It must consent to this use: by its
    /// type cloudserver.dev/token or its label cloudserver.dev/use: token. If it has the annotation cloudserver.dev/endpoint,
    /// the token is sent only to the endpoints in that annotation (URLs, separated by white space) and the paths below them; a
    /// proxy must be listed there as well. If consent is withdrawn, deleted Instances still release servers with the token where
    /// they were bought. Two namespaces whose Accounts have the same token are one trust domain: see imports.
    pub token_secret_ref: SecretKeyRef,

    /// TLS settings for connections to the service. By default, the system's authorities are trusted and no client certificate
    /// is sent.
    pub tls: Option<TlsSettings>,

    /// The proxy for connections to the service. Without it, connections are direct, regardless of the operator's environment.
    pub proxy: Option<ProxySettings>,

    /// Limits on the operator's requests, shared by all Accounts with this endpoint and token (per shard, if the operator is
    /// sharded).
    #[serde(default)]
    pub requests: RequestLimits,

    /// Settling time: seconds after which the operator assumes that a call with an unknown outcome will not take effect any
    /// more. It must be longer than the latest possible execution at the service plus the delay until a new server appears in
    /// its listing.
    #[serde(default = "default_settle_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub settle_seconds: i32,

    /// Content of the field password if an Instance logs in by key: Omit omits the field; Empty sends an empty string; Random
    /// sends a random password that the operator does not keep, for a service that requires one with a key.
    #[serde(default)]
    pub key_login_password: KeyLoginPassword,

    /// How many special characters the service allows in a login password: ExactlyOne, as in the specification, or AtLeastOne,
    /// as in some editions of the service's documentation, which also count the backtick as one. The operator does not send a
    /// password that breaks this rule.
    #[serde(default)]
    pub password_special_characters: PasswordSpecialCharacters,

    /// The time zone of the times that the service reports, as an offset from UTC, for example +08:00. status.expireTime of an
    /// Instance depends on it.
    #[serde(default = "default_utc_offset")]
    #[schemars(regex(pattern = r"^[+-](0[0-9]|1[0-4]):[0-5][0-9]$"))]
    pub utc_offset: String,

    /// The maximum number of Instances of this Account that have a server or are about to get one. Further Instances wait until
    /// one of those is gone. An import counts as one, but never waits. The limit never causes a release. Without it, there is
    /// no limit; with 0, only Instances that count already may buy.
    #[schemars(range(min = 0, max = 100_000))]
    pub max_instances: Option<i32>,

    /// Whether Instances of this Account may import existing servers (spec.import). Two namespaces whose Accounts have the same
    /// token are one trust domain: with Allowed, every user who may create Instances in this namespace can import any server of
    /// that token that no Instance owns, even if it is meant for another namespace, and release it. A change does not affect
    /// servers that were already imported.
    #[serde(default)]
    pub imports: Imports,

    /// How fast servers may be bought, so that a runaway process that creates Instances does not buy servers without limit.
    /// Deletions are never delayed. Without it, there is no limit.
    pub create_rate: Option<CreateRate>,

    /// Paths of the service, relative to the endpoint. Set those that differ from the specification or, if the specification
    /// leaves them open, from the defaults.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paths: PathOverrides,

    /// Parts of the error codes by which the service reports that an instance or task does not exist, in addition to status 404
    /// with any code (field note 20: the codes are not specified). Case does not matter. If the service sends neither, the
    /// operator never reports a released server as missing, and its Instance cannot be deleted.
    #[serde(
        default = "default_missing_codes",
        skip_serializing_if = "is_default_missing_codes"
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[schemars(length(min = 1, max = 20), inner(length(min = 3, max = 100)))]
    pub missing_codes: Vec<String>,
}

/// Whether a field has the default value of its type.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Parts of the codes that the service is known to use for things that do not exist.
pub fn default_missing_codes() -> Vec<String> {
    ["NotFound", "NotExist"].map(str::to_owned).to_vec()
}

fn is_default_missing_codes(codes: &Vec<String>) -> bool {
    *codes == default_missing_codes()
}

/// The time zone of the service, as far as it is known (field note 27). An offset too far east only makes a warning appear
/// early.
fn default_utc_offset() -> String {
    "+08:00".to_owned()
}

fn default_settle_seconds() -> i32 {
    180
}

/// Limits on the operator's requests to the service (field note 13: the service's own limits are unknown).
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestLimits {
    /// Requests per second in the long run.
    #[schemars(range(min = 1, max = 1000))]
    pub per_second: i32,
    /// Requests in any 60 seconds, in addition to perSecond. Without it, there is no such limit.
    #[schemars(range(min = 2, max = 60_000))]
    pub per_minute: Option<i32>,
    /// Requests in any 3600 seconds, in addition to perSecond. Without it, there is no such limit.
    #[schemars(range(min = 2, max = 3_600_000))]
    pub per_hour: Option<i32>,
    /// Requests that may be sent at once after an idle period. At most half of perMinute and perHour are sent at once,
    /// regardless of this value.
    #[schemars(range(min = 1, max = 1000))]
    pub burst: i32,
    /// Concurrent requests.
    #[schemars(range(min = 1, max = 100))]
    pub concurrent: i32,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            per_second: 5,
            per_minute: None,
            per_hour: None,
            burst: 10,
            concurrent: 8,
        }
    }
}

/// How fast servers may be bought.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CreateRate {
    /// Creates in any 60 seconds, for all Instances of this Account together. Creates that the service refused do not count.
    #[schemars(range(min = 1, max = 10_000))]
    pub per_minute: i32,
}

/// Content of the field `password` of a create or reinstall with key login. The specification shows both fields and does not
/// define which of them is optional; clients of the service send both (field note 29).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLoginPassword {
    /// The field is omitted.
    #[default]
    Omit,
    /// The field is an empty string.
    Empty,
    /// The field is a random password, a different one for each call. The operator does not keep it.
    Random,
}

/// How many special characters a login password has.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PasswordSpecialCharacters {
    /// Exactly one.
    #[default]
    ExactlyOne,
    /// One or more.
    AtLeastOne,
}

/// Whether Instances may import existing servers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Imports {
    /// They may not: an Instance with spec.import only reports that imports are denied.
    #[default]
    Denied,
    /// They may import servers that no Instance owns.
    Allowed,
}

pub(super) fn default_account() -> String {
    DEFAULT_ACCOUNT.to_owned()
}
