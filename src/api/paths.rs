use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Paths of the service that differ from the defaults. The defaults come from the specification or, if it leaves a path open,
/// from the field notes. A path is absolute and is appended to the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathOverrides {
    /// Create an instance. Default: /instance/create
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub create: Option<String>,
    /// Release an instance. Default: /instance/release
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub release: Option<String>,
    /// Reinstall the operating system of an instance. Default: /instance/reinstallSystem
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub reinstall: Option<String>,
    /// Set the password of an instance's login account. Default: /instance/modifyInstancePassword
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub modify_password: Option<String>,
    /// Start an instance. Default: /instance/start
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub start: Option<String>,
    /// Stop an instance. Default: /instance/stop
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub stop: Option<String>,
    /// Restart an instance. Default: /instance/restart
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub restart: Option<String>,
    /// Details of one instance. Default: /instance/detail
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub detail: Option<String>,
    /// Result of an asynchronous task. Default: /asynctask/getResult
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub task: Option<String>,
    /// Instances of a zone. Default: /instance/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub instances: Option<String>,
    /// Security groups of a region. Default: /firewall/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub firewalls: Option<String>,
    /// Images of a region. Default: /image/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub images: Option<String>,
    /// Key pairs of the account. Default: /sshkey/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub keys: Option<String>,
    /// Packages of a zone. Default: /package/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub packages: Option<String>,
    /// Regions and their zones. Default: /region/list
    #[schemars(length(max = 256), regex(pattern = r"^/"))]
    pub regions: Option<String>,
}
