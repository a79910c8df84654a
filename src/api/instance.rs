use super::account::default_account;
use super::account_status::minus_one;
use super::cause::Cause;
use super::import::Import;
use super::operation::{Applied, EndReason, Operation, OperationEnd, PowerState, Retry, Verb};
use super::policies::{
    DeletionPolicy, ManagementPolicy, OnExternalDeletion, Pause, Reconcile, Reinstall,
    ReinstallPolicy, Restart, StopPolicy,
};
use super::purchase_record::PurchaseRecord;
use super::references::{FirewallRef, ImageRef, PackageRef, Resolved, SshKeyRef};
use super::secrets::{ConnectionSecretRef, GeneratedLogin, PASSWORD, SecretKeyRef};
use super::valid::{NAME_MESSAGE, NAME_RULE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

/// A cloud server of the management service.
///
/// Fields that the service cannot change after creation become immutable once a server exists (`status.id` is set), except while
/// a condition (`SpecChangedAfterPurchase`) asks the user to set them back. These rules are on the root of the object, since they
/// compare spec with status. `package` and `import` are reserved words of CEL and are written `__package__` and `__import__`.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "cloudserver.dev",
    version = "v1alpha1",
    kind = "Instance",
    plural = "instances",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    shortname = "csinst",
    category = "cloudserver",
    selectable = ".spec.region",
    doc = "A cloud server of the management service: exactly one server for each Instance.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.detail.ecsStatus"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.addresses.public"),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.detail.imageName"),
    printcolumn(name = "Package", type_ = "string", json_path = ".status.package"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.status==\"False\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region", priority = "1"),
    printcolumn(name = "Id", type_ = "string", json_path = ".status.id", priority = "1"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expireTime", priority = "1"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || self.spec.__package__ == oldSelf.spec.__package__"
    ).message("spec.package cannot be changed: the service cannot resize a server; set it back; for another server, add an Instance with another name")
     .reason(Reason::FieldValueForbidden).field_path(".spec.package"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || self.spec.region == oldSelf.spec.region"
    ).message("spec.region cannot be changed: a server cannot move; set it back; for another server, add an Instance with another name")
     .reason(Reason::FieldValueForbidden).field_path(".spec.region"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || self.spec.zone == oldSelf.spec.zone"
    ).message("spec.zone cannot be changed: a server cannot move; set it back; for another server, add an Instance with another name")
     .reason(Reason::FieldValueForbidden).field_path(".spec.zone"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || (has(self.spec.firewall) == has(oldSelf.spec.firewall) && \
         (!has(self.spec.firewall) || self.spec.firewall == oldSelf.spec.firewall))"
    ).message("spec.firewall cannot be changed: the service cannot change it after creation; set it back; for another server, add an Instance with another name")
     .reason(Reason::FieldValueForbidden).field_path(".spec.firewall"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || self.spec.accountRef == oldSelf.spec.accountRef"
    ).message("spec.accountRef cannot be changed: a server cannot move to another account; set it back; for another server, add an Instance with another name")
     .reason(Reason::FieldValueForbidden).field_path(".spec.accountRef"),
    validation = Rule::new(
        "!has(self.spec.connectionSecret) || has(self.spec.login.sshKey) || self.spec.connectionSecret.name != \
         (has(self.spec.login.passwordSecretRef) ? self.spec.login.passwordSecretRef.name \
         : has(self.spec.login.generate) && has(self.spec.login.generate.secretName) ? self.spec.login.generate.secretName \
         : self.metadata.name + '-login')"
    ).message("spec.connectionSecret.name is the name of the login Secret: name another one")
     .field_path(".spec.connectionSecret"),
    validation = Rule::new(
        "!has(self.spec.login.generate) || has(self.spec.login.generate.secretName) || self.metadata.name.size() <= 247"
    ).message("the login Secret is named after this Instance and '-login', and that name is longer than 253 characters: set spec.login.generate.secretName, or use a shorter metadata.name")
     .field_path(".spec.login.generate"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(self.spec.__import__) == has(oldSelf.spec.__import__) && \
         (!has(self.spec.__import__) || self.spec.__import__ == oldSelf.spec.__import__))"
    ).message("spec.import cannot be changed while this Instance has a server: leave it as it is (deleting the Instance releases the server unless spec.deletionPolicy is Retain)")
     .reason(Reason::FieldValueForbidden).field_path(".spec")
)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// The Account, in this namespace, that pays for the server. Cannot be changed once a server exists.
    #[serde(default)]
    pub account_ref: AccountRef,

    /// Region code, for example ru-moscow-1, or the name of the region in the service's region list. A value of lower-case
    /// letters, digits, hyphens, dots and underscores counts as a code. Cannot be changed once a server exists.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,

    /// Zone code within the region, for example ru-moscow-1-a, or the name of the zone in the service's region list. A value of
    /// lower-case letters, digits, hyphens, dots and underscores counts as a code. Cannot be changed once a server exists.
    #[schemars(length(min = 1, max = 63))]
    pub zone: String,

    /// The package: CPUs, memory (GiB), disks (GiB) and traffic of the server, by code or by filter. Cannot be changed once a
    /// server exists.
    pub package: PackageRef,

    /// The image that is installed on the server. A change reinstalls the server, which erases its disk.
    pub image: ImageRef,

    /// The security group of the server. If absent, the create names none, and a service that requires one refuses the create.
    /// Cannot be set, changed or removed once a server exists.
    pub firewall: Option<FirewallRef>,

    /// The login of the server: exactly one of a password, a key pair, and a password that the operator generates.
    pub login: Login,

    /// A Secret that the operator keeps up to date for clients of the server: `host`, `port`, `username`, and `password` or
    /// `sshKeyId`. It contains the values that are in effect: a new password appears in it once the server has it.
    pub connection_secret: Option<ConnectionSecretRef>,

    /// An existing server to import; nothing is bought. Afterwards the server is managed like any other, and is released with
    /// its Instance. Cannot be changed once a server exists.
    pub import: Option<Import>,

    /// The desired power state: running, stopped, or left as it is.
    #[serde(default)]
    pub power_state: PowerState,

    /// A request to restart the server once: a new token triggers a restart.
    pub restart: Option<Restart>,

    /// A request to reinstall the server once, with the current image and login of the spec: a new token triggers the
    /// reinstall, which erases the disk.
    pub reinstall: Option<Reinstall>,

    /// When a change of image or login may erase the disk: Automatic (at once), OnRequest (with a new spec.reinstall.token that
    /// names the image) or Never. The conditions report changes that wait.
    #[serde(default)]
    pub reinstall_policy: ReinstallPolicy,

    /// The fate of the server when this Instance is deleted: Release, or Retain, which leaves the server at the service, where
    /// it is still billed.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// While true, the ValidatingAdmissionPolicy in deploy/, if installed, refuses the deletion of this Instance. If the Instance
    /// is deleted anyway, the server is not released.
    #[serde(default)]
    pub deletion_protection: bool,

    /// Manage, or Observe: the operator only observes the server and makes no call that changes anything; if the Instance is
    /// deleted, the server stays.
    #[serde(default)]
    pub management_policy: ManagementPolicy,

    /// A pause, during which the operator begins nothing: no call that changes anything, no release, and no write except status,
    /// receipts, a missing finalizer, and the Secret write that completes an operation that set a password. Operations in flight
    /// are followed to their end. A deletion waits.
    pub pause: Option<Pause>,

    /// How the server is stopped if powerState is Stopped.
    #[serde(default)]
    pub stop_policy: StopPolicy,

    /// The reaction to a server that was released externally: Fail reports it, Recreate buys another server.
    #[serde(default)]
    pub on_external_deletion: OnExternalDeletion,

    /// The maximum number of times, over the life of this Instance, that an externally released server is replaced by a new one.
    #[serde(default = "default_recreate_limit")]
    #[schemars(range(min = 0, max = 100))]
    pub recreate_limit: i32,

    /// The interval between reads of the server's detail, from 1m to 24h. If absent: 10m, and no such read while the service's
    /// listing reports enough and agrees with status.
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,2}h)?([0-9]{1,4}m)?([0-9]{1,5}s)?$') && size(self) > 0 && duration(self) >= duration('1m') && duration(self) <= duration('24h')"
    ).message("spec.resyncPeriod must be a duration from 1m to 24h, for example 10m or 1h30m"))]
    pub resync_period: Option<String>,

    /// A request to observe everything now: a new token triggers one read of the server's detail and of the listing.
    pub reconcile: Option<Reconcile>,
}

