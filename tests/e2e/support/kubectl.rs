//! Runs kubectl as a user does in a terminal.

use super::cluster::{Shared, kubectl_of};
use super::wait::{PATIENCE, eventually};
use super::world::World;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Words of kubectl's messages while the control plane cannot answer for now, since it is starting or its store is slow. The
/// refusals of a schema or a policy contain none of them.
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
/// The pause between two tries while the control plane cannot answer.
const PAUSE: Duration = Duration::from_millis(500);

impl World {
    /// Runs kubectl, which must succeed.
    pub async fn run(&self, arguments: &[&str], input: &str) {
        let (done, text) = self.kubectl(arguments, input).await;
        assert!(done, "{arguments:?}: {text}");
    }

    /// Applies a manifest, as a user of kubectl does.
    ///
    /// # Errors
    /// kubectl's message about a refusal.
    pub async fn kubectl_apply(&self, manifest: &Value) -> Result<(), String> {
        let arguments = ["apply", "--server-side", "--field-manager=user"];
        let arguments = [&arguments[..], &["--force-conflicts", "-f", "-"]].concat();
        match self.kubectl(&arguments, &manifest.to_string()).await {
            (true, _) => Ok(()),
            (false, why) => Err(why),
        }
    }

    /// Erases the status of an Instance.
    pub async fn wipe_status(&self, name: &str) {
        let patch = r#"[{"op":"replace","path":"/status","value":{"observedGeneration":-1}}]"#;
        let arguments = ["patch", "instance", name, "--subresource=status"];
        self.run(
            &[&arguments[..], &["--type=json", "-p", patch]].concat(),
            "",
        )
        .await;
    }

    /// Runs kubectl in this namespace, as an administrator; repeats the command while the control plane cannot answer for now.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let all = [&["-n", self.namespace.as_str()], arguments].concat();
        let begun = Instant::now();
        let mut is_repeated = false;
        loop {
            let output = kubectl_of(&self.shared.cluster, &all, input).await;
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            // A deletion whose answer was lost may have taken effect.
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

    /// Waits until the apiserver denies this to the operator: the apiserver learns of a withdrawn right with a delay.
    pub async fn until_forbidden(&self, verb: &str, resource: &str) {
        let question = ["auth", "can-i", verb, resource, "--as", Shared::USER];
        eventually(&format!("no right to {verb} {resource}"), async || {
            match self.kubectl(&question, "").await {
                // Any other failure is not an answer about rights.
                (false, answer) if answer.trim_start().starts_with("no") => Ok(()),
                (_, answer) => Err(answer),
            }
        })
        .await;
    }
}
