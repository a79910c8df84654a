//! Installations of `deploy/` that differ from those of most tests: for one namespace, or under other names.

use super::cluster::kubectl_of;
use super::wait::eventually;
use super::world::World;
use devcluster::Cluster;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const ACCOUNT: &str = "cloud-server-operator";

/// A copy of the manifests that a test edits as a user would.
pub struct Manifests(TempDir);

impl Manifests {
    /// Copies the manifests of the repository.
    pub fn copy() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("cso-e2e-deploy-")
            .tempdir()
            .unwrap();
        for folder in ["deploy", "crds"] {
            copy(
                &Path::new(ROOT).join(folder),
                &directory.path().join(folder),
            );
        }
        Self(directory)
    }

    /// The path of a file or folder in the copy.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Replaces words in a file; they must exist there.
    pub fn edit(&self, path: &str, changes: &[(&str, &str)]) {
        let file = self.path(path);
        let mut text = fs::read_to_string(&file).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{from:?} is not in {path}");
            text = text.replace(from, to);
        }
        fs::write(file, text).unwrap();
    }

    /// Adds a custom kustomization.
    pub fn kustomization(&self, folder: &str, text: &str) {
        fs::create_dir_all(self.path(folder)).unwrap();
        fs::write(self.path(folder).join("kustomization.yaml"), text).unwrap();
    }

    /// `deploy/namespaced` with other names, and with the right to write Secrets.
    pub fn for_one_namespace(watched: &str, operator: &str) -> Self {
        let manifests = Self::copy();
        manifests.edit(
            "deploy/namespaced/names.yaml",
            &[
                ("watched: team-a", &format!("watched: {watched}")),
                (
                    "operator: cloud-server-team-a",
                    &format!("operator: {operator}"),
                ),
            ],
        );
        manifests.edit(
            "deploy/namespaced/kustomization.yaml",
            &[(
                "#- ../one-namespace/secret-writer",
                "- ../one-namespace/secret-writer",
            )],
        );
        manifests
    }

    /// Applies a folder as an administrator does.
    pub async fn apply(&self, cluster: &Cluster, folder: &str) {
        let folder = self.path(folder);
        let apply = ["apply", "--server-side", "-k", folder.to_str().unwrap()];
        eventually(&format!("{apply:?}"), async || {
            let output = kubectl_of(cluster, &apply, "").await;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        })
        .await;
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match source.is_dir() {
            true => copy(&source, &target),
            false => {
                fs::copy(source, target).unwrap();
            }
        }
    }
}

/// A token of a ServiceAccount.
pub async fn token_of(cluster: &Cluster, namespace: &str, account: &str) -> String {
    let create = [
        "create",
        "token",
        account,
        "-n",
        namespace,
        "--duration=24h",
    ];
    eventually(&format!("a token of {namespace}/{account}"), async || {
        let output = kubectl_of(cluster, &create, "").await;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await
}

impl World {
    /// Installs an operator of `deploy/namespaced` for this namespace alone, in a namespace of its own, which is returned. From
    /// here on the world's operator is started as its Deployment starts it, with its token.
    pub async fn install_for_itself(&mut self) -> String {
        let own = format!("{}-operator", self.namespace);
        let manifests = Manifests::for_one_namespace(&self.namespace, &own);
        let cluster = &self.shared.cluster;
        manifests.apply(cluster, "deploy/namespaced").await;
        super::until_served(cluster).await.unwrap();
        let token = token_of(cluster, &own, ACCOUNT).await;
        let kubeconfig = cluster.kubeconfig_for(&token);
        fs::write(self.directory.path().join("kubeconfig"), kubeconfig).unwrap();
        self.is_installed = true;
        for (name, value) in [("POD_NAMESPACE", &own), ("CSO_NAMESPACES", &self.namespace)] {
            self.launch
                .environment
                .push((name.to_owned(), value.clone()));
        }
        own
    }

    /// The kubeconfig of the world's operator.
    pub fn kubeconfig(&self) -> String {
        fs::read_to_string(self.directory.path().join("kubeconfig")).unwrap()
    }

    /// From here on this program starts the world's operator and becomes its process, with these variables.
    pub fn starts_as(&mut self, around: Vec<String>, environment: Vec<(String, String)>) {
        self.launch.around = around;
        self.launch.environment.extend(environment);
    }

    /// Runs the world's operator as an unknown user, like those that OpenShift assigns: no name, no home, no rights.
    pub fn run_as_an_unknown_user(&mut self) {
        use std::os::unix::fs::PermissionsExt;
        let directory = self.directory.path();
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory, readable.clone()).unwrap();
        for file in ["kubeconfig", "direct"] {
            fs::set_permissions(directory.join(file), readable.clone()).unwrap();
        }
        let around = "/usr/bin/setpriv --reuid=1000650000 --regid=0 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all";
        self.launch.around = around.split(' ').map(ToOwned::to_owned).collect();
    }
}
