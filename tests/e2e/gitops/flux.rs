//! The real kustomize-controller of Flux applies the repository that users copy. A file on loopback, and a GitRepository whose
//! status names it, stand in for the source-controller.

mod force;
mod renamed;

use super::objects::Objects;
use super::repository::{Repository, ubuntu};
use super::{REPOSITORY, here, takes_image_by_hand};
use crate::judges;
use crate::support::{
    Program, Setup, World, condition, counts, folder, is_ready, module, password_of, reason,
};
use axum::Router;
use axum::routing::get;
use cloud_server_operator::api::Verb;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn revision(commit: u32) -> String {
    format!("main@sha1:{commit:040x}")
}

/// The revision that [`Flux::begin`] commits.
fn first() -> String {
    revision(1)
}

/// Flux in the namespace of a world, and the repository that it applies.
struct Flux {
    repository: Repository,
    /// The archive that is served, and its URL.
    archive: Arc<Mutex<Vec<u8>>>,
    url: String,
    sources: Objects,
    kustomizations: Objects,
    commits: u32,
    _controller: Program,
    _folder: TempDir,
}

impl Flux {
    /// Starts Flux without a Kustomization.
    async fn start(world: &World) -> Self {
        let definitions = [
            module("source-controller", "github.com/fluxcd/source-controller"),
            module(
                "kustomize-controller",
                "github.com/fluxcd/kustomize-controller",
            ),
        ];
        for definitions in definitions {
            let bases = definitions.join("config/crd/bases");
            world
                .run(
                    &[
                        "apply",
                        "--server-side",
                        "--force-conflicts",
                        "-f",
                        bases.to_str().unwrap(),
                    ],
                    "",
                )
                .await;
        }
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=120s",
        ];
        world.run(&wait, "").await;
        let repository = Repository::copy(world);
        let archive = Arc::new(Mutex::new(Vec::new()));
        let served = archive.clone();
        let answer = async move || served.lock().unwrap().clone();
        let app = Router::new().route("/servers.tar.gz", get(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/servers.tar.gz", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let folder = folder(world, "flux-");
        let program = PathBuf::from(judges::program("kustomize-controller"));
        let controller =
            Program::start(folder.path(), "kustomize-controller", &program, |command| {
                command
                    .env("KUBECONFIG", world.shared.cluster.kubeconfig_path())
                    .env("RUNTIME_NAMESPACE", &world.namespace)
                    .args([
                        "--watch-all-namespaces=false",
                        "--enable-leader-election=false",
                    ])
                    .args(["--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0"]);
            });
        Self {
            repository,
            archive,
            url,
            sources: Objects::of(world, "source.toolkit.fluxcd.io", "v1", "GitRepository"),
            kustomizations: Objects::of(
                world,
                "kustomize.toolkit.fluxcd.io",
                "v1",
                "Kustomization",
            ),
            commits: 0,
            _controller: controller,
            _folder: folder,
        }
    }

    /// Creates the Flux objects for the repository, as users do. `own_words`: with the expressions of the example instead of
    /// kstatus.
    async fn begin(&mut self, world: &World, own_words: bool) {
        let file = std::fs::read_to_string(Path::new(REPOSITORY).join("flux/team-a.yaml")).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&file).unwrap() {
            let mut object = here(world, &object);
            if object["kind"] == "GitRepository" {
                object["spec"]["suspend"] = json!(true);
            }
            if !own_words {
                object["spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("healthCheckExprs");
            }
            world
                .run(&["apply", "--server-side", "-f", "-"], &object.to_string())
                .await;
        }
        self.commit().await;
    }

    /// Acts as the source-controller after a commit. Returns the revision.
    async fn commit(&mut self) -> String {
        self.commits += 1;
        let revision = revision(self.commits);
        let bytes = self.repository.archive();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let sum = Command::new("sha256sum").arg(file.path()).output().unwrap();
        let sum = String::from_utf8(sum.stdout).unwrap();
        let digest = sum.split_whitespace().next().unwrap();
        let size = bytes.len();
        *self.archive.lock().unwrap() = bytes;
        let now = jiff::Timestamp::now();
        let now = now.round(jiff::Unit::Second).unwrap().to_string();
        let artifact = json!({
            "path": "servers.tar.gz", "url": self.url, "revision": revision,
            "digest": format!("sha256:{digest}"), "size": size, "lastUpdateTime": now,
        });
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored",
            "lastTransitionTime": now,
        });
        let status = json!({"status": {"artifact": artifact, "conditions": [ready], "observedGeneration": 1}});
        self.sources.patch_status("servers", &status).await;
        revision
    }

    /// Waits until Flux has processed a revision; returns its reason and message.
    async fn ends(&self, revision: &str, status: &str) -> (String, String) {
        let ready = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions
                .find(|one| one["type"] == "Ready")
                .cloned()
                .unwrap_or_default()
        };
        let what = format!("{revision} ends as {status}");
        let ended = self.kustomizations.until("team-a", &what, |object| {
            object["status"]["lastAttemptedRevision"] == revision
                && ready(object)["status"] == status
                && ready(object)["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(revision) || status == "False")
        });
        let ready = ready(&ended.await);
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("message"))
    }

    /// Commits the current files, and waits until they are applied and ready.
    async fn applies(&mut self) {
        let revision = self.commit().await;
        self.ends(&revision, "True").await;
    }

    /// Requests a reconciliation now.
    async fn again(&self) {
        let now = jiff::Timestamp::now().to_string();
        let request =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now}}});
        self.kustomizations.patch("team-a", &request).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds a part of Flux: make gitops"]
