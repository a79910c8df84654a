//! The wanted content of the connection Secret: the server's address, and the login in force.

use crate::api::{Applied, Reference};
use crate::instance::memory::kinds::Connection;
use crate::instance::observation::Observation;
use crate::instance::references;
use serde_json::{Map, Value};

/// The content that the connection Secret should have now; None while the server is unknown or another login is being set.
pub fn wanted(observed: &Observation) -> Option<Connection> {
    let (facts, status) = (&observed.facts, &observed.facts.status);
    let reference = facts.spec.connection_secret.clone()?;
    let (addresses, applied) = (status.addresses.as_ref()?, status.applied.as_ref()?);
    let host = addresses.public.clone().or(addresses.internal.clone())?;
    let wants_key = facts.spec.login.ssh_key.is_some();
    let key = references::id(observed, Reference::SshKey);
    if wants_key && key.is_none() {
        return None;
    }
    if facts.deleting || facts.is_open() || !is_in_force(observed, applied, key.as_ref()) {
        return None;
    }
    let (username, port) = account(&status.detail);
    Some(Connection {
        name: reference.name,
        host,
        port,
        username,
        secret: observed.secret_version.clone().filter(|_| key.is_none()),
        key,
        template: reference.template,
    })
}

/// Whether the server has the login that the spec names.
fn is_in_force(observed: &Observation, applied: &Applied, key: Option<&String>) -> bool {
    match key {
        Some(key) => applied.key.as_ref() == Some(key),
        None => {
            observed.secret_version.is_some() && applied.password_secret == observed.secret_version
        }
    }
}

/// The account that the service reports.
pub fn told_account(detail: &Map<String, Value>) -> Option<&str> {
    let told = detail.get("sysAccount").and_then(Value::as_str)?;
    Some(told.trim()).filter(|told| !told.is_empty())
}

/// Account and port: as the service reports them, or else by the image's convention.
fn account(detail: &Map<String, Value>) -> (String, &'static str) {
    let image = ["osDistroVersion", "imageName"].map(|field| detail.get(field));
    let mut image = image.iter().flatten().filter_map(|word| word.as_str());
    let is_windows = image.any(|word| word.to_ascii_lowercase().contains("windows"));
    let by_image = if is_windows { "Administrator" } else { "root" };
    let name = told_account(detail).unwrap_or(by_image);
    let is_windows = is_windows || name.eq_ignore_ascii_case("Administrator");
    (name.to_owned(), if is_windows { "3389" } else { "22" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_account_is_the_one_that_the_service_tells_or_the_one_of_the_image() {
        for (detail, name, port) in [
            (json!({"sysAccount": "ubuntu"}), "ubuntu", "22"),
            (
                json!({"sysAccount": "Administrator"}),
                "Administrator",
                "3389",
            ),
            (
                json!({"osDistroVersion": "Windows Server 2022"}),
                "Administrator",
                "3389",
            ),
            (
                json!({"imageName": "windows-11", "sysAccount": ""}),
                "Administrator",
                "3389",
            ),
            (
                json!({"sysAccount": "admin", "imageName": "Windows"}),
                "admin",
                "3389",
            ),
            (json!({"imageName": "Debian 12"}), "root", "22"),
            (json!({"sysAccount": 7}), "root", "22"),
        ] {
            let fields = detail.as_object().unwrap();
            assert_eq!(account(fields), (name.to_owned(), port), "{detail}");
        }
    }
}
