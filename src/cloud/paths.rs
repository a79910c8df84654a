//! The path of each operation below the endpoint.
//!
//! The specification defines some paths. The others come from its field notes and have not been confirmed at the live service,
//! so an Account can override every path.

use super::cloud_call::CloudCall;
use super::error::BuildError;
use crate::api::PathOverrides;
use std::collections::BTreeMap;

/// The path of every operation: the override if there is one, else the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(BTreeMap<CloudCall, String>);

/// Longest accepted path. The schema has the same limit.
const LONGEST: usize = 256;

impl Paths {
    /// The defaults, replaced by the overrides where given.
    ///
    /// # Errors
    /// An override is not a plain absolute path.
    pub fn resolve(overrides: &PathOverrides) -> Result<Self, BuildError> {
        let overrides = [
            (CloudCall::Create, &overrides.create),
            (CloudCall::Release, &overrides.release),
            (CloudCall::Reinstall, &overrides.reinstall),
            (CloudCall::ModifyPassword, &overrides.modify_password),
            (CloudCall::Start, &overrides.start),
            (CloudCall::Stop, &overrides.stop),
            (CloudCall::Restart, &overrides.restart),
            (CloudCall::Detail, &overrides.detail),
            (CloudCall::Task, &overrides.task),
            (CloudCall::Instances, &overrides.instances),
            (CloudCall::Firewalls, &overrides.firewalls),
            (CloudCall::Images, &overrides.images),
            (CloudCall::Keys, &overrides.keys),
            (CloudCall::Packages, &overrides.packages),
            (CloudCall::Regions, &overrides.regions),
        ];
        let given = overrides
            .into_iter()
            .filter_map(|(call, path)| Some((call, path.clone()?.0)));
        let checked = given.map(|(call, path)| match is_plain(&path) {
            true => Ok((call, path)),
            false => Err(BuildError::Path(call)),
        });
        checked.collect::<Result<_, _>>().map(Self)
    }

    pub fn of(&self, operation: CloudCall) -> &str {
        let given = self.0.get(&operation);
        given.map_or(operation.default_path(), String::as_str)
    }
}

/// Whether a path is plain and absolute. Query, fragment, escapes and dot segments are refused rather than encoded: they would
/// make an unintended request, which contains the token.
fn is_plain(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let is_dots = |segment: &str| segment == "." || segment == "..";
    path.starts_with('/')
        && path.len() <= LONGEST
        && path.chars().all(is_plain)
        && !path.split('/').any(is_dots)
        && !path.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::OverridePath;

    #[test]
    fn overrides_replace_the_defaults() {
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
    fn only_a_plain_absolute_path_is_accepted() {
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
                detail: Some(OverridePath(bad.to_owned())),
                ..PathOverrides::default()
            };
            assert!(Paths::resolve(&overrides).is_err(), "{bad:?} was taken");
        }
    }

    /// All calls, with their names. If a call is missing, the test does not compile.
    macro_rules! all {
        ($($call:ident)*) => {{
            let name = |call: CloudCall| match call {
                $(CloudCall::$call => stringify!($call),)*
            };
            [$(CloudCall::$call),*].map(|call| (name(call), call))
        }};
    }

    #[test]
    fn every_call_has_an_override_that_is_described_and_bounded_in_the_schema() {
        let calls = all!(
            Create Release Reinstall ModifyPassword Start Stop Restart Detail Task Instances Firewalls Images Keys Packages
            Regions
        );
        let schema = schemars::schema_for!(PathOverrides);
        let fields = schema
            .get("properties")
            .and_then(|p| p.as_object())
            .unwrap();
        assert_eq!(fields.len(), calls.len());
        let every = fields.keys().map(|name| (name.clone(), "/x".into()));
        let every = serde_json::Value::Object(every.collect());
        let paths = Paths::resolve(&serde_json::from_value(every).unwrap()).unwrap();
        for (name, call) in calls {
            assert_eq!(
                paths.of(call),
                "/x",
                "the override for {name} has no effect"
            );
        }
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
