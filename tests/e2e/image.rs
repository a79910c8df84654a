//! The shipped image, which IMAGE names (`make image`): unpacked, with its process started as the Deployment starts it.

use crate::host::cgroup::Cgroup;
use crate::support::{Setup, World, get, instance};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Maximum size of the unpacked image.
const MOST: u64 = 20 * 1000 * 1000;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
}

fn json<T: DeserializeOwned>(file: &Path) -> T {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// An OCI archive, unpacked, and the root file system of its image for this machine.
struct Image {
    folder: TempDir,
    config: Value,
}

impl Image {
    fn unpack() -> Self {
        let archive = std::env::var("IMAGE").expect("IMAGE names no archive: make image");
        let folder = tempfile::Builder::new()
            .prefix("cso-e2e-image-")
            .tempdir()
            .unwrap();
        let layout = folder.path().join("layout");
        fs::create_dir_all(&layout).unwrap();
        let to = layout.to_str().unwrap();
        run("tar", &["-xf", &archive, "-C", to]);
        let blob = |of: &Value| {
            let digest = of["digest"].as_str().unwrap();
            layout.join("blobs").join(digest.replace(':', "/"))
        };
        let mut index: Value = json(&layout.join("index.json"));
        // The archive's own index refers to the index of the image.
        while !index["manifests"][0]["platform"].is_object() {
            index = json(&blob(&index["manifests"][0]));
        }
        let here = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        let manifests = index["manifests"].as_array().unwrap();
        let ours = manifests
            .iter()
            .find(|manifest| manifest["platform"]["architecture"] == here);
        let manifest: Value = json(&blob(ours.expect("an image for this machine")));
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        for layer in manifest["layers"].as_array().unwrap() {
            let layer = blob(layer);
            run(
                "tar",
                &[
                    "--numeric-owner",
                    "-xf",
                    layer.to_str().unwrap(),
                    "-C",
                    root.to_str().unwrap(),
                ],
            );
        }
        let config = json(&blob(&manifest["config"]));
        Self { folder, config }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// All files in it with their paths and sizes.
    fn files(&self) -> Vec<(String, u64)> {
        fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, u64)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(root, &path, found);
                } else {
                    let inside = path.strip_prefix(root).unwrap();
                    let bytes = fs::metadata(&path).unwrap().len();
                    found.push((inside.to_str().unwrap().to_owned(), bytes));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.root(), &self.root(), &mut found);
        found.sort();
        found
    }
}

/// The container of `deploy/operator/deployment.yaml`.
#[derive(Deserialize)]
struct Container {
    args: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

fn container() -> Container {
    let file = Path::new(ROOT).join("deploy/operator/deployment.yaml");
    let text = fs::read_to_string(file).unwrap();
    let deployment: Value = serde_saphyr::from_str(&text).unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    serde_json::from_value(container.clone()).unwrap()
}

#[test]
#[ignore = "make image makes it and plays this"]
fn an_image_holds_the_operator_its_definitions_and_its_authorities_and_nothing_else() {
    let image = Image::unpack();
    let config = &image.config["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"][0], "/cloud-server-operator");
    // Without arguments, the image starts like the Deployment.
    assert_eq!(config["Cmd"], serde_json::json!(container().args));
    let labels = &config["Labels"];
    assert_eq!(
        labels["org.opencontainers.image.version"],
        env!("CARGO_PKG_VERSION")
    );
    assert!(labels["org.opencontainers.image.revision"].is_string());
    let files = image.files();
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    println!("IMAGE: {bytes} bytes unpacked: {files:?}");
    assert!(bytes < MOST, "{bytes} bytes");
    let ours = |path: &str| {
        let is_other =
            path == "cloud-server-operator" || path == "etc/ssl/certs/ca-certificates.crt";
        is_other || path.starts_with("crds/")
    };
    let others: Vec<_> = files.iter().filter(|(path, _)| !ours(path)).collect();
    assert!(others.is_empty(), "{others:?}");
    for definition in fs::read_dir(Path::new(ROOT).join("crds")).unwrap() {
        let definition = definition.unwrap();
        let shipped = image.root().join("crds").join(definition.file_name());
        let is_same = fs::read(&shipped).unwrap() == fs::read(definition.path()).unwrap();
        assert!(is_same, "{} is another one", shipped.display());
    }
    let trusted = image.root().join("etc/ssl/certs/ca-certificates.crt");
    let trusted = fs::read_to_string(trusted).unwrap();
    let authorities = trusted.matches("BEGIN CERTIFICATE").count();
    assert!(authorities > 100, "{authorities} authorities");
}

