use super::account_status::AccountStatus;
use super::names::DEFAULT_ACCOUNT;
use super::paths::PathOverrides;
use super::secrets::SecretKeyRef;
use super::transport::{ProxySettings, TlsSettings};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the cloud-server management service is, and who we are there.
///
/// An Instance uses the Account named in its `accountRef`, or the one called `default`, of its own namespace only: no
/// credential crosses a namespace.
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
    doc = "An account at the cloud-server management service: its endpoint, its token, and how politely to use it.",
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
    /// Base address of the service (the specification's {base_url}), without a query. With http
    /// the token goes in the clear, and the condition InsecureEndpoint says so. Internal addresses (loopback, link-local,
    /// metadata services) are refused, however they are reached, unless the operator's --allowed-endpoint names the host.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(
        "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getQuery().size() == 0 && !self.contains('@')"
    ).message("endpoint must be an http or https URL without user name and query, for example https://cloud.example/api"))]
    pub endpoint: String,

    /// The Secret, in this namespace, that holds the token of the header x-open-token. It must consent to that: by its type
    /// cloudserver.dev/token or its label cloudserver.dev/use: token. Where it has the annotation cloudserver.dev/endpoint, the
    /// token goes to the endpoints that stand there (URLs, separated by white space) and what lies below them, and nowhere else;
    /// a proxy must stand there as well.
    /// Two namespaces whose Accounts have the same token are one trust domain: see imports.
    pub token_secret_ref: SecretKeyRef,

    /// How connections do TLS, where the system's authorities and no client certificate will not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSettings>,

    /// The proxy that connections go through. Without it they are direct, whatever the operator's environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxySettings>,

    /// Limits on our requests, for all Accounts with this endpoint and token together (of one shard, where there are shards).
    #[serde(default)]
    pub requests: RequestLimits,

    /// Seconds after which a create without a clear answer is believed not to happen any more: longer than the longest
    /// late execution at the service and the latest appearance of a new server in its listing.
    #[serde(default = "default_settle_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub settle_seconds: i32,

    /// Content of the field password when an Instance logs in by key: Omit leaves the field out; Empty sends an empty
    /// string; Random sends a random password that the operator keeps nowhere, for a service that requires one with a key.
    #[serde(default)]
    pub key_login_password: KeyLoginPassword,

    /// How many special characters the service allows in a login password: ExactlyOne, as the specification says, or AtLeastOne,
    /// as some editions of the service's documentation say; the backtick is one of them then. Another password is not sent.
    #[serde(default)]
    pub password_special_characters: PasswordSpecialCharacters,

    /// The time zone in which the service writes its times, as a distance from UTC such as +08:00. status.expireTime of an
    /// Instance depends on it.
    #[serde(default = "default_utc_offset")]
    #[schemars(regex(pattern = r"^[+-](0[0-9]|1[0-4]):[0-5][0-9]$"))]
    pub utc_offset: String,

    /// The most Instances of this Account that may have a server at the same time, or be about to have one. Further ones
    /// wait, and go on when one of those is gone. An import counts as one and is never held up. Nothing is released because
    /// of it. Without it there is no limit; 0 buys nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_instances: Option<i32>,

    /// Whether Instances of this Account may take over servers that exist (spec.import). Two namespaces whose Accounts have the
    /// same token are one trust domain: with Allowed, whoever may create Instances in this namespace may take over every
    /// server of that token which no Instance has, in whatever namespace it is meant to be, and release it. What was imported
    /// before stays with its Instance, whatever stands here.
    #[serde(default)]
    pub imports: Imports,

    /// How fast servers may be bought: what makes Instances without end must not buy servers without end. Deleting is never
    /// slowed. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_rate: Option<CreateRate>,

    /// Paths of the service, relative to the endpoint, where they differ from the specification or from what is known
    /// of the paths that it leaves open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paths: PathOverrides,

    /// Parts of error codes by which the service says that there is no such instance or task, besides status 404
    /// (field note 20: its words for it are not specified). Case does not matter. Without one that fits, a server that is
    /// gone is never told as missing, and its Instance cannot be deleted.
    #[serde(
        default = "default_missing_codes",
        skip_serializing_if = "is_default_missing_codes"
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[schemars(length(min = 1, max = 20), inner(length(min = 3, max = 100)))]
    pub missing_codes: Vec<String>,
}

fn is_default(paths: &PathOverrides) -> bool {
    *paths == PathOverrides::default()
}

/// Parts of the codes that the service is known to use for what does not exist.
pub fn default_missing_codes() -> Vec<String> {
    ["NotFound", "NotExist"].map(str::to_owned).to_vec()
}

fn is_default_missing_codes(codes: &Vec<String>) -> bool {
    *codes == default_missing_codes()
}

/// The time zone of the service, as far as it is known (field note 27). Too far east only means that a warning comes early.
pub fn default_utc_offset() -> String {
    "+08:00".to_owned()
}

fn default_settle_seconds() -> i32 {
    180
}

/// How many requests the operator may send to the service (field note 13: the service's own limits are unknown).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RequestLimits {
    /// Requests per second, in the long run.
    #[serde(default = "default_per_second")]
    #[schemars(range(min = 1, max = 1000))]
    pub per_second: i32,
    /// Requests in any 60 seconds, besides perSecond. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 60_000))]
    pub per_minute: Option<i32>,
    /// Requests in any 3600 seconds, besides perSecond. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 3_600_000))]
    pub per_hour: Option<i32>,
    /// Requests that may go out at once after a quiet time. At most half of perMinute and perHour go at once, whatever is set here.
    #[serde(default = "default_burst")]
    #[schemars(range(min = 1, max = 1000))]
    pub burst: i32,
    /// Requests under way at the same time.
    #[serde(default = "default_concurrent")]
    #[schemars(range(min = 1, max = 100))]
    pub concurrent: i32,
}

fn default_per_second() -> i32 {
    5
}
fn default_burst() -> i32 {
    10
}
fn default_concurrent() -> i32 {
    8
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            per_second: default_per_second(),
            per_minute: None,
            per_hour: None,
            burst: default_burst(),
            concurrent: default_concurrent(),
        }
    }
}

/// How fast servers may be bought.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CreateRate {
    /// Creates in any 60 seconds, for all Instances of this Account together. Those that the service refused do not count.
    #[schemars(range(min = 1, max = 10_000))]
    pub per_minute: i32,
}

/// Content of the field `password` of a create or reinstall with key login: the specification shows both fields and does
/// not say which of them may be missing; clients of the service send both (field note 29).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLoginPassword {
    /// The field is left out.
    #[default]
    Omit,
    /// The field is an empty string.
    Empty,
    /// The field is a random password, another one for each call. The operator keeps it nowhere.
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

/// Whether servers that exist may be taken over.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Imports {
    /// They may not: spec.import of an Instance does nothing but say so.
    #[default]
    Denied,
    /// They may, if no Instance has them.
    Allowed,
}

pub(super) fn default_account() -> String {
    DEFAULT_ACCOUNT.to_owned()
}
