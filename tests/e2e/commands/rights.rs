//! Commands of a user with few permissions: each reports the missing permission and the remedy.

use super::{CommandOutput, PLUGIN, run};
use crate::support::{Setup, World, eventually, instance};
use serde_json::json;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::process::Command;

/// A user without permissions, until some are granted.
pub(super) struct Limited {
    kubeconfig: PathBuf,
    namespace: String,
    _directory: TempDir,
}

impl Limited {
    pub(super) async fn of(world: &World) -> Self {
        world
            .run(&["create", "serviceaccount", "limited"], "")
            .await;
        let (done, token) = world.kubectl(&["create", "token", "limited"], "").await;
        assert!(done, "{token}");
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let text = world.shared.cluster.kubeconfig_for(token.trim());
        std::fs::write(&kubeconfig, text).unwrap();
        Self {
            kubeconfig,
            namespace: world.namespace.clone(),
            _directory: directory,
        }
    }

    /// Runs a command until either stream contains these words, since a change of permissions takes a moment to take effect.
    pub(super) async fn until(
        &self,
        arguments: &[&str],
        input: &str,
        status: i32,
        words: &[&str],
    ) -> CommandOutput {
        eventually(&format!("{arguments:?} prints {words:?}"), async || {
            let mut command = Command::new(PLUGIN);
            command.args(arguments).args(["-n", &self.namespace]);
            command.arg("--kubeconfig").arg(&self.kubeconfig);
            let output = run(&mut command, input).await;
            let all = format!("{}{}", output.out, output.err);
            match output.status == status && words.iter().all(|word| all.contains(word)) {
                true => Ok(output),
                false => Err(format!("{}: {all}", output.status)),
            }
        })
        .await
    }
}

/// Sets the user's permissions in the namespace of the world.
pub(super) async fn allow(world: &World, rules: &[(&str, &str, &[&str])]) {
    let rules: Vec<_> = rules
        .iter()
        .map(|(group, kind, verbs)| json!({"apiGroups": [group], "resources": [kind], "verbs": verbs}))
        .collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "limited"}, "rules": rules});
    world.run(&["apply", "-f", "-"], &role.to_string()).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"},
        "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": world.namespace}],
    });
    world.run(&["apply", "-f", "-"], &binding.to_string()).await;
}

const OURS: &str = "cloudserver.dev";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_read_gets_the_missing_permission_and_the_remedy() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("rights")
        .await;
    let server = super::unowned_servers(&world, 1).await.remove(0);
    let user = Limited::of(&world).await;
    let commands = [
        &["catalog", "keys"][..],
        &["instances"],
        &["import", &server.id],
    ];
    for command in commands {
        let words = [
            "Account default",
            "cannot get resource \"accounts\"",
            "allowed to",
        ];
        let output = user.until(command, "", 1, &words).await;
        assert_eq!(output.out, "");
    }
    allow(&world, &[(OURS, "accounts", &["get"])]).await;
    for command in commands {
        let words = [
            "Account default",
            "Secret cloud-token",
            "cannot get resource \"secrets\"",
            "allowed to read",
        ];
        let output = user.until(command, "", 1, &words).await;
        assert_eq!(output.out, "");
    }
    let account = [(OURS, "accounts", &["get"][..]), ("", "secrets", &["get"])];
    allow(&world, &account).await;
    user.until(&["catalog", "keys"], "", 0, &["laptop-1"]).await;
    // The servers are shown, with a note that their owners are unknown.
    let unknown = [
        "cannot list resource \"instances\"",
        "the owners of servers are unknown",
        "allowed to",
    ];
    let output = user.until(&["instances"], "", 0, &unknown).await;
    let line = output.out.lines().find(|line| line.contains(&server.id));
    assert!(
        line.is_some_and(|line| line.trim_end().ends_with('?')),
        "{}",
        output.out
    );
    let output = user
        .until(&["instances", "--unowned"], "", 1, &unknown)
        .await;
    assert_eq!(output.out, "");
    // With the permission for one namespace, the command shows the owners in it.
    let all = [&account[..], &[(OURS, "instances", &["list"])]].concat();
    allow(&world, &all).await;
    let only = format!("only the Instances of namespace {}", world.namespace);
    let words = [only.as_str(), "in all namespaces", &server.id];
    user.until(&["instances", "--unowned"], "", 0, &words).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_plan_gets_the_missing_permission_and_the_remedy() {
    let world = Setup::default().own_ids().begin("rights-plan").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let user = Limited::of(&world).await;
    let plan = ["plan", "-f", "-"];
    let [web, db] = ["web", "db"].map(|name| instance(name).to_string());

    let words = [
        "web: unknown",
        "cannot get resource \"instances\"",
        "allowed to",
    ];
    user.until(&plan, &web, 1, &words).await;
    let reads = (OURS, "instances", &["get", "list"][..]);
    allow(&world, &[reads]).await;
    let words = [
        "web: refused",
        "cannot patch resource \"instances\"",
        "allowed to patch",
        "writes nothing",
    ];
    user.until(&plan, &web, 4, &words).await;
    let writes = (OURS, "instances", &["get", "list", "patch", "create"][..]);
    allow(&world, &[writes]).await;
    // An existing server is judged by its status, with a note about that.
    user.until(&plan, &web, 0, &["web: nothing", "accounts"])
        .await;
    let account = (OURS, "accounts", &["get"][..]);
    allow(&world, &[writes, account]).await;
    user.until(&plan, &web, 0, &["web: nothing", "secrets"])
        .await;
    let secrets = ("", "secrets", &["get"][..]);
    allow(&world, &[writes, account, secrets]).await;
    user.until(&plan, &web, 0, &["web: nothing"]).await;
    user.until(&plan, &db, 3, &["db: new server"]).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_only_list_instances_may_describe_them() {
    let world = Setup::default()
        .without_operator()
        .begin("rights-describe")
        .await;
    world.apply(&instance("web")).await;
    let user = Limited::of(&world).await;
    allow(&world, &[(OURS, "instances", &["list"])]).await;
    let words = ["Instance ", "/web, ", "not reported anything about it yet"];
    user.until(&["describe", "web"], "", 0, &words).await;
    let words = ["cannot list resource \"accounts\"", "allowed to"];
    user.until(&["status"], "", 1, &words).await;
}
