//! The control plane of a test run, with our kinds and with the operator's own rights.

use super::command;
use super::wait::PATIENCE;
use devcluster::Cluster;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// The manifests that a user installs: the operator runs with exactly these rights.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
/// The manifests that also allow it to write Secrets.
const SECRET_WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/secret-writer");
/// One example of each kind.
const ACCOUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/account.yaml");
const INSTANCES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/instance-key.yaml"
);
/// The pause between two tries of a command.
const PAUSE: Duration = Duration::from_millis(200);
const NAMESPACE: &str = "cloud-server-system";
const ACCOUNT: &str = "cloud-server-operator";

/// The control plane and the operator's credential.
pub struct Shared {
    pub cluster: Cluster,
    /// Token of the operator's ServiceAccount.
    pub token: String,
}

impl Shared {
    /// The operator's user name in the audit log.
    pub const USER: &str = "system:serviceaccount:cloud-server-system:cloud-server-operator";
}

/// Starts it for the first test that asks; it ends with the process. If it fails to start, every test fails.
pub async fn shared() -> Arc<Shared> {
    static SHARED: OnceCell<Result<Arc<Shared>, String>> = OnceCell::const_new();
    match SHARED
        .get_or_init(async || start().await.map(Arc::new))
        .await
    {
        Ok(shared) => shared.clone(),
        Err(why) => panic!("the control plane did not start: {why}"),
    }
}

/// A control plane for a single test, which changes the shared foundation of other tests. It ends when its last holder drops
/// it.
pub async fn own() -> Arc<Shared> {
    match start().await {
        Ok(own) => Arc::new(own),
        Err(why) => panic!("the control plane did not start: {why}"),
    }
}

async fn start() -> Result<Shared, String> {
    let cluster = Cluster::builder()
        .start()
        .await
        .map_err(|error| error.to_string())?;
    // Each of these commands may run twice. If the apiserver gets no processor and leaves a single one unanswered, every test
    // would fail.
    let run = async |arguments: &[&str]| {
        let deadline = Instant::now() + PATIENCE;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        loop {
            let output = kubectl_of(&cluster, arguments, "").await;
            if output.status.success() {
                return Ok(text(&output.stdout));
            }
            if Instant::now() > deadline {
                return Err(format!("{arguments:?}: {}", text(&output.stderr)));
            }
            sleep(PAUSE).await;
        }
    };
    run(&["apply", "--server-side", "-k", DEPLOY]).await?;
    run(&["apply", "--server-side", "-k", SECRET_WRITER]).await?;
    until_served(&cluster).await?;
    until_policed(&cluster).await?;
    let token = run(&[
        "create",
        "token",
        ACCOUNT,
        "-n",
        NAMESPACE,
        "--duration=24h",
    ])
    .await?;
    Ok(Shared { cluster, token })
}

/// Waits until the apiserver serves reads and writes of our kinds. A definition that is `Established` may still be refused for
/// seconds, with 404 and with 429, while the apiserver sets its storage up.
///
/// # Errors
/// The apiserver's last message.
pub async fn until_served(cluster: &Cluster) -> Result<(), String> {
    let apply = ["apply", "--server-side", "--dry-run=server"];
    let apply = [&apply[..], &["-f", ACCOUNTS, "-f", INSTANCES]].concat();
    let get = ["get", "accounts,instances", "--all-namespaces"];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut refused = None;
        for arguments in [&apply[..], &get[..]] {
            let output = kubectl_of(cluster, arguments, "").await;
            if !output.status.success() {
                refused = Some(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
        }
        let Some(refused) = refused else {
            return Ok(());
        };
        if Instant::now() > deadline {
            return Err(format!("the kinds are not served: {refused}"));
        }
        sleep(PAUSE).await;
    }
}

/// Waits until the apiserver denies the operator Secrets that are not its own. A policy takes effect seconds after it was
/// applied, and an operator that starts earlier reports excessive rights and withdraws the report later.
///
/// # Errors
/// The apiserver's last message.
async fn until_policed(cluster: &Cluster) -> Result<(), String> {
    let user = format!("--as={}", Shared::USER);
    let make = ["create", "secret", "generic", "ownerless", "-n", NAMESPACE];
    let arguments = [&make[..], &["--dry-run=server", &user]].concat();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = kubectl_of(cluster, &arguments, "").await;
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() && stderr.contains("ValidatingAdmissionPolicy") {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the policy of Secrets does not act: {stderr}"));
        }
        sleep(PAUSE).await;
    }
}

/// Runs the cluster's own kubectl as an administrator.
pub async fn kubectl(arguments: &[&str], input: &str) -> Output {
    kubectl_of(&shared().await.cluster, arguments, input).await
}

/// Runs the kubectl of a cluster as an administrator.
pub async fn kubectl_of(cluster: &Cluster, arguments: &[&str], input: &str) -> Output {
    let mut kubectl = Command::from(cluster.kubectl());
    command::run(kubectl.args(arguments).kill_on_drop(true), input).await
}