impl InstanceSpec {
    /// Whether the server stays at the service when the Instance is deleted.
    pub fn keeps_its_server(&self) -> bool {
        self.deletion_protection
            || self.deletion_policy == DeletionPolicy::Retain
            || self.management_policy == ManagementPolicy::Observe
    }

    /// The Secret with the login password, given or generated, and the key in it. None for a login by key pair.
    pub fn login_secret(&self, instance: &str) -> Option<SecretKeyRef> {
        if let Some(generate) = &self.login.generate {
            let name = generate.secret_name.clone();
            return Some(SecretKeyRef {
                name: name.unwrap_or_else(|| format!("{instance}-login")),
                key: PASSWORD.to_owned(),
            });
        }
        self.login.password_secret_ref.clone()
    }
}

fn default_recreate_limit() -> i32 {
    1
}

/// The Account that an Instance uses.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct AccountRef {
    /// Name of the Account in the Instance's own namespace.
    #[serde(default = "default_account")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME_RULE).message(NAME_MESSAGE))]
    pub name: String,
}

impl Default for AccountRef {
    fn default() -> Self {
        Self {
            name: default_account(),
        }
    }
}

/// The login of the server (as root on Linux, as Administrator on Windows).
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "[has(self.passwordSecretRef), has(self.sshKey), has(self.generate)].exists_one(is_set, is_set)"
).message("set exactly one of login.passwordSecretRef, login.sshKey and login.generate"))]
pub struct Login {
    /// The Secret, in this namespace, that contains the password: 8 to 30 characters with at least one of A-Z, one of a-z, one
    /// digit, and exactly one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? / (several, if passwordSpecialCharacters of the
    /// Account is AtLeastOne). If the password in it changes, the operator sets the new one on the server. The operator keeps
    /// no copy; with connectionSecret, the password in effect can be read until the service has set the new one.
    pub password_secret_ref: Option<SecretKeyRef>,
    /// A key pair of the service. A change reinstalls the server, which erases its disk; so does a change between key and
    /// password.
    pub ssh_key: Option<SshKeyRef>,
    /// A password that the operator generates and keeps in its own Secret, under the key `password`. This requires the
    /// permission to write Secrets, which deploy/secret-writer grants.
    pub generate: Option<GeneratedLogin>,
}

