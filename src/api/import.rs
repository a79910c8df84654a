use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// An existing server that was not bought for this Instance: selected by its identifier, or by a filter that must match exactly
/// one server of spec.region and spec.zone. A server matches if every given field does.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != (has(self.name) || has(self.address))")
    .message("set exactly one of import.id and a filter (name, address or both) in import"))]
pub struct Import {
    /// The service's ecsResourceUUID (ecs-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The server's exact name at the service (instanceName).
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// One of the server's addresses (publicIpAddress or internalIpAddress).
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,3}([.][0-9]{1,3}){3}|[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7})$')"
    ).message("import.address must be an IPv4 or IPv6 address, for example 203.0.113.7"))]
    pub address: Option<String>,
}

impl Import {
    /// The server as messages describe it.
    pub fn description(&self) -> String {
        let parts = [
            ("", &self.id),
            ("called ", &self.name),
            ("with address ", &self.address),
        ];
        let given = parts
            .into_iter()
            .filter_map(|(what, value)| Some(format!("{what}{}", value.as_deref()?)));
        format!("server {}", given.collect::<Vec<_>>().join(" "))
    }
}
