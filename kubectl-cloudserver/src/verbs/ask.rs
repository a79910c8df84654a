//! Asks for confirmation before disks are erased.

use super::edit::{Edit, requested_image};
use cloud_server_operator::api::{Instance, counted, printable};
use kube::ResourceExt;
use std::io::{IsTerminal, Write, stderr, stdin};

/// The answer that confirms.
const YES: &str = "yes";

/// Asks the user to confirm these reinstalls.
///
/// # Errors
/// The user does not confirm, or cannot be asked: there is no terminal, or it fails.
pub(super) fn whether_to_erase(edits: &[(Instance, Result<Edit, String>)]) -> Result<(), String> {
    let erased: Vec<&Instance> = edits
        .iter()
        .filter(|(_, edit)| edit.is_ok())
        .map(|(live, _)| live)
        .collect();
    if erased.is_empty() {
        return Ok(()); // nothing to confirm
    }
    let mut text: String = erased.iter().map(|live| line(live) + "\n").collect();
    let disks = counted(erased.len(), "disk");
    if !stdin().is_terminal() {
        return Err(format!(
            "{text}this ERASES {disks}: pass --yes, since there is no terminal for a question"
        ));
    }
    text += &format!("This ERASES {disks}. Type {YES} to go on: ");
    let failed = |error: std::io::Error| format!("the question could not be asked: {error}");
    let mut out = stderr().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(failed)?;
    let mut answer = String::new();
    stdin().read_line(&mut answer).map_err(failed)?;
    match answer.trim() == YES {
        true => Ok(()),
        false => Err("nothing is erased: no reinstall was requested".to_owned()),
    }
}

/// The data that is lost with the disk of one server, and the new image.
fn line(live: &Instance) -> String {
    let status = live.status.as_ref();
    let text = |field: &str| {
        let text = status?.detail.get(field)?.as_str();
        text.map(|text| printable(text).into_owned())
    };
    let id = status.and_then(|status| status.id.clone());
    let address = text("publicIpAddress").map(|address| format!(", {address}"));
    let disk = status.and_then(|status| status.detail.get("systemDiskSize")?.as_u64());
    let disk = disk.map(|size| format!(" of {size} GiB"));
    let had = text("imageName").or_else(|| text("imageResourceUUID"));
    format!(
        "{}/{}: everything on the disk{} of server {}{} is lost; it has {}, and gets image {}",
        live.namespace().unwrap_or_default(),
        live.name_any(),
        disk.unwrap_or_default(),
        printable(&id.unwrap_or_default()),
        address.unwrap_or_default(),
        had.as_deref().unwrap_or("an unknown image"),
        printable(requested_image(live).unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_question_prints_no_control_sequence_of_the_service_or_the_spec() {
        let live = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "web", "namespace": "team"},
            "spec": {
                "accountRef": {"name": "default"}, "region": "r", "zone": "z", "package": {"code": "p"},
                "image": {"id": "i\u{1b}[1A\rd"}, "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}},
            },
            "status": {"observedGeneration": 1, "id": "ecs-1", "detail": {"imageName": "Debian\u{1b}[2K\r13"}},
        });
        let line = line(&serde_json::from_value(live).unwrap());
        assert!(line.contains("Debian"), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
}
