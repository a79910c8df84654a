//! The real Argo CD, with its controller and its repository server, applies the repository that users copy, with the health
//! checks of `deploy/argocd`.

use super::objects::Objects;
use super::repository::{Repository, ubuntu};
use super::{CHECKS, REPOSITORY, rendered, takes_image_by_hand};
use crate::judges;
use crate::support::{
    Program, Setup, World, condition, counts, eventually, folder, is_ready, module, on_path, port,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::catalogue::example;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// Argo CD in the namespace of a world, and the repository that it applies.
struct Argo {
    repository: Repository,
    /// The Application's name, which must be unique among all Argo CDs of this cluster: an Argo CD treats the objects with its
    /// Application's name as its own, and prunes them.
    name: String,
    applications: Objects,
    _programs: Vec<Program>,
    _ports: Vec<TcpSocket>,
    _folder: TempDir,
}

impl Argo {
    /// Starts Argo CD without an Application.
    async fn start(world: &World) -> Self {
        let source = module("argocd", "github.com/argoproj/argo-cd/v3");
        let definitions = source.join("manifests/crds");
        for name in ["application-crd.yaml", "appproject-crd.yaml"] {
            let file = definitions.join(name);
            let apply = [
                "apply",
                "--server-side",
                "--force-conflicts",
                "-f",
                file.to_str().unwrap(),
            ];
            world.run(&apply, "").await;
        }
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=120s",
        ];
        world.run(&wait, "").await;
        Self::settings(world).await;
        let repository = Repository::copy(world);
        repository.commit();
        let folder = folder(world, "argocd-");
        let home = folder.path();
        let binary = judges::program("argocd");
        // The program selects its role by its name.
        for name in ["argocd-repo-server", "argocd-application-controller"] {
            on_path(home, name, &binary);
        }
        on_path(home, "kustomize", judges::program("kustomize"));
        // Files from a Go module are not executable.
        let verify = "git-verify-wrapper.sh";
        std::fs::copy(
            source.join("hack").join(verify),
            home.join("bin").join(verify),
        )
        .unwrap();
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(home.join("bin").join(verify), may_run).unwrap();
        let kubeconfig = home.join("kubeconfig");
        world
            .shared
            .cluster
            .write_admin_kubeconfig(&kubeconfig)
            .unwrap();
        let (ports, bound): (Vec<u16>, Vec<TcpSocket>) = (0..4).map(|_| port()).unzip();
        let at = |port: u16| format!("127.0.0.1:{port}");
        let redis = Program::start(
            home,
            "redis",
            Path::new("/usr/bin/redis-server"),
            |command| {
                let arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
                command
                    .args(arguments)
                    .arg("--port")
                    .arg(ports[0].to_string())
                    .current_dir(home);
            },
        );
        listens(ports[0]).await;
        let prepare = |command: &mut std::process::Command| {
            command
                .env("KUBECONFIG", &kubeconfig)
                .env("ARGOCD_FAKE_IN_CLUSTER", "true")
                .env("ARGOCD_GPG_ENABLED", "false")
                .env("ARGOCD_ASK_PASS_SOCK", home.join("ask-pass.sock"))
                .env("ARGOCD_TLS_DATA_PATH", home.join("tls"))
                .env("ARGOCD_SSH_DATA_PATH", home.join("ssh"))
                .args(["--redis", &at(ports[0])]);
        };
        let called = |name: &str| home.join("bin").join(name);
        let server = Program::start(
            home,
            "repo-server",
            &called("argocd-repo-server"),
            |command| {
                prepare(command);
                command
                    .args([
                        "--disable-tls",
                        "--client-ca-path",
                        "",
                        "--address",
                        "127.0.0.1",
                    ])
                    .args(["--metrics-address", "127.0.0.1"])
                    .args([
                        "--port",
                        &ports[1].to_string(),
                        "--metrics-port",
                        &ports[2].to_string(),
                    ]);
            },
        );
        listens(ports[1]).await;
        let name = "argocd-application-controller";
        let controller = Program::start(home, name, &called(name), |command| {
            prepare(command);
            command
                .args([
                    "--namespace",
                    &world.namespace,
                    "--repo-server-plaintext",
                    "--repo-server",
                    &at(ports[1]),
                ])
                .args(["--metrics-port", &ports[3].to_string()])
                .args(["--self-heal-timeout-seconds", "1", "--app-resync", "30"]);
        });
        Self {
            repository,
            name: world.namespace.clone(),
            applications: Objects::of(world, "argoproj.io", "v1alpha1", "Application"),
            _programs: vec![controller, server, redis],
            _ports: bound,
            _folder: folder,
        }
    }

    /// The settings of an installation, and the health checks as the page describes.
    async fn settings(world: &World) {
        let part = json!({"app.kubernetes.io/part-of": "argocd"});
        let apply = ["apply", "--server-side", "-f", "-"];
        let all = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "labels": part}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-secret", "labels": part},
                "stringData": {"server.secretkey": "of this test"}}),
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
                "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                    "clusterResourceWhitelist": [{"group": "*", "kind": "*"}]}}),
        ];
        for object in all {
            world.run(&apply, &object.to_string()).await;
        }
        for mut checks in rendered(world, Path::new(CHECKS)).await {
            checks["metadata"]["namespace"] = json!(world.namespace);
            world
                .run(
                    &[
                        "apply",
                        "--server-side",
                        "--field-manager=cloudserver-health",
                        "-f",
                        "-",
                    ],
                    &checks.to_string(),
                )
                .await;
        }
    }

    /// Creates the Application that users copy, with these options.
    async fn begin(&self, world: &World, options: &[&str]) {
        let file = PathBuf::from(REPOSITORY).join("argocd/team-a.yaml");
        let file = std::fs::read_to_string(file).unwrap();
        let mut application: Value = serde_saphyr::from_str(&file).unwrap();
        application["metadata"]["namespace"] = json!(world.namespace);
        application["metadata"]["name"] = json!(self.name);
        let spec = &mut application["spec"];
        spec["source"]["repoURL"] = json!(format!("file://{}", self.repository.path().display()));
        spec["destination"]["namespace"] = json!(world.namespace);
        assert_eq!(
            spec["syncPolicy"]["syncOptions"],
            json!(["ServerSideApply=true"])
        );
        spec["syncPolicy"]["syncOptions"] = json!(options);
        world
            .run(
                &["apply", "--server-side", "-f", "-"],
                &application.to_string(),
            )
            .await;
    }

    /// Waits until the Application has this health for a commit, and requests a refresh now.
    async fn until_health(&self, commit: &str, health: &str) -> Value {
        let now = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
        self.applications.patch(&self.name, &now).await;
        let what = format!("{commit} is Synced and {health}");
        let object = self.applications.until(&self.name, &what, |object| {
            let status = &object["status"];
            status["sync"]["status"] == "Synced"
                && status["sync"]["revision"] == commit
                && status["health"]["status"] == health
                && status["operationState"]["phase"] == "Succeeded"
        });
        object.await
    }

    /// Commits the current files, and waits until they are applied and healthy.
    async fn applies(&self) {
        let commit = self.repository.commit();
        self.until_health(&commit, "Healthy").await;
    }
}

