//! The control plane of a run, with our kinds and with the operator's own rights.

use devcluster::Cluster;
use std::process::{Output, Stdio};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;

/// The manifests that a user installs: the operator runs with exactly these rights.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
const NAMESPACE: &str = "cloud-server-system";
const ACCOUNT: &str = "cloud-server-operator";

/// The control plane and the operator's credential.
pub struct Shared {
    /// The control plane.
    pub cluster: Cluster,
    /// Token of the operator's ServiceAccount.
    pub token: String,
}

impl Shared {
    /// How the operator is called in the audit log.
    pub const USER: &str = "system:serviceaccount:cloud-server-system:cloud-server-operator";
}

/// Started by the first test that asks, ended with the process. One failure to start is the failure of every test.
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

/// One for a single test, which changes what the others stand on. Ends with the last who holds it.
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
    let run = async |arguments: &[&str]| {
        let output = kubectl_of(&cluster, arguments, "").await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{arguments:?}: {}", text(&output.stderr)))
        }
    };
    run(&["apply", "--server-side", "-k", DEPLOY]).await?;
    let kinds = [
        "crd/instances.cloudserver.dev",
        "crd/accounts.cloudserver.dev",
    ];
    run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        kinds[0],
        kinds[1],
    ])
    .await?;
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

/// Runs the cluster's own kubectl as an administrator.
pub async fn kubectl(arguments: &[&str], input: &str) -> Output {
    kubectl_of(&shared().await.cluster, arguments, input).await
}

pub(super) async fn kubectl_of(cluster: &Cluster, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::from(cluster.kubectl())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    child.wait_with_output().await.unwrap()
}
