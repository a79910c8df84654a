//! Identifiers of the service. Each kind has its own type, so that an image cannot be released as a server.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::runtime::strings::shared;

/// Declares the types of identifiers, each a string of the service. Equal identifiers of up to 64 bytes share their memory.
macro_rules! identifiers {
    ($($(#[$meta:meta])* $name:ident;)*) => { $(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as the service writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: AsRef<str>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(shared(text.as_ref()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )* };
}

identifiers! {
    /// An instance of the service (`ecsResourceUUID`).
    ServerId;
    /// An asynchronous task (`asyncTaskUUID`), an opaque string.
    TaskId;
    /// An image (`imageResourceUUID`).
    ImageId;
    /// A security group (`firewallUUID`).
    FirewallId;
    /// A key pair (`sshKeyUUID`; the reinstall body calls it `sshKeyResourceUUID`).
    KeyId;
    /// A package (`packageCode`), which encodes the specification of a server.
    PackageCode;
}

/// A zone of a region: the service lists instances by zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The service's `regionCode`.
    pub region: String,
    /// The service's `zoneCode`.
    pub zone: String,
}

impl Place {
    /// A place from its two codes.
    pub fn new(region: impl Into<String>, zone: impl Into<String>) -> Self {
        Self {
            region: region.into(),
            zone: zone.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.region, self.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_plain_string_on_the_wire() {
        let id = ServerId::from("ecs-1");
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"ecs-1\"");
        assert_eq!(serde_json::from_str::<ServerId>("\"ecs-1\"").unwrap(), id);
        assert_eq!(format!("{id} {id:?}"), "ecs-1 ServerId(ecs-1)");
    }

    #[test]
    fn a_place_reads_as_region_and_zone() {
        assert_eq!(
            Place::new("ru-moscow-1", "ru-moscow-1-a").to_string(),
            "ru-moscow-1/ru-moscow-1-a"
        );
    }
}
