//! Checks the promises of this crate on real clusters. Most tests share one cluster, each in its own namespace.

#![allow(
    clippy::unwrap_used,
    reason = "a test may end with a panic, and so may what it calls"
)]

mod calls;
mod executables;
mod harm;
mod lifetime;

use std::{
    io::Write,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use calls::{create, delete, insist, is_there};
use devcluster::{Cluster, audit};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::sync::OnceCell;

/// Long enough for a machine that runs three other builds. The awaited changes normally take at most six seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cluster that tests share. It is never dropped: it ends with the process.
async fn shared() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || Cluster::builder().start().await.unwrap())
        .await
}

/// Waits until the condition holds, and panics with its name if it never does.
async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn namespace(cluster: &Cluster, name: &str) -> kube::Client {
    let client = cluster.client().await.unwrap();
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    create(&Api::<Namespace>::all(client.clone()), &namespace).await;
    client
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// A ConfigMap owned by an object of that kind.
fn owned(name: &str, api_version: &str, kind: &str, owner: &impl ResourceExt) -> ConfigMap {
    let mut owned = config_map(name);
    owned.metadata.owner_references = Some(vec![OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        ..OwnerReference::default()
    }]);
    owned
}

/// Runs the cluster's own kubectl as the administrator.
fn kubectl(cluster: &Cluster, arguments: &[&str], input: &str) -> Output {
    let mut kubectl = cluster
        .kubectl()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    kubectl
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    kubectl.wait_with_output().unwrap()
}

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.devcluster.test}
spec:
  group: devcluster.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size:
                  type: integer
                  x-kubernetes-validations:
                    - {rule: self == oldSelf, message: a widget keeps its size}
"#;

fn widget(namespace: &str, size: u32) -> String {
    format!(
        "{{apiVersion: devcluster.test/v1, kind: Widget, metadata: {{name: w, namespace: {namespace}}}, spec: {{size: {size}}}}}"
    )
}

/// Installs the kind `Widget` and creates a widget of size 1.
async fn install_widgets(cluster: &Cluster, namespace: &str) {
    eventually("widgets are installed", async || {
        kubectl(cluster, &["apply", "-f", "-"], WIDGETS)
            .status
            .success()
    })
    .await;
    eventually("a widget can be made", async || {
        kubectl(cluster, &["apply", "-f", "-"], &widget(namespace, 1))
            .status
            .success()
    })
    .await;
}

/// A token of this service account.
async fn token(cluster: &Cluster, namespace: &str, account: &str) -> String {
    let mut token = String::new();
    eventually("a token is given", async || {
        let arguments = ["create", "token", account, "-n", namespace];
        let output = kubectl(cluster, &arguments, "");
        token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        output.status.success()
    })
    .await;
    token
}

/// Creates a service account without any role, and returns a token of it.
async fn unprivileged(cluster: &Cluster, admin: kube::Client, namespace: &str) -> String {
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("unprivileged".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(admin, namespace);
    create(&accounts, &account).await;
    token(cluster, namespace, "unprivileged").await
}

#[tokio::test]
async fn a_rule_of_a_custom_resource_refuses_with_its_message() {
    let cluster = shared().await;
    namespace(cluster, "rules").await;
    install_widgets(cluster, "rules").await;

    eventually("the message of the rule is reported", async || {
        let refused = kubectl(cluster, &["apply", "-f", "-"], &widget("rules", 2));
        assert!(!refused.status.success(), "{refused:?}");
        // Any other error comes from a busy machine.
        String::from_utf8_lossy(&refused.stderr).contains("a widget keeps its size")
    })
    .await;
}

#[tokio::test]
async fn a_service_account_may_do_nothing_that_no_role_allows() {
    let cluster = shared().await;
    let admin = namespace(cluster, "roles").await;
    let token = unprivileged(cluster, admin, "roles").await;

    let unprivileged = cluster.client_for(&token).await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(unprivileged, "roles");
    let params = kube::api::ListParams::default();
    let listed = insist("ConfigMaps are listed", async || {
        config_maps.list(&params).await
    });
    let error = listed.await.unwrap_err();

    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!(status.code, 403);
    assert!(
        status.message.contains(
            r#""system:serviceaccount:roles:unprivileged" cannot list resource "configmaps""#
        ),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn a_kubeconfig_for_a_token_works_in_kubectl() {
    let cluster = shared().await;
    let admin = namespace(cluster, "kubeconfigs").await;
    let token = unprivileged(cluster, admin, "kubeconfigs").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    cluster.write_kubeconfig(&path, &token).unwrap();

    let mut stdout = String::new();
    eventually("kubectl is answered", async || {
        let mut kubectl = cluster.kubectl();
        let kubectl = kubectl.args(["auth", "whoami"]).env("KUBECONFIG", &path);
        let output = kubectl.output().unwrap();
        stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success()
    })
    .await;
    assert!(
        stdout.contains("system:serviceaccount:kubeconfigs:unprivileged"),
        "{stdout}"
    );
}

#[tokio::test]
async fn a_deleted_namespace_goes_with_its_objects() {
    let cluster = shared().await;
    let client = namespace(cluster, "leaving").await;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), "leaving");
    create(&config_maps, &config_map("luggage")).await;
    let namespaces = Api::<Namespace>::all(client);

    delete(&namespaces, "leaving").await;

    eventually("the namespace is gone", async || {
        !is_there(&namespaces, "leaving").await
    })
    .await;
    assert!(!is_there(&config_maps, "luggage").await);
}

#[tokio::test]
async fn a_dependent_is_deleted_with_its_owner() {
    let cluster = shared().await;
    let client = namespace(cluster, "owners").await;
    let config_maps = Api::<ConfigMap>::namespaced(client, "owners");
    let owner = create(&config_maps, &config_map("owner")).await;
    create(&config_maps, &owned("owned", "v1", "ConfigMap", &owner)).await;

    delete(&config_maps, "owner").await;

    eventually("the owned object is gone", async || {
        !is_there(&config_maps, "owned").await
    })
    .await;
}

#[tokio::test]
async fn the_audit_log_has_a_write_as_soon_as_it_is_answered() {
    let cluster = shared().await;
    let client = namespace(cluster, "audited").await;
    let config_maps = Api::<ConfigMap>::namespaced(client, "audited");
    config_maps
        .create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap();
    config_maps.get("one").await.unwrap();
    config_maps
        .create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap_err();

    let entries = audit::read_namespace(cluster.audit_log_path(), "audited").unwrap();
    let mut all = audit::read(cluster.audit_log_path()).unwrap();
    all.retain(|entry| entry.namespace == "audited");
    // Other writers may have added entries meanwhile.
    all.truncate(entries.len());
    assert_eq!(
        all, entries,
        "the other namespaces are left out, and nothing else"
    );

    // The controllers write into every namespace as well, under their own user names.
    let writes: Vec<_> = entries
        .iter()
        .filter(|entry| {
            entry.is_write() && entry.namespace == "audited" && entry.user == "devcluster-admin"
        })
        .filter(|entry| entry.is_on("configmaps"))
        .map(|entry| (entry.verb.as_str(), entry.name.as_str(), entry.code))
        .collect();
    assert_eq!(writes, [("create", "one", 201), ("create", "one", 409)]);
}