/// The observed state of the server, and the current operation.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = super::conditions::unwritten()))]
pub struct InstanceStatus {
    /// Generation of the spec that the conditions refer to; -1 until the operator has observed the Instance.
    #[serde(default = "minus_one")]
    pub observed_generation: i64,

    /// The server's identifier at the service (ecsResourceUUID, ecs-…).
    #[schemars(length(max = 253))]
    pub id: Option<String>,

    /// Addresses of the server.
    pub addresses: Option<Addresses>,

    /// The identifiers that the selectors of the spec were resolved to, once a server exists. A selector is resolved again only
    /// if the selector itself changes, so that a new image of the same name never reinstalls a server.
    pub resolved: Option<Resolved>,

    /// The packageCode of the server: the one that spec.package names or, once a server exists, the one that the filter was
    /// resolved to.
    #[schemars(length(max = 253))]
    pub package: Option<String>,

    /// The values that the service last accepted. If absent, they are derived from the record of the purchase and from the spec.
    pub applied: Option<Applied>,

    /// A reinstall of a running server has left it off, and it has not run since. With powerState Unmanaged, the operator starts
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_off: bool,

    /// The operation in flight at the service, or the last one if it failed.
    pub operation: Option<Operation>,

    /// Number of the last announced operation.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub attempt: i64,

