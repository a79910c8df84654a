//! References of a spec to things of the service: by the service's identifier, or by a selector of properties.
//!
//! Rules of the schema require exactly one of the two. Until the purchase, each try resolves a selector anew. Then the
//! result is kept in `status.resolved` together with the selector, until the selector changes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// A package of the service: by its code, or the smallest one that is at least as large as the filter requires.
///
/// The service reports no prices, so "smallest" is defined by this order: cpu, memory, systemDisk, dataDisk, the charge mode's
/// name, the included bandwidth or free traffic, and code.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.code) != (has(self.cpu) || has(self.memory) || has(self.systemDisk) || has(self.dataDisk) || has(self.chargeMode))"
).message("set exactly one of spec.package.code and a filter (cpu, memory, systemDisk, dataDisk, chargeMode) in spec.package"))]
pub struct PackageRef {
    /// The service's packageCode.
    #[schemars(length(min = 1, max = 253))]
    pub code: Option<String>,
    /// Minimum number of CPUs.
    #[schemars(range(min = 1, max = 100_000))]
    pub cpu: Option<i32>,
    /// Minimum memory, in GiB.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub memory: Option<i32>,
    /// Minimum size of the system disk, in GiB.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub system_disk: Option<i32>,
    /// Minimum size of the data disk, in GiB. Without it, a data disk is allowed: of packages with equal cpu, memory and
    /// systemDisk, the one without a data disk, or with the smallest, is chosen.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub data_disk: Option<i32>,
    /// How traffic is charged.
    pub charge_mode: Option<ChargeMode>,
}

/// How the traffic of a package is charged (the service's publicIpChargeMode).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeMode {
    /// By the amount that is sent, with a free allowance.
    PayByTraffic,
    /// By the reserved bandwidth.
    PayByBandwidth,
}

/// An image of the service: by its identifier, or by its name and distribution. A selector must match exactly one image of the
/// region. After the purchase, the match is kept until the selector changes, even if the service adds images.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new(
    "has(self.id) ? !(has(self.name) || has(self.distribution) || has(self.type)) : (has(self.name) || has(self.distribution))"
).message("set exactly one of spec.image.id and a selector (name, distribution or both, and type where wanted) in spec.image"))]
pub struct ImageRef {
    /// The service's imageResourceUUID (img-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's imageName; must match exactly.
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// The service's osDistroVersion; must match exactly.
    #[schemars(length(min = 1, max = 253))]
    pub distribution: Option<String>,
    /// The service's imageType.
    #[serde(rename = "type")]
    pub kind: Option<ImageKind>,
}

/// The origin of an image (the service's imageType).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// An operating system of the service.
    System,
    /// An image that the account made.
    #[serde(rename = "Self")]
    Own,
    /// An operating system of the service with an application.
    Application,
}

/// A security group of the service: by its identifier, or by its name if it is unique in the region.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("set exactly one of spec.firewall.id and spec.firewall.name"))]
pub struct FirewallRef {
    /// The service's firewallUUID (fw-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's firewallName; must match exactly.
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// A key pair of the service: by its identifier, or by its name if it is unique in the account.
#[skip_serializing_none]
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("set exactly one of login.sshKey.id and login.sshKey.name"))]
pub struct SshKeyRef {
    /// The service's sshKeyUUID (key-…).
    #[schemars(length(min = 1, max = 253))]
    pub id: Option<String>,
    /// The service's sshKeyName; must match exactly.
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// The result of resolving a selector.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference {
    /// The service's identifier.
    #[schemars(length(max = 253))]
    pub id: String,
    /// The selector that was resolved. If the selector of the spec differs, it is resolved again.
    #[schemars(length(max = 2048))]
    pub from: String,
}

/// The identifiers that the selectors of a spec were resolved to. References by identifier or code are not included.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The region code.
    pub region: Option<ResolvedReference>,
    /// The zone code.
    pub zone: Option<ResolvedReference>,
    /// The packageCode.
    pub package: Option<ResolvedReference>,
    /// The imageResourceUUID.
    pub image: Option<ResolvedReference>,
    /// The firewallUUID.
    pub firewall: Option<ResolvedReference>,
    /// The sshKeyUUID.
    pub ssh_key: Option<ResolvedReference>,
}

/// A reference of a spec to a thing of the service, in the order in which they are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    Region,
    Zone,
    Package,
    Firewall,
    Image,
    SshKey,
}

impl Reference {
    /// The references of a reinstall.
    pub const OF_INSTALLATION: [Self; 2] = [Self::Image, Self::SshKey];
    /// The references of a purchase.
    pub const ALL: [Self; 6] = [
        Self::Region,
        Self::Zone,
        Self::Package,
        Self::Firewall,
        Self::Image,
        Self::SshKey,
    ];