/// Waits until a process listens on the port.
async fn listens(port: u16) {
    eventually(&format!("port {port} is listened on"), async || {
        let tried = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        tried.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Argo CD: make gitops"]
async fn argocd_syncs_in_waves_reports_failures_heals_and_prunes() {
    let world = Setup::default().bare().keeps_tokens().begin("argocd").await;
    let argo = Argo::start(&world).await;
    // The token is provided externally, and late: until then, the wave of the Account has not ended, and no object of the next
    // wave exists.
    argo.repository.without_token();
    let first = argo.repository.commit();
    argo.begin(&world, &["ServerSideApply=true"]).await;
    let waits = "waiting for healthy state of cloudserver.dev/Account/default";
    argo.applications
        .until(&argo.name, waits, |object| {
            let message = object["status"]["operationState"]["message"].as_str();
            message.is_some_and(|text| text.starts_with(waits))
        })
        .await;
    assert!(world.all().await.is_empty());
    world.secret("cloud-token", "token", World::TOKEN).await;
    argo.until_health(&first, "Healthy").await;
    for name in ["web-1", "db-1"] {
        assert!(is_ready(&world.get(name).await));
    }
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());

    // Another image waits for a confirmation.
    argo.repository
        .spec("web-1", |spec| spec["image"]["id"] = ubuntu());
    let commit = argo.repository.commit();
    argo.until_health(&commit, "Degraded").await;
    assert!(condition(&world.get("web-1").await, "Stalled").is_some());
    assert_eq!(counts(&world, Verb::Reinstall, None), (0, 0));
    argo.repository.acknowledges("web-1");
    argo.applies().await;
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );

    // Argo CD reverts an external edit, by an edit of its own.
    let before = world.get("web-1").await.metadata.generation.unwrap();
    takes_image_by_hand(&world, &json!(example().other_image)).await;
    let back = world.until("web-1", "matches the repository", |now| {
        now.metadata.generation > Some(before + 1) && is_ready(now)
    });
    let back = serde_json::to_value(&back.await.spec).unwrap();
    assert_eq!(back["image"]["id"], ubuntu());
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );

    argo.repository.unprotect("web-1");
    argo.applies().await;
    argo.repository.drop("web-1");
    argo.applies().await;
    world.gone("web-1").await;
    assert_eq!(world.sim.live_servers().len(), 1, "{}", world.ledger_text());

    argo.repository.unprotect("db-1");
    argo.applies().await;
    argo.applications.delete(&argo.name).await;
    argo.applications.gone(&argo.name).await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    // Its server was released before the deletion of the Account was requested.
    let released = last(&world, |entry| {
        entry.resource == "instances" && entry.name == "db-1"
    })
    .await;
    let deleted = last(&world, |entry| {
        entry.resource == "accounts" && entry.verb == "delete"
    })
    .await;
    assert!(
        released < deleted,
        "the Account went at {deleted}, the Instance at {released}"
    );
    world.finish().await;
}

