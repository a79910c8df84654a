//! `support`: an archive for a person who helps the user. It contains no Secret and no log.

mod metrics;
mod redact;

use super::service::{Cluster, ClusterArgs};
use super::{lists, run_and_print};
use crate::output::print;
use clap::Args;
use cloud_server_operator::api::names::{GROUP, MANAGER};
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use redact::redacted;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files that `collect` treats specially: it filters Events, and also reads the metrics of Pods.
const EVENTS: &str = "events.yaml";
const PODS: &str = "operator/pods.yaml";

/// Flags of `support`.
#[derive(Debug, Args)]
pub(super) struct SupportArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Accounts, Instances and Events of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Namespace of the operator.
    #[arg(long, default_value = "cloud-server-system", value_name = "NAME")]
    operator_namespace: String,

    /// Path of the archive to create; an existing file is not overwritten. Default: cloud-server-support-TIME.tar.gz.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the archive, and prints its name and the missing parts.
pub(super) fn support(args: &SupportArgs) -> ExitCode {
    run_and_print(collect(args), |text| print(&text))
}

/// The content of the archive.
#[derive(Default)]
struct Bundle {
    files: Vec<(String, String)>,
    /// The parts that could not be read, and why.
    missing: Vec<String>,
}

impl Bundle {
    fn add_yaml(&mut self, name: &str, value: &Value) {
        match serde_saphyr::to_string(value) {
            Ok(text) => self.files.push((name.to_owned(), text)),
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    fn archive(&self) -> io::Result<Vec<u8>> {
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
    let cluster = args.cluster.connect()?;
    let mut bundle = Bundle::default();
    let version = cluster.client.apiserver_version();
    let version = call("read the apiserver's version", version).await;
    let version = version.map_err(|error| cluster.explain(&error))?;
    bundle.add_yaml(
        "versions.yaml",
        &json!({"command": env!("CARGO_PKG_VERSION"), "apiserver": version.git_version, "at": Timestamp::now()}),
    );
    let label = format!("app.kubernetes.io/name={MANAGER}");
    let namespace_of_objects = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    for (resource, labels, file) in [
        (kind::<Account>(), "", "accounts.yaml"),
        (kind::<Instance>(), "", "instances.yaml"),
        (kind::<Event>(), "", EVENTS),
        (kind::<Deployment>(), &*label, "operator/deployments.yaml"),
        (kind::<StatefulSet>(), &label, "operator/statefulsets.yaml"),
        (kind::<Lease>(), "", "operator/leases.yaml"),
        (kind::<Pod>(), &label, PODS),
    ] {
        let namespace = match file.starts_with("operator/") {
            true => Some(args.operator_namespace.as_str()),
            false => namespace_of_objects,
        };
        let mut objects = match list(&cluster, &resource, namespace, labels).await {
            Ok(objects) => objects,
            Err(error) => {
                let why = cluster.explain(&error);
                bundle.missing.push(format!("{file}: {why}"));
                continue;
            }
        };
        match file {
            EVENTS => objects.retain(is_ours),
            PODS => metrics(&cluster, &args.operator_namespace, &objects, &mut bundle).await,
            _ => {}
        }
        bundle.add_yaml(file, &Value::Array(objects));
    }
    write(args.output.clone(), &bundle)
}

fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Adds the metrics of the operator's Pods.
async fn metrics(cluster: &Cluster, namespace: &str, pods: &[Value], bundle: &mut Bundle) {
    for pod in pods {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let file = format!("operator/metrics-{name}.txt");
        match metrics::page(cluster, namespace, pod).await {
            Ok(text) => bundle.files.push((file, text)),
            Err(why) => bundle.missing.push(format!("{file}: {why}")),
        }
    }
    if pods.is_empty() {
        bundle.missing.push(format!(
            "{PODS}: no Pod with label app.kubernetes.io/name={MANAGER} in namespace {namespace}: name the right namespace with \
             --operator-namespace, unless the operator runs outside the cluster"
        ));
    }
}

/// All objects of a kind, redacted.
async fn list(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<Value>, KubeError> {
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    let params = ListParams::default().labels(labels);
    let listed = lists::all(&api, "list objects", params).await?.into_iter();
    let values = listed.filter_map(|object| serde_json::to_value(object).ok());
    Ok(values.map(redacted).collect())
}

/// Whether the Event regards an object of our API group.
fn is_ours(event: &Value) -> bool {
    let version = event["regarding"]["apiVersion"].as_str();
    version.is_some_and(|version| version.split('/').next() == Some(GROUP))
}

fn write(output: Option<PathBuf>, bundle: &Bundle) -> Result<String, String> {
    let file = output.unwrap_or_else(|| {
        let at = Timestamp::now().strftime("%Y%m%d-%H%M%S");
        format!("cloud-server-support-{at}.tar.gz").into()
    });
    let written = bundle.archive().and_then(|bytes| {
        create_private(&file, |target| {
            target.write_all(&bytes)?;
            target.sync_all()
        })
    });
    let name = file.display();
    written.map_err(|error| {
        format!("{name} could not be written: {error}: name another file with --output")
    })?;
    let count = bundle.files.len() + 1;
    let mut text = format!("{name} has {count} files; no Secret and no log is in it");
    for missing in &bundle.missing {
        text += &format!("\nleft out: {missing}");
    }
    Ok(text)
}

/// Creates a file that only its owner can read, and writes it. A failed write removes the file: half an archive would block the
/// next try, and look complete.
fn create_private(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    write(&mut file).inspect_err(|_| {
        // The error of the write is the one to report.
        let _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_no_file_and_a_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let failed = create_private(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().contains("full"));
        create_private(&path, |file| file.write_all(b"whole")).unwrap();
        assert!(create_private(&path, |file| file.write_all(b"another")).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }
}