    /// The field that takes a selector, the field that takes an identifier or code, and the kind of thing.
    const fn properties(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Region => ("spec.region", "spec.region", "region"),
            Self::Zone => ("spec.zone", "spec.zone", "zone"),
            Self::Package => ("spec.package", "spec.package.code", "package"),
            Self::Firewall => ("spec.firewall", "spec.firewall.id", "security group"),
            Self::Image => ("spec.image", "spec.image.id", "image"),
            Self::SshKey => ("spec.login.sshKey", "spec.login.sshKey.id", "key pair"),
        }
    }

    /// The field that takes a selector.
    pub const fn field(self) -> &'static str {
        self.properties().0
    }

    /// The field that takes an identifier or code.
    pub const fn exact_field(self) -> &'static str {
        self.properties().1
    }

    /// The kind of thing, in messages.
    pub const fn noun(self) -> &'static str {
        self.properties().2
    }
}

impl Resolved {
    pub fn get(&self, reference: Reference) -> Option<&ResolvedReference> {
        match reference {
            Reference::Region => self.region.as_ref(),
            Reference::Zone => self.zone.as_ref(),
            Reference::Package => self.package.as_ref(),
            Reference::Firewall => self.firewall.as_ref(),
            Reference::Image => self.image.as_ref(),
            Reference::SshKey => self.ssh_key.as_ref(),
        }
    }

    pub fn set(&mut self, reference: Reference, result: Option<ResolvedReference>) {
        *match reference {
            Reference::Region => &mut self.region,
            Reference::Zone => &mut self.zone,
            Reference::Package => &mut self.package,
            Reference::Firewall => &mut self.firewall,
            Reference::Image => &mut self.image,
            Reference::SshKey => &mut self.ssh_key,
        } = result;
    }

    /// `self`, unless it is empty.
    pub fn if_any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The parts of a selector, each with its field, as one text. Equal selectors give equal texts, and names are quoted, so that
/// no name can look like another part.
fn text<const N: usize>(parts: [(&str, Option<String>); N]) -> String {
    let parts = parts.into_iter();
    let given = parts.filter_map(|(field, value)| Some(format!("{field} {}", value?)));
    given.collect::<Vec<_>>().join(", ")
}

fn quoted(text: Option<&String>) -> Option<String> {
    text.map(|text| format!("{text:?}"))
}

/// The selector of a reference by name; none if the identifier is given.
fn by_name(id: Option<&String>, name: Option<&String>) -> Option<String> {
    id.is_none().then(|| text([("name", quoted(name))]))
}

impl PackageRef {
    /// The filter as text; none if the code is given.
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
        self.code.is_none().then(|| text(parts))
    }
}

impl ChargeMode {
    /// The service's name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PayByTraffic => "PayByTraffic",
            Self::PayByBandwidth => "PayByBandwidth",
        }
    }
}

impl ImageRef {
    /// The selector as text; none if the identifier is given.
    pub fn selector(&self) -> Option<String> {
        let parts = [
            ("name", quoted(self.name.as_ref())),
            ("distribution", quoted(self.distribution.as_ref())),
            ("type", self.kind.map(|kind| kind.as_str().to_owned())),
        ];
        self.id.is_none().then(|| text(parts))
    }

    /// Whether the selector matches an image with these properties. An unknown property does not match.
    pub fn fits(&self, name: Option<&str>, distribution: Option<&str>, kind: Option<&str>) -> bool {
        let is = |required: Option<&str>, found: Option<&str>| {
            required.is_none_or(|required| found == Some(required))
        };
        self.id.is_none()
            && is(self.name.as_deref(), name)
            && is(self.distribution.as_deref(), distribution)
            && is(self.kind.map(ImageKind::as_str), kind)
    }
}

impl ImageKind {
    /// The service's name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Own => "Self",
            Self::Application => "Application",
        }
    }
}

impl FirewallRef {
    /// The selector as text; none if the identifier is given.
    pub fn selector(&self) -> Option<String> {
        by_name(self.id.as_ref(), self.name.as_ref())
    }
}

impl SshKeyRef {
    /// The selector as text; none if the identifier is given.
    pub fn selector(&self) -> Option<String> {
        by_name(self.id.as_ref(), self.name.as_ref())
    }
}

/// Whether a region or zone is given by its code: codes consist of lower-case letters, digits, hyphens, dots and underscores
/// (field note 19) and need no look-up. Everything else is a name, or a code of an unusual shape.
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
        assert_eq!(
            ImageRef {
                id: Some("img-1".into()),
                ..ImageRef::default()
            }
            .selector(),
            None
        );
    }

    #[test]
    fn an_image_matches_only_if_every_requested_property_is_known_to_match() {
        let requested = ImageRef {
            name: Some("Ubuntu".into()),
            kind: Some(ImageKind::Own),
            ..ImageRef::default()
        };
        assert!(requested.fits(Some("Ubuntu"), None, Some("Self")));
        assert!(!requested.fits(Some("ubuntu"), None, Some("Self")));
        assert!(!requested.fits(Some("Ubuntu"), None, None));
        assert!(
            !ImageRef {
                id: Some("img-1".into()),
                ..ImageRef::default()
            }
            .fits(Some("Ubuntu"), None, Some("Self"))
        );
    }

    #[test]
    fn a_text_with_the_form_of_a_code_is_a_code() {
        for code in ["ru-moscow-1", "cn-dev-2", "ru-moscow-1-a", "r"] {
            assert!(is_code(code), "{code}");
        }
        for name in ["Moscow", "Los Angeles", "Moscow Zone A", "Москва"] {
            assert!(!is_code(name), "{name}");
        }
    }
}