/// The path at which the kubelet mounts it into the Pod.
const MOUNTED: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Ends the process when the test has ended. The kernel's own mechanism does not survive a change of user.
const WITH_THE_TEST: &str = r#"
(while kill -0 "$TEST" && kill -0 $$; do sleep 1; done; kill -KILL $$) 2>/dev/null &
exec "$0" "$@"
"#;

/// Becomes the container's process: in a read-only root, as the image's user, without capabilities. The first arguments, the
/// operator under test and the script that ends it with the test, are dropped.
const AS_A_CONTAINER: &str = r#"
set -eu
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
shift 3
unset KUBECONFIG
exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \
    /usr/sbin/chroot --userspec=65532:65532 "$ROOT" /cloud-server-operator "$@"
"#;

/// Puts the files that the kubelet mounts into the image: the token and the authority of the apiserver. Returns the variables
/// with its address.
fn mount_the_account(image: &Image, world: &World) -> Vec<(String, String)> {
    let mounted = image.root().join(MOUNTED);
    fs::create_dir_all(&mounted).unwrap();
    let kubeconfig = world.kubeconfig();
    let token = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "))
        .expect("a token");
    let (url, authority) = world.apiserver();
    let address = url.strip_prefix("https://").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    for (name, text) in [
        ("token", token.trim_matches('"')),
        ("ca.crt", authority),
        ("namespace", &world.namespace),
    ] {
        fs::write(mounted.join(name), text).unwrap();
    }
    let variables = [
        ("KUBERNETES_SERVICE_HOST", host.to_owned()),
        ("KUBERNETES_SERVICE_PORT", port.to_owned()),
        ("ROOT", image.root().to_str().unwrap().to_owned()),
        ("TEST", std::process::id().to_string()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// The words before the operator's own command line: it ends with the test, is counted by this group, and sees only the image.
fn command_line(group: &Cgroup) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let around: [Vec<String>; 3] = [
        words(&["sh", "-c", WITH_THE_TEST]),
        group.around(false).into(),
        words(&[
            "unshare",
            "--mount",
            "sh",
            "-c",
            AS_A_CONTAINER,
            "container",
        ]),
    ];
    around.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make image makes it and plays this"]
async fn the_process_of_the_image_does_its_work_in_the_bounds_of_the_deployment() {
    let Some(group) = Cgroup::new("memory") else {
        return;
    };
    let image = Image::unpack();
    let container = container();
    let limit = container.rest["resources"]["limits"]["memory"].clone();
    let mebibytes: u64 = limit
        .as_str()
        .and_then(|limit| limit.strip_suffix("Mi"))
        .and_then(|limit| limit.parse().ok())
        .expect("a limit in Mi");
    group.limit_memory(mebibytes << 20);
    let mut world = Setup::default().without_operator().begin("image").await;
    world.install_for_itself().await;
    let variables = mount_the_account(&image, &world);
    world.starts_as(command_line(&group), variables);
    world.start().await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let process = world.operator().id();
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    for line in [
        "Uid:\t65532\t65532\t65532\t65532",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    let program = fs::read_link(format!("/proc/{process}/exe")).unwrap();
    assert!(
        program.ends_with("root/cloud-server-operator"),
        "{program:?}"
    );
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container.rest[probe]["httpGet"]["path"].as_str().unwrap();
        let url = world.operator().url(path.trim_start_matches('/')).await;
        assert_eq!(get(&url).await.unwrap().0, 200, "{probe}");
    }
    println!("IMAGE: {} MiB counted at most", group.most_memory() >> 20);
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    world.operator().terminate();
    assert!(world.operator().ended().await.success());
    world.finish().await;
}
