//! Another program that holds a Lease, and does nothing with it.

use crate::support::insist;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::sync::oneshot;

/// Time between two renewals.
const TICK: Duration = Duration::from_millis(300);

/// Holds the world's Lease as another program does, until it leaves.
pub struct OtherHolder {
    leave: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl OtherHolder {
    /// Its name in the Lease.
    pub const NAME: &str = "other-holder";

    /// Takes the Lease of this name from any holder, and renews it from now on.
    pub async fn hold(client: Client, name: String) -> Self {
        let leases: Api<Lease> = Api::namespaced(client, "cloud-server-system");
        let taken = insist("another program takes the Lease", async || {
            write(&leases, &name, Self::NAME).await
        });
        taken.await.unwrap();
        let (leave, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    biased;
                    _ = &mut stopped => break,
                    _ = ticks.tick() => {}
                }
                // After a failure, the next attempt follows.
                let _ = write(&leases, &name, Self::NAME).await;
            }
            while write(&leases, &name, "").await.is_err() {
                ticks.tick().await;
            }
        });
        Self { leave, task }
    }

    /// Releases the Lease.
    pub async fn leaves(self) {
        let _ = self.leave.send(());
        self.task.await.unwrap();
    }
}

async fn write(leases: &Api<Lease>, name: &str, holder: &str) -> kube::Result<Lease> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder,
            // Longer than any machine delays its renewals.
            "leaseDurationSeconds": 600,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    });
    let params = PatchParams::apply(OtherHolder::NAME).force();
    leases.patch(name, &params, &Patch::Apply(&lease)).await
}