    /// The image of a failed reinstall that no successful reinstall has followed. An edit to this image requests a
    /// reinstall, even if the server shows it.
    #[schemars(length(max = 253))]
    pub unfinished_image: Option<String>,

    /// Operations that ended badly and wait before they begin again: one of each kind, except that a reinstall whose outcome is
    /// unknown stays beside a later one that did not touch the disk. The success of an operation removes all entries of its kind,
    /// and an Instance that is Ready has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub retries: Vec<Retry>,

    /// Since when the server has been reported missing, while it is.
    pub missing_since: Option<Time>,

    /// The last eight completed operations, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub history: Vec<HistoryEntry>,

    /// The last spec.reconcile.token that was carried out.
    #[schemars(length(max = 253))]
    pub last_reconcile_token: Option<String>,

    /// The whole instance object as the service reports it (specification section 2.3), under the service's field names. As far
    /// as known, memory and disk sizes are in GiB, bandwidth in Mbit/s and freeFlow in GB. Fields that are not in the
    /// specification are included. A field of the specification is omitted while the service shows null or another type for it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "super::detail::schema")]
    pub detail: Map<String, Value>,

    /// The time until which the server is paid in advance, if the service shows one (expireTime, in the time zone of
    /// spec.utcOffset of the Account). The condition Expiring warns a week ahead.
    pub expire_time: Option<Time>,

    /// When the operator last wrote this status, which it does only if something has changed.
    pub last_observed_time: Option<Time>,

    /// Ready; once it is known whether status is up to date, Synced; and, only while true, Reconciling, Stalled, Drifted and
    /// Expiring.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::conditions::written"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

impl InstanceStatus {
    /// The end of the recorded create, if it failed, or if its server is gone and will be replaced.
    pub fn end_of(&self, record: &PurchaseRecord) -> Option<&OperationEnd> {
        let shown = self.operation.as_ref()?;
        let is_it = shown.verb == Verb::Create && shown.attempt == i64::from(record.attempt);
        shown.end.as_ref().filter(|_| is_it)
    }

    /// Whether status shows that the recorded create is complete: the server exists, and its applied values are known.
    pub fn shows_create_is_done(&self, record: &PurchaseRecord) -> bool {
        self.applied.is_some() && self.id.is_some() && self.id == record.id
    }
}

/// Addresses of the server.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The service's publicIpAddress.
    pub public: Option<String>,
    /// The service's internalIpAddress.
    pub internal: Option<String>,
}

/// A completed operation.
#[skip_serializing_none]
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// The operation.
    pub verb: Verb,
    /// Number of the attempt.
    pub attempt: i64,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// The reason why it failed.
    pub reason: Option<EndReason>,
    /// The service's message about it.
    pub message: Option<String>,
    /// The reason why it was begun.
    #[serde(default, deserialize_with = "Cause::read")]
    pub cause: Option<Cause>,
    /// Generation of the spec that it was begun for.
    pub generation: Option<i64>,
    /// Name, key, UID and resourceVersion of the Secret with the password that the operation was to set.
    pub password_secret: Option<String>,
    /// The server's power was cut, or may have been, before its operating system had shut down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub power_cut: bool,
    /// When the operation was recorded.
    pub started_at: Time,
    /// When its end was observed.
    pub finished_at: Time,
}

impl Instance {
    /// Names of the Secrets, in the Instance's namespace, whose changes concern this Instance.
    pub fn secrets(&self) -> impl Iterator<Item = String> {
        let login = self.spec.login_secret(&self.name_any());
        let connection = self.spec.connection_secret.as_ref();
        let connection = connection.map(|secret| secret.name.clone());
        let login = login.map(|secret| secret.name);
        login.into_iter().chain(connection)
    }
}
