//! How a spec names things of the service: by the identifier that the service gave them, or by what they are.
//!
//! Each reference has exactly one way at a time (rules of the schema). What a selector means is looked up once and
//! pinned in `status.resolved`, with the selector that it was looked up for.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A package of the service: by its code, or the smallest that is at least as large as the filter says.
///
/// The service tells no prices, so "smallest" is an order of its own: by cpu, memory, systemDisk, dataDisk, the charge
/// mode's name, the bandwidth or free traffic that comes with it, and code.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.code) != (has(self.cpu) || has(self.memory) || has(self.systemDisk) || has(self.dataDisk) || has(self.chargeMode))"
).message("set either spec.package.code or a filter (cpu, memory, systemDisk, dataDisk, chargeMode) in spec.package, not both and not neither"))]
pub struct PackageRef {
    /// The service's packageCode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub code: Option<String>,
    /// At least so many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub cpu: Option<i32>,
    /// At least so much memory, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub memory: Option<i32>,
    /// At least so large a system disk, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub system_disk: Option<i32>,
    /// At least so large a data disk, in GiB. Without it, a package without a data disk comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub data_disk: Option<i32>,
    /// How traffic is paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge_mode: Option<ChargeMode>,
}

/// How the traffic of a package is paid (the service's publicIpChargeMode).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeMode {
    /// By what is sent, with some of it free.
    PayByTraffic,
    /// By the bandwidth that is reserved.
    PayByBandwidth,
}

/// An image of the service: by its identifier, or by what it is called. A selector has to fit exactly one image of the
/// region; which one that is stays the same until the selector itself changes, whatever images the service adds.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new(
    "has(self.id) ? !(has(self.name) || has(self.distribution) || has(self.type)) : (has(self.name) || has(self.distribution))"
).message("set either spec.image.id or a selector (name, distribution or both, and type where wanted) in spec.image, not both and not neither"))]
pub struct ImageRef {
    /// The service's imageResourceUUID (img-…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's imageName, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// The service's osDistroVersion, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub distribution: Option<String>,
    /// The service's imageType.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub kind: Option<ImageKind>,
}

/// Who made an image (the service's imageType).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// The service: an operating system.
    System,
    /// The account itself.
    #[serde(rename = "Self")]
    Own,
    /// The service: an operating system with an application.
    Application,
}

/// A security group of the service: by its identifier, or by its name where only one of the region has it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("set exactly one of spec.firewall.id and spec.firewall.name"))]
pub struct FirewallRef {
    /// The service's firewallUUID (fw-…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's firewallName, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// A key pair of the service: by its identifier, or by its name where only one of the account has it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("set exactly one of login.sshKey.id and login.sshKey.name"))]
pub struct SshKeyRef {
    /// The service's sshKeyUUID (key-…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's sshKeyName, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// What a selector was found to mean.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference {
    /// What the service calls it.
    #[schemars(length(max = 253))]
    pub id: String,
    /// The selector that it was looked up for: another one is looked up anew.
    #[schemars(length(max = 2048))]
    pub from: String,
}

/// What the selectors of a spec were found to mean. References by identifier or code do not stand here.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The region code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<ResolvedReference>,
    /// The zone code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ResolvedReference>,
    /// The packageCode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<ResolvedReference>,
    /// The imageResourceUUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ResolvedReference>,
    /// The firewallUUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<ResolvedReference>,
    /// The sshKeyUUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<ResolvedReference>,
}

