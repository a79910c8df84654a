//! The repository that users copy, in a folder of its own and adapted to the world of the test.

use super::{REPOSITORY, here};
use crate::support::{World, folder, instance};
use cloud_simulator::catalogue;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An image that the servers of the repository do not have.
pub(super) fn ubuntu() -> Value {
    json!(catalogue::example().image)
}

/// A copy of `examples/gitops`. The namespace exists already, in place of the one that the copy would create. The token is a
/// Secret, as SOPS or External Secrets would create it.
pub(super) struct Repository {
    folder: TempDir,
    namespace: String,
}

impl Repository {
    pub(super) fn copy(world: &World) -> Self {
        let folder = folder(world, "repository-");
        let repository = Self {
            folder,
            namespace: world.namespace.clone(),
        };
        let copied = Path::new(REPOSITORY).join("team-a");
        fs::create_dir(repository.team()).unwrap();
        for name in ["token.yaml", "account.yaml", "instances.yaml"] {
            let text = fs::read_to_string(copied.join(name)).unwrap();
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            let objects: Vec<Value> = objects.iter().map(|object| here(world, object)).collect();
            repository.write(name, &objects);
        }
        let names = fs::read(copied.join("names.yaml")).unwrap();
        fs::write(repository.team().join("names.yaml"), names).unwrap();
        repository.kustomize(&copied, |_| {});
        repository
    }

    /// The folder that is applied.
    fn team(&self) -> PathBuf {
        self.folder.path().join("team-a")
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, objects: &[Value]) {
        let text: String = objects
            .iter()
            .map(|object| format!("---\n{object}\n"))
            .collect();
        fs::write(self.team().join(name), text).unwrap();
    }

    /// Removes the token from the repository.
    pub(super) fn without_token(&self) {
        self.write("token.yaml", &[]);
    }

    /// Edits the Instances.
    pub(super) fn edit(&self, edit: impl FnOnce(&mut Vec<Value>)) {
        let text = fs::read_to_string(self.team().join("instances.yaml")).unwrap();
        let mut instances: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        edit(&mut instances);
        self.write("instances.yaml", &instances);
    }

    /// Edits one Instance.
    pub(super) fn spec(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit(|instances| {
            let mut named = instances
                .iter_mut()
                .filter(|one| one["metadata"]["name"] == name);
            edit(&mut named.next().unwrap()["spec"]);
        });
    }

    /// Confirms that the disk of an Instance may be erased for its other image.
    pub(super) fn acknowledges(&self, name: &str) {
        let word = json!({"token": "2026-06-01", "image": ubuntu()});
        self.spec(name, |spec| spec["reinstall"] = word);
    }

    /// Ends the protection of an Instance.
    pub(super) fn unprotect(&self, name: &str) {
        self.spec(name, |spec| spec["deletionProtection"] = json!(false));
    }

    /// Removes an Instance.
    pub(super) fn drop(&self, name: &str) {
        self.edit(|instances| instances.retain(|one| one["metadata"]["name"] != name));
    }

    fn kustomize(&self, from: &Path, edit: impl FnOnce(&mut Value)) {
        let text = fs::read_to_string(from.join("kustomization.yaml")).unwrap();
        let mut kustomization: Value = serde_saphyr::from_str(&text).unwrap();
        kustomization["namespace"] = json!(self.namespace);
        let resources = kustomization["resources"].as_array_mut().unwrap();
        resources.retain(|file| file != "namespace.yaml");
        edit(&mut kustomization);
        fs::write(
            self.team().join("kustomization.yaml"),
            kustomization.to_string(),
        )
        .unwrap();
    }

    /// Adds a Secret with this password, whose name contains its hash, and an Instance `web-2` that logs in with it.
    pub(super) fn generate(&self, password: &str) {
        let file = "web-2-login.env";
        fs::write(self.team().join(file), format!("password={password}\n")).unwrap();
        let secret = json!({"name": "web-2-login", "envs": [file]});
        self.kustomize(&self.team(), |kustomization| {
            kustomization["secretGenerator"] = json!([secret]);
        });
        let mut web = instance("web-2");
        web["spec"]["login"]["passwordSecretRef"]["name"] = json!("web-2-login");
        self.drop("web-2");
        self.edit(|instances| instances.push(web));
    }

    /// Puts the token into a Secret whose name contains its hash, and adds a prefix to all names.
    pub(super) fn generate_token(&self, comment: &str) {
        let label = json!({"cloudserver.dev/use": "token"});
        let secret = json!({
            "name": "cloud-token", "options": {"labels": label},
            "literals": [format!("token={}", World::TOKEN), format!("comment={comment}")],
        });
        self.kustomize(&self.team(), |kustomization| {
            kustomization["secretGenerator"] = json!([secret]);
            kustomization["namePrefix"] = json!("dev-");
        });
    }

    /// Commits all files, and returns the commit.
    pub(super) fn commit(&self) -> String {
        if !self.folder.path().join(".git").exists() {
            self.git(&["init", "--quiet", "--initial-branch=main"]);
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=an edit"]);
        self.head()
    }

    /// The last commit.
    pub(super) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// The current files, in an archive.
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut tar = Command::new("tar");
        let tar = tar.args(["-cz", "team-a"]).current_dir(self.path());
        let output = tar.output().unwrap();
        assert!(output.status.success());
        output.stdout
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        let git = git.args([
            "-c",
            "user.name=tester",
            "-c",
            "user.email=tester@example.com",
        ]);
        let git = git.args(arguments).current_dir(self.path());
        // Ignore all other git settings.
        let git = git
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        let output = git.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}