/// When the last of these writes arrived. The line about a request is written after its answer.
async fn last(world: &World, is_it: impl Fn(&devcluster::audit::Entry) -> bool) -> Timestamp {
    eventually("the write is in the audit log", async || {
        let log = world.audit_log().await;
        let writes = log
            .iter()
            .filter(|entry| entry.is_write() && entry.is_success() && is_it(entry));
        let last = writes.map(|entry| entry.received_at).max();
        last.ok_or_else(|| format!("none of {}", log.len()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Argo CD: make gitops"]
async fn argocd_replaces_whole_objects_and_every_server_stays_and_goes() {
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .begin("argocd-replace")
        .await;
    let argo = Argo::start(&world).await;
    argo.begin(&world, &["Replace=true"]).await;
    let first = argo.repository.head();
    argo.until_health(&first, "Healthy").await;
    let server = world.only_server(&world.get("web-1").await).id;
    // Each sync replaces all objects, including the parts that the operator wrote outside of status.
    argo.repository
        .spec("web-1", |spec| spec["powerState"] = json!("Stopped"));
    argo.applies().await;
    let stopped = world.ready("web-1").await;
    let replaced = world.others_writes("web-1").await;
    assert!(
        replaced.iter().any(|write| write.verb == "update"),
        "{replaced:#?}"
    );
    assert_eq!(world.only_server(&stopped).id, server);
    assert_eq!(
        counts(&world, Verb::Create, None),
        (2, 2),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        counts(&world, Verb::Stop, Some(&server)),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    assert_eq!(counts(&world, Verb::Reinstall, None), (0, 0));

    argo.repository.unprotect("web-1");
    argo.applies().await;
    argo.repository.drop("web-1");
    argo.applies().await;
    world.gone("web-1").await;
    assert!(world.live(&stopped).is_empty(), "{}", world.ledger_text());
    assert_eq!(world.sim.live_servers().len(), 1);
    world.finish().await;
}