impl Resolved {
    /// Itself, unless there is nothing in it.
    pub fn if_any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The parts of a selector, each with its field, as one text: the same selector is always the same text, and names are
/// quoted, so that no name can look like another part.
struct Parts(Vec<String>);

impl Parts {
    fn of<const N: usize>(parts: [(&str, Option<String>); N]) -> Self {
        let parts = parts.into_iter();
        let said = parts.filter_map(|(field, value)| Some(format!("{field} {}", value?)));
        Self(said.collect())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

fn quoted(text: Option<&String>) -> Option<String> {
    text.map(|text| format!("{text:?}"))
}

/// The selector of what is named by identifier or by name; none where the identifier is given.
fn by_name(id: Option<&String>, name: Option<&String>) -> Option<String> {
    let parts = [("name", quoted(name))];
    id.is_none().then(|| Parts::of(parts).to_string())
}

impl PackageRef {
    /// A package by its code.
    pub fn of_code(code: impl Into<String>) -> Self {
        Self {
            code: Some(code.into()),
            ..Self::default()
        }
    }

    /// The filter in words; none where the code is given.
    pub fn selector(&self) -> Option<String> {
        let number = |value: Option<i32>| value.map(|value| value.to_string());
        let mode = self.charge_mode.map(|mode| mode.as_str().to_owned());
        let parts = [
            ("cpu", number(self.cpu)),
            ("memory", number(self.memory)),
            ("systemDisk", number(self.system_disk)),
            ("dataDisk", number(self.data_disk)),
            ("chargeMode", mode),
        ];
        self.code.is_none().then(|| Parts::of(parts).to_string())
    }
}

impl ChargeMode {
    /// The service's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PayByTraffic => "PayByTraffic",
            Self::PayByBandwidth => "PayByBandwidth",
        }
    }
}

impl ImageRef {
    /// An image by its identifier.
    pub fn of_id(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..Self::default()
        }
    }

    /// The selector in words; none where the identifier is given.
    pub fn selector(&self) -> Option<String> {
        let parts = [
            ("name", quoted(self.name.as_ref())),
            ("distribution", quoted(self.distribution.as_ref())),
            ("type", self.kind.map(|kind| kind.as_str().to_owned())),
        ];
        self.id.is_none().then(|| Parts::of(parts).to_string())
    }

    /// Whether an image with these properties is one that the selector means. What is not known of it fits nothing.
    pub fn fits(&self, name: Option<&str>, distribution: Option<&str>, kind: Option<&str>) -> bool {
        let is = |wanted: Option<&str>, found: Option<&str>| {
            wanted.is_none_or(|wanted| found == Some(wanted))
        };
        self.id.is_none()
            && is(self.name.as_deref(), name)
            && is(self.distribution.as_deref(), distribution)
            && is(self.kind.map(ImageKind::as_str), kind)
    }
}

impl ImageKind {
    /// The service's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Own => "Self",
            Self::Application => "Application",
        }
    }
}

impl FirewallRef {
    /// A security group by its identifier.
    pub fn of_id(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            name: None,
        }
    }

    /// The selector in words; none where the identifier is given.
    pub fn selector(&self) -> Option<String> {
        by_name(self.id.as_ref(), self.name.as_ref())
    }
}

impl SshKeyRef {
    /// A key pair by its identifier.
    pub fn of_id(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            name: None,
        }
    }

    /// The selector in words; none where the identifier is given.
    pub fn selector(&self) -> Option<String> {
        by_name(self.id.as_ref(), self.name.as_ref())
    }
}

/// Whether a region or zone is given by its code: codes are lower-case letters, digits, hyphens, dots and underscores
/// (field note 19), so that nothing has to be looked up for them. Everything else is a name, or a code of another shape.
pub fn is_code(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_look_like_another_selector() {
        let name = |name: &str| ImageRef {
            name: Some(name.to_owned()),
            ..ImageRef::default()
        };
        let both = ImageRef {
            kind: Some(ImageKind::System),
            ..name("a")
        };
        assert_eq!(both.selector().unwrap(), r#"name "a", type System"#);
        assert_ne!(name("a, type System").selector(), both.selector());
        assert_ne!(name(r#"a", type System"#).selector(), both.selector());
        assert_eq!(ImageRef::of_id("img-1").selector(), None);
    }

    #[test]
    fn an_image_fits_only_if_all_that_is_asked_for_is_known_to_be_so() {
        let wanted = ImageRef {
            name: Some("Ubuntu".into()),
            kind: Some(ImageKind::Own),
            ..ImageRef::default()
        };
        assert!(wanted.fits(Some("Ubuntu"), None, Some("Self")));
        assert!(!wanted.fits(Some("ubuntu"), None, Some("Self")));
        assert!(!wanted.fits(Some("Ubuntu"), None, None));
        assert!(!ImageRef::of_id("img-1").fits(Some("Ubuntu"), None, Some("Self")));
    }

    #[test]
    fn what_has_the_shape_of_a_code_is_one() {
        for code in ["ru-moscow-1", "cn-dev-2", "ru-moscow-1-a", "r"] {
            assert!(is_code(code), "{code}");
        }
        for name in ["Moscow", "Los Angeles", "Moscow Zone A", "Москва"] {
            assert!(!is_code(name), "{name}");
        }
    }
}
