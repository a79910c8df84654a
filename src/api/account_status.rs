//! The status of an Account.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The observed state of the account. Written if something changes: counts at most every 30 seconds, times of listings at most
/// every five minutes.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = super::conditions::unwritten()))]
pub struct AccountStatus {
    /// Generation of the spec that the conditions refer to; -1 until the operator has observed the Account.
    #[serde(default = "minus_one")]
    pub observed_generation: i64,
    /// The usage of spec.maxInstances and spec.createRate, and the Instances that wait for more.
    pub limits: Option<LimitsStatus>,
    /// Number of servers in the zones that Instances name, as far as these could be listed: the sum over all zones.
    pub servers: Option<i64>,
    /// Number of those servers that no Instance owns.
    pub unowned_servers: Option<i64>,
    /// Number of zones that could be listed, and of all zones: 1/2 if one of two fails. In servers and unownedServers, a
    /// zone that fails counts as it was last listed, and not at all if it never was.
    pub listed_zones: Option<String>,
    /// Servers by zone, for every zone that Instances name or recently named. Each zone can fail independently. If there are
    /// more than 100 zones, failing ones take precedence; listedZones, servers and unownedServers count all zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub inventory: Vec<PlaceInventory>,
    /// The first 20 servers that no Instance owns, sorted by region, zone and identifier: bought by hand or by another cluster,
    /// or left by a deleted Instance. unownedServers counts all of them. An entry lacks package and security group, which the
    /// listing does not report; the command in its field import looks them up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub unowned: Vec<UnownedServer>,
    /// When the operator observed the values in this status, which it writes only if something has changed.
    pub last_observed_time: Option<Time>,
    /// Since when the service has not answered, while that is the case; unchanged while retries fail. The condition Ready has
    /// the details.
    pub unreachable_since: Option<Time>,
    /// Conditions. Ready: the service answers, accepts the token, and refuses no calls because of the status of the account.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::conditions::written"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// The usage of an Account's limits, and the Instances that wait.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LimitsStatus {
    /// Number of Instances that have a server or are about to get one, and the maximum (spec.maxInstances). Every purchase
    /// record counts, including those of creates with an unknown outcome and of adopted or imported servers.
    pub instances: LimitUse,
    /// Number of creates in the last minute that the service did not refuse, and the maximum (spec.createRate.perMinute). A
    /// create with an unknown outcome counts. A new operator process begins at 0. Absent without this limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates_per_minute: Option<LimitUse>,
    /// Number of Instances that wait for one of the two limits. While the Account cannot be used, and right after that, at
    /// least the previous number.
    pub waiting: i64,
    /// Up to ten of them, not necessarily those that proceed next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub next: Vec<WaitingInstance>,
}

/// One limit.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// The current number.
    pub used: i64,
    /// The maximum; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<i64>,
}

/// An Instance that waits for a limit of its Account.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WaitingInstance {
    /// Its name.
    pub name: String,
    /// The limit that it waits for: AccountLimitReached or CreateRateReached, as in its condition Ready.
    pub reason: String,
}

/// The servers of one zone.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlaceInventory {
    /// Region code.
    pub region: String,
    /// Zone code.
    pub zone: String,
    /// Number of servers that the service lists there; absent until the zone was listed for the first time.
    pub servers: Option<i64>,
    /// Number of those servers that belong to an Instance.
    pub owned: Option<i64>,
    /// Number of those servers that no Instance owns.
    pub unowned: Option<i64>,
    /// Number of Instances there with an operation in progress or waiting for a listing, when status was written. An Instance
    /// counts for at most about five minutes at a time.
    pub in_flight: i64,
    /// When the zone was last listed to its end, for all Instances in it. In their status, usedFlow and values that the listing
    /// lacks may be older. The times of all zones are written once one is five minutes newer than written. Zones are listed
    /// about every minute, sooner while operations are in progress, and up to every four minutes if spec.requests is low for
    /// the number of servers; every five minutes if the operator only searches for servers of deleted Instances.
    pub last_listed_time: Option<Time>,
    /// Since when the zone cannot be listed, while that is the case; message has the reason. Unchanged while retries fail. If
    /// the service does not answer at all, the condition Ready reports that.
    pub failing_since: Option<Time>,
    /// The reason why the zone cannot be listed.
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// A server that no Instance owns.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UnownedServer {
    /// The service's ecsResourceUUID.
    pub id: String,
    /// The service's instanceName, if the listing reports it.
    pub name: Option<String>,
    /// Region code.
    pub region: String,
    /// Zone code.
    pub zone: String,
    /// The service's imageResourceUUID, if the listing reports it.
    pub image: Option<String>,
    /// The command that prints the manifest of an Instance that imports the server, ready for kubectl apply. It looks up
    /// package and security group, which the listing does not report. Absent if spec.imports is Denied, or if the identifier
    /// would need quoting in a shell.
    #[schemars(length(max = 1024))]
    pub import: Option<String>,
}

pub(super) fn minus_one() -> i64 {
    -1
}
