//! `support`: what somebody needs to see who is to help, in one archive. No Secret is read, and no log.

mod metrics;
mod redact;

use super::service::{Cluster, ClusterArgs};
use super::{asked, chain, lists};
use crate::api::names::{GROUP, MANAGER};
use crate::api::{Account, Instance};
use crate::program::print;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use crate::runtime::requests;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use redact::redacted;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `support`.
#[derive(Debug, Args)]
pub(super) struct SupportArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Where the operator is installed.
    #[arg(long, default_value = "cloud-server-system", value_name = "NAME")]
    operator_namespace: String,

    /// The archive, which must not exist; cloud-server-support-TIME.tar.gz when absent.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the archive and says where it is and what it lacks.
pub(super) fn support(args: &SupportArgs) -> ExitCode {
    asked(collect(args), |text| print(&text))
}

/// What goes into the archive.
#[derive(Default)]
struct Bundle {
    files: Vec<(String, String)>,
    /// What could not be had, and why.
    missing: Vec<String>,
}

impl Bundle {
    fn file(&mut self, name: &str, value: &Value) {
        match serde_saphyr::to_string(value) {
            Ok(text) => self.files.push((name.to_owned(), text)),
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    /// A file of what was read, or why it is not there.
    fn read(&mut self, name: &str, cluster: &Cluster, read: Result<Vec<Value>, KubeError>) {
        match read {
            Ok(objects) => self.file(name, &Value::Array(objects)),
            Err(error) => self
                .missing
                .push(format!("{name}: {}", cluster.told(&error))),
        }
    }

    fn archive(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let missing = ("missing.txt".to_owned(), self.missing.join("\n"));
        for (name, text) in self.files.iter().chain([&missing]) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            let seconds = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
            header.set_mtime(seconds);
            archive.append_data(
                &mut header,
                format!("cloud-server-support/{name}"),
                text.as_bytes(),
            )?;
        }
        archive.into_inner()?.finish()
    }
}

async fn collect(args: &SupportArgs) -> Result<String, String> {
    let cluster = args.cluster.connect();
    let mut cluster = cluster.map_err(|error| chain(&error))?;
    cluster.client = requests::of_support(cluster.client);
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let mut bundle = Bundle::default();
    let version = call(
        "ask for the apiserver's version",
        cluster.client.apiserver_version(),
    )
    .await;
    let version = version.map_err(|error| cluster.told(&error))?;
    bundle.file(
        "versions.yaml",
        &json!({"command": env!("CARGO_PKG_VERSION"), "apiserver": version.git_version, "at": Timestamp::now()}),
    );
    for (kind, file) in [
        (ApiResource::erase::<Account>(&()), "accounts.yaml"),
        (ApiResource::erase::<Instance>(&()), "instances.yaml"),
    ] {
        let read = list(&cluster, &kind, namespace, "").await;
        bundle.read(file, &cluster, read);
    }
    let events = ApiResource::erase::<Event>(&());
    let read = list(&cluster, &events, namespace, "").await;
    bundle.read(
        "events.yaml",
        &cluster,
        read.map(|all| all.into_iter().filter(is_ours).collect()),
    );
    operator(&cluster, &args.operator_namespace, &mut bundle).await;
    write(args.output.clone(), &bundle)
}

/// What there is of the operator itself.
async fn operator(cluster: &Cluster, namespace: &str, bundle: &mut Bundle) {
    let label = format!("app.kubernetes.io/name={MANAGER}");
    let deployments = ApiResource::erase::<Deployment>(&());
    let read = list(cluster, &deployments, Some(namespace), &label).await;
    bundle.read("operator/deployments.yaml", cluster, read);
    let leases = ApiResource::erase::<Lease>(&());
    let read = list(cluster, &leases, Some(namespace), "").await;
    bundle.read("operator/leases.yaml", cluster, read);
    let pods = ApiResource::erase::<Pod>(&());
    let read = list(cluster, &pods, Some(namespace), &label).await;
    for pod in read.iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let file = format!("operator/metrics-{name}.txt");
        match metrics::page(cluster, namespace, pod).await {
            Ok(text) => bundle.files.push((file, text)),
            Err(why) => bundle.missing.push(format!("{file}: {why}")),
        }
    }
    if read.as_ref().is_ok_and(Vec::is_empty) {
        bundle.missing.push(format!(
            "operator/pods.yaml: no Pod with label {label} in namespace {namespace}: name the right one with --operator-namespace, unless the operator runs elsewhere"
        ));
    }
    bundle.read("operator/pods.yaml", cluster, read);
}

/// All objects of a kind, without what is not to be told.
async fn list(
    cluster: &Cluster,
    kind: &ApiResource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<Value>, KubeError> {
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, kind),
        None => Api::all_with(client, kind),
    };
    let mut params = ListParams::default();
    if !labels.is_empty() {
        params = params.labels(labels);
    }
    let listed = lists::all(&api, "list what there is", params).await?;
    let read = listed
        .iter()
        .filter_map(|object| serde_json::to_value(object).ok());
    Ok(read.map(redacted).collect())
}

/// An Event of one of our objects.
fn is_ours(event: &Value) -> bool {
    let of = event["regarding"]["apiVersion"]
        .as_str()
        .unwrap_or_default();
    of.split('/').next() == Some(GROUP)
}

fn write(output: Option<PathBuf>, bundle: &Bundle) -> Result<String, String> {
    let file = output.unwrap_or_else(|| {
        let at = Timestamp::now().strftime("%Y%m%d-%H%M%S");
        format!("cloud-server-support-{at}.tar.gz").into()
    });
    let told = |error: std::io::Error| {
        format!(
            "{} could not be written: {error}: name another file with --output",
            file.display()
        )
    };
    let bytes = bundle.archive().map_err(told)?;
    let written = made(&file, |target| {
        target.write_all(&bytes)?;
        target.sync_all()
    });
    written.map_err(told)?;
    let mut lines = vec![format!(
        "{} has {} files; no Secret and no log is in it",
        file.display(),
        bundle.files.len() + 1
    )];
    lines.extend(
        bundle
            .missing
            .iter()
            .map(|missing| format!("left out: {missing}")),
    );
    Ok(lines.join("\n"))
}

/// A file for its owner alone, which did not exist. Where not all of it can be written nothing of it stays: half an archive would
/// stand in the way of the next try, and look like one.
fn made(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    write(&mut file).inspect_err(|_| {
        // Why it could not be written is what is told.
        let _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn what_could_not_be_written_does_not_stay_and_what_was_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let failed = made(&path, |file| {
            file.write_all(b"half")?;
            Err(Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().contains("full"));
        made(&path, |file| file.write_all(b"whole")).unwrap();
        assert!(made(&path, |file| file.write_all(b"another")).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }
}
