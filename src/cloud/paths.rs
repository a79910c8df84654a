//! The path of each operation below the endpoint.
//!
//! The specification defines some paths. The others come from its field notes and have not been confirmed at the live service,
//! so an Account can override each of them.

use super::cloud_call::CloudCall;
use super::error::BuildError;
use crate::api::PathOverrides;

/// Declares the resolved paths and their defaults from one table. The overrides must have the same fields.
macro_rules! paths {
    ($($field:ident, $operation:ident, $default:literal;)*) => {
        /// The path of every operation: the override if there is one, else the default.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Paths {
            $($field: String,)*
        }

        impl Default for Paths {
            fn default() -> Self {
                Self { $($field: $default.to_owned(),)* }
            }
        }

        impl Paths {
            /// The defaults, replaced by the overrides where given.
            ///
            /// # Errors
            /// An override is not a plain absolute path.
            pub fn resolve(overrides: &PathOverrides) -> Result<Self, BuildError> {
                Ok(Self { $($field: resolve_one(CloudCall::$operation, overrides.$field.as_deref(), $default)?,)* })
            }

            pub fn of(&self, operation: CloudCall) -> &str {
                match operation {
                    $(CloudCall::$operation => &self.$field,)*
                }
            }
        }
    };
}

paths! {
    create, Create, "/instance/create";
    release, Release, "/instance/release";
    reinstall, Reinstall, "/instance/reinstallSystem";
    modify_password, ModifyPassword, "/instance/modifyInstancePassword";
    start, Start, "/instance/start";
    stop, Stop, "/instance/stop";
    restart, Restart, "/instance/restart";
    detail, Detail, "/instance/detail";
    task, Task, "/asynctask/getResult";
    instances, Instances, "/instance/list";
    firewalls, Firewalls, "/firewall/list";
    images, Images, "/image/list";
    keys, Keys, "/sshkey/list";
    packages, Packages, "/package/list";
    regions, Regions, "/region/list";
}

/// Longest accepted path. The schema has the same limit.
const LONGEST: usize = 256;

/// Checks one path. Query, fragment, escapes and dot segments are refused rather than encoded: they would make an unintended
/// request, which contains the token.
fn resolve_one(
    operation: CloudCall,
    override_with: Option<&str>,
    default: &str,
) -> Result<String, BuildError> {
    let Some(path) = override_with else {
        return Ok(default.to_owned());
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let dots = path
        .split('/')
        .any(|segment| segment == "." || segment == "..");
    if !path.starts_with('/')
        || path.len() > LONGEST
        || !path.chars().all(plain)
        || dots
        || path.contains("//")
    {
        return Err(BuildError::Path { operation });
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_take_the_place_of_defaults() {
        let overrides: PathOverrides =
            serde_json::from_str(r#"{"modifyPassword": "/v2/password"}"#).unwrap();
        let paths = Paths::resolve(&overrides).unwrap();
        assert_eq!(paths.of(CloudCall::ModifyPassword), "/v2/password");
        assert_eq!(paths.of(CloudCall::Task), "/asynctask/getResult");
        assert_eq!(
            Paths::resolve(&PathOverrides::default()).unwrap(),
            Paths::default()
        );
    }

    #[test]
    fn only_a_plain_absolute_path_is_taken() {
        let long = format!("/{}", "a".repeat(256));
        for bad in [
            "",
            "list",
            "//evil.example/x",
            "/a/../b",
            "/a?b=c",
            "/a#b",
            "/a%2e",
            "/a b",
            "/ä",
            "http://x/y",
            &long,
        ] {
            let overrides = PathOverrides {
                detail: Some(bad.to_owned()),
                ..PathOverrides::default()
            };
            assert!(Paths::resolve(&overrides).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn every_override_is_described_and_bounded_in_the_schema() {
        let schema = schemars::schema_for!(PathOverrides);
        let fields = schema
            .get("properties")
            .and_then(|p| p.as_object())
            .unwrap();
        assert_eq!(fields.len(), 15);
        for (name, field) in fields {
            assert_eq!(
                field.get("maxLength").and_then(serde_json::Value::as_u64),
                Some(256),
                "{name}"
            );
            assert!(field.get("description").is_some(), "{name}");
        }
    }
}