async fn flux_waits_for_servers_and_fails_at_once_where_human_action_is_needed() {
    // A create takes long enough to observe that Flux waits.
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .tasks(3_000)
        .begin("flux")
        .await;
    let mut flux = Flux::start(&world).await;
    flux.begin(&world, false).await;
    world.until("web-1", "is there", |_| true).await;
    let waits = flux.kustomizations.until("team-a", "waits", |object| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let reconciling = conditions.find(|one| one["type"] == "Reconciling");
        let message = reconciling.and_then(|one| one["message"].as_str());
        message.is_some_and(|text| text.starts_with("Running health checks for revision"))
    });
    waits.await;
    flux.ends(&first(), "True").await;
    let applied = world.get("web-1").await;
    let (came, ready) = (
        &applied.metadata.creation_timestamp,
        condition(&applied, "Ready"),
    );
    let took = ready
        .unwrap()
        .last_transition_time
        .0
        .duration_since(came.as_ref().unwrap().0);
    assert!(
        took.as_secs() >= 2,
        "there was something to wait for: {took}"
    );
    for name in ["web-1", "db-1"] {
        assert!(is_ready(&world.get(name).await), "Flux waited for {name}");
    }
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());

    // Another image waits for a confirmation: Flux reports that at once, although its timeout is 15 minutes, and names the
    // Instance.
    flux.repository
        .spec("web-1", |spec| spec["image"]["id"] = ubuntu());
    let revision = flux.commit().await;
    let (why, message) = flux.ends(&revision, "False").await;
    assert_eq!(why, "HealthCheckFailed", "{message}");
    assert!(
        message.contains("Instance") && message.contains("web-1"),
        "{message}"
    );
    assert_eq!(reason(&world.get("web-1").await), "ReinstallNeedsApproval");
    assert_eq!(counts(&world, Verb::Reinstall, None), (0, 0));

    // The commit that confirms it.
    flux.repository.acknowledges("web-1");
    flux.applies().await;
    assert!(is_ready(&world.get("web-1").await));
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds a part of Flux: make gitops"]
async fn flux_reverts_edits_and_prunes_objects_that_left_the_repository() {
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .begin("flux-drift")
        .await;
    let mut flux = Flux::start(&world).await;
    flux.begin(&world, true).await;
    flux.ends(&first(), "True").await;

    let ours = world.get("web-1").await.spec.image.clone();
    takes_image_by_hand(&world, &ubuntu()).await;
    world.until_reason("web-1", "ReinstallNeedsApproval").await;
    flux.again().await;
    let back = world.until("web-1", "matches the repository", |now| {
        is_ready(now) && now.spec.image == ours
    });
    back.await;
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (0, 0),
        "{}",
        world.ledger_text()
    );

    flux.repository.unprotect("web-1");
    flux.applies().await;
    flux.repository.drop("web-1");
    flux.applies().await;
    world.gone("web-1").await;
    assert_eq!(world.sim.live_servers().len(), 1, "{}", world.ledger_text());

    // A protected Instance stays, and Flux reports the reason.
    let protected = world.get("db-1").await;
    flux.repository.drop("db-1");
    let revision = flux.commit().await;
    let (why, message) = flux.ends(&revision, "False").await;
    assert_eq!(why, "PruneFailed", "{message}");
    assert!(message.contains("deletionProtection"), "{message}");
    assert_eq!(world.live(&protected).len(), 1);
    flux.repository.edit(|instances| {
        let mut unprotected = json!({"apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance"});
        unprotected["metadata"] = json!({"name": "db-1"});
        unprotected["spec"] = serde_json::to_value(&protected.spec).unwrap();
        unprotected["spec"]["deletionProtection"] = json!(false);
        instances.push(unprotected);
    });
    flux.applies().await;

    // The deletion of the Kustomization deletes all that it created.
    flux.kustomizations.delete("team-a").await;
    flux.kustomizations.gone("team-a").await;
    world.gone("db-1").await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds a part of Flux: make gitops"]
async fn flux_gives_a_server_the_password_of_a_generated_secret_and_the_next_one() {
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .tasks(3_000)
        .begin("flux-secret")
        .await;
    let mut flux = Flux::start(&world).await;
    flux.repository.generate(World::PASSWORD);
    flux.begin(&world, true).await;
    flux.ends(&first(), "True").await;
    let web = world.get("web-2").await;
    let server = world.only_server(&web).id;
    assert_eq!(
        password_of(&world, &server).as_deref(),
        Some(World::PASSWORD)
    );
    let before = generated(&world, "web-2-login-").await;

    flux.repository.generate(World::NEW_PASSWORD);
    flux.applies().await;
    assert!(is_ready(&world.get("web-2").await), "Flux waited for it");
    assert_eq!(
        password_of(&world, &server).as_deref(),
        Some(World::NEW_PASSWORD)
    );
    assert_eq!(
        counts(&world, Verb::ModifyPassword, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    assert_eq!(counts(&world, Verb::Reinstall, None), (0, 0));
    let after = generated(&world, "web-2-login-").await;
    assert!(
        before.len() == 1 && after.len() == 1 && before != after,
        "{before:?}, then {after:?}"
    );
    world.finish().await;
}

/// Names of the Secrets that the repository generates and that begin with this text.
async fn generated(world: &World, beginning: &str) -> Vec<String> {
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = world.secrets();
    let all = secrets.list(&ListParams::default()).await.unwrap();
    let names = all.iter().map(ResourceExt::name_any);
    names.filter(|name| name.starts_with(beginning)).collect()
}
