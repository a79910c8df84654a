//! kubectl, as a user at a terminal has it.

use super::cluster::{Shared, kubectl_of};
use super::wait::{PATIENCE, eventually};
use super::world::World;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What kubectl says where the control plane cannot answer for now: it starts, or its store is slow. A refusal by a schema or
/// a policy says none of it.
const FOR_NOW: [&str; 9] = [
    "etcdserver:",
    "(re)initializing",
    "not yet ready to handle request",
    "context deadline exceeded",
    "TLS handshake timeout",
    "connection refused",
    "unexpected EOF",
    "Timeout",
    "TooManyRequests",
];
/// Between two tries of what cannot be answered for now.
const PAUSE: Duration = Duration::from_millis(500);

impl World {
    /// Runs kubectl, which has to succeed.
    pub async fn run(&self, arguments: &[&str], input: &str) {
        let (done, text) = self.kubectl(arguments, input).await;
        assert!(done, "{arguments:?}: {text}");
    }

    /// Applies any text, as a user at kubectl does.
    ///
    /// # Errors
    /// What kubectl says about a refusal.
    pub async fn kubectl_apply(&self, manifest: &Value) -> Result<(), String> {
        let arguments = ["apply", "--server-side", "--field-manager=user"];
        let arguments = [&arguments[..], &["--force-conflicts", "-f", "-"]].concat();
        match self.kubectl(&arguments, &manifest.to_string()).await {
            (true, _) => Ok(()),
            (false, why) => Err(why),
        }
    }

    /// The status of an Instance is lost.
    pub async fn wipe_status(&self, name: &str) {
        let patch = r#"[{"op":"replace","path":"/status","value":{"observedGeneration":-1}}]"#;
        let arguments = ["patch", "instance", name, "--subresource=status"];
        self.run(
            &[&arguments[..], &["--type=json", "-p", patch]].concat(),
            "",
        )
        .await;
    }

    /// Runs kubectl in this namespace, as an administrator; again, while the control plane cannot answer for now.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let all = [&["-n", self.namespace.as_str()], arguments].concat();
        let begun = Instant::now();
        let mut is_repeated = false;
        loop {
            let output = kubectl_of(&self.shared.cluster, &all, input).await;
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            // A deletion whose answer was lost may have been done.
            let is_gone = is_repeated && arguments[0] == "delete" && text.contains("(NotFound)");
            let done = output.status.success() || is_gone;
            let passes = FOR_NOW.iter().any(|words| text.contains(words));
            if done || !passes || begun.elapsed() > PATIENCE {
                return (done, text);
            }
            is_repeated = true;
            sleep(PAUSE).await;
        }
    }

    /// Waits until the apiserver refuses this to the operator: it learns by and by of a right that was taken away.
    pub async fn until_forbidden(&self, verb: &str, resource: &str) {
        let asked = ["auth", "can-i", verb, resource, "--as", Shared::USER];
        eventually(&format!("no right to {verb} {resource}"), async || {
            match self.kubectl(&asked, "").await {
                // Any other failure says nothing of rights.
                (false, answer) if answer.trim_start().starts_with("no") => Ok(()),
                (_, answer) => Err(answer),
            }
        })
        .await;
    }
}
