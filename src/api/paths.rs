use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Paths of the service that differ from the defaults. The defaults come from the specification or, if it leaves a path open,
/// from the field notes. A path is absolute and is appended to the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathOverrides {
    /// Create an instance. Default: /instance/create
    pub create: Option<OverridePath>,
    /// Release an instance. Default: /instance/release
    pub release: Option<OverridePath>,
    /// Reinstall the operating system of an instance. Default: /instance/reinstallSystem
    pub reinstall: Option<OverridePath>,
    /// Set the password of an instance's login account. Default: /instance/modifyInstancePassword
    pub modify_password: Option<OverridePath>,
    /// Start an instance. Default: /instance/start
    pub start: Option<OverridePath>,
    /// Stop an instance. Default: /instance/stop
    pub stop: Option<OverridePath>,
    /// Restart an instance. Default: /instance/restart
    pub restart: Option<OverridePath>,
    /// Details of one instance. Default: /instance/detail
    pub detail: Option<OverridePath>,
    /// Result of an asynchronous task. Default: /asynctask/getResult
    pub task: Option<OverridePath>,
    /// Instances of a zone. Default: /instance/list
    pub instances: Option<OverridePath>,
    /// Security groups of a region. Default: /firewall/list
    pub firewalls: Option<OverridePath>,
    /// Images of a region. Default: /image/list
    pub images: Option<OverridePath>,
    /// Key pairs of the account. Default: /sshkey/list
    pub keys: Option<OverridePath>,
    /// Packages of a zone. Default: /package/list
    pub packages: Option<OverridePath>,
    /// Regions and their zones. Default: /region/list
    pub regions: Option<OverridePath>,
}

/// The path of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct OverridePath(#[schemars(length(max = 256), regex(pattern = r"^/"))] pub String);
