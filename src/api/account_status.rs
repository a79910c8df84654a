//! What the operator tells of an Account.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator has seen of the account. Written when something changes, counts at most once in 30 seconds; to say when
/// zones were last listed, at most once in five minutes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = super::conditions::unwritten()))]
pub struct AccountStatus {
    /// Generation of the spec that the conditions speak of; -1 until the operator has looked.
    #[serde(default = "minus_one")]
    pub observed_generation: i64,
    /// What is used of spec.maxInstances and spec.createRate, and who waits for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsStatus>,
    /// Servers in the zones that Instances name, as far as those could be listed: what all zones add up to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<i64>,
    /// Servers among them that no Instance owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unowned_servers: Option<i64>,
    /// How many of the zones could be listed, of how many: 1/2 where one of two fails. What servers and unownedServers cover;
    /// a zone that fails counts as it was listed last, and not at all if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_zones: Option<String>,
    /// Servers by place, in every zone that Instances name or named until lately. Zones fail one by one. Of more than 100 zones
    /// those that fail are kept first; listedZones, servers and unownedServers count all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub inventory: Vec<PlaceInventory>,
    /// The first 20 servers that no Instance owns, by region, zone and identifier: bought by hand or by another cluster.
    /// unownedServers counts all of them. Each with what an Instance needs that is to import it, and the command that makes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub unowned: Vec<UnownedServer>,
    /// When the values that stand here were first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
    /// Since when the service has not answered, while that is so; it stays the same while retries fail. The condition Ready says
    /// what was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Time>,
    /// Ready: the service answers and takes the token.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::conditions::written"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// What is used of an Account's limits, and who waits. Instances that wait are served in the order in which they were created.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LimitsStatus {
    /// Instances that have a server or are about to have one, and how many may (spec.maxInstances). What is on record counts:
    /// also where it is not known whether a create was carried out, and where the server was adopted or imported.
    pub instances: LimitUse,
    /// Creates sent in the last minute that the service did not refuse, and how many may be (spec.createRate.perMinute). One
    /// whose outcome is not known counts. A new process begins at 0. Left out without that limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates_per_minute: Option<LimitUse>,
    /// Instances that wait for one of the two; while the Account cannot be used, and right after that, as it was before.
    pub waiting: i64,
    /// The first ten of them, in the order in which they are served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub next: Vec<WaitingInstance>,
}

/// One limit.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// How many there are.
    pub used: i64,
    /// How many there may be; left out where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<i64>,
}

/// An Instance that waits for a limit of its Account.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WaitingInstance {
    /// Its name.
    pub name: String,
    /// What for: AccountLimitReached or CreateRateReached, as in its condition Ready.
    pub reason: String,
}

/// The servers of one place.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlaceInventory {
    /// Region code.
    pub region: String,
    /// Zone code.
    pub zone: String,
    /// Servers that the service lists there; left out until it was listed for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<i64>,
    /// Those among them that belong to an Instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<i64>,
    /// Those among them that no Instance owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unowned: Option<i64>,
    /// Instances with something in flight there, when it was counted.
    pub in_flight: i64,
    /// When the zone was last listed to its end, for all Instances in it: how old what their status shows may be. Written with
    /// other changes, and by itself once it is five minutes newer than what stands here; zones are listed every minute, and every
    /// five where only servers of Instances that are gone are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_listed_time: Option<Time>,
    /// Since when the zone cannot be listed, where that is so; message says why. It stays the same while retries fail. Where the
    /// service does not answer at all, the condition Ready says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// A server that no Instance owns.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UnownedServer {
    /// ecsResourceUUID.
    pub id: String,
    /// instanceName, if the listing tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Region code.
    pub region: String,
    /// Zone code.
    pub zone: String,
    /// imageResourceUUID, if the listing tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The command that prints the manifest of an Instance which takes the server over, ready for kubectl apply: package and
    /// security group, which the listing does not tell, are looked up by it. Left out where spec.imports is Denied, and where
    /// the identifier is none that a shell takes as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub import: Option<String>,
}

impl Default for AccountStatus {
    fn default() -> Self {
        Self {
            observed_generation: minus_one(),
            servers: None,
            unowned_servers: None,
            limits: None,
            listed_zones: None,
            inventory: Vec::new(),
            unowned: Vec::new(),
            last_observed_time: None,
            unreachable_since: None,
            conditions: Vec::new(),
        }
    }
}

pub(super) fn minus_one() -> i64 {
    -1
}
