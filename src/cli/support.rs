//! `support`: what somebody needs to see who is to help, in one archive. No Secret is read, and no log.

use super::output::print;
use super::service::{Cluster, ClusterArgs};
use super::{asked, chain};
use crate::api::names::{GROUP, MANAGER};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::call;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Objects in one answer of the apiserver.
const PAGE: u32 = 500;
/// Where kubectl keeps what was applied: the same again, by another hand.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Variables of the operator's own, which bear no secret.
const HARMLESS: [&str; 3] = ["CSO_", "POD_", "RUST_"];

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
    let cluster = args
        .cluster
        .connect()
        .await
        .map_err(|error| chain(&error))?;
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
    for (kind, plural, file) in [
        ("Account", "accounts", "accounts.yaml"),
        ("Instance", "instances", "instances.yaml"),
    ] {
        let kind = resource(GROUP, "v1alpha1", kind, plural);
        let read = list(&cluster, &kind, namespace, "").await;
        bundle.read(file, &cluster, read);
    }
    let events = resource("events.k8s.io", "v1", "Event", "events");
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
    let deployments = resource("apps", "v1", "Deployment", "deployments");
    let read = list(cluster, &deployments, Some(namespace), &label).await;
    bundle.read("operator/deployments.yaml", cluster, read);
    let leases = resource("coordination.k8s.io", "v1", "Lease", "leases");
    let read = list(cluster, &leases, Some(namespace), "").await;
    bundle.read("operator/leases.yaml", cluster, read);
    let pods = resource("", "v1", "Pod", "pods");
    let read = list(cluster, &pods, Some(namespace), &label).await;
    for pod in read.iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let metrics = metrics(cluster, namespace, name).await;
        let file = format!("operator/metrics-{name}.txt");
        match metrics {
            Ok(text) => bundle.files.push((file, text)),
            Err(error) => bundle
                .missing
                .push(format!("{file}: {}", cluster.told(&error))),
        }
    }
    if read.as_ref().is_ok_and(Vec::is_empty) {
        bundle.missing.push(format!(
            "operator/pods.yaml: no Pod with label {label} in namespace {namespace}: name the right one with --operator-namespace"
        ));
    }
    bundle.read("operator/pods.yaml", cluster, read);
}

/// The page of metrics of a Pod, by way of the apiserver.
async fn metrics(cluster: &Cluster, namespace: &str, pod: &str) -> Result<String, KubeError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:8080/proxy/metrics");
    let request = async {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        cluster.client.request_text(request).await
    };
    call("read the metrics of a Pod", request).await
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
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
    let mut params = ListParams::default().limit(PAGE);
    if !labels.is_empty() {
        params = params.labels(labels);
    }
    let mut all = Vec::new();
    loop {
        let page = call("list what there is", api.list(&params)).await?;
        let read = page
            .items
            .iter()
            .filter_map(|object| serde_json::to_value(object).ok());
        all.extend(read.map(without_secrets));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// An Event of one of our objects.
fn is_ours(event: &Value) -> bool {
    let of = event["regarding"]["apiVersion"]
        .as_str()
        .unwrap_or_default();
    of.split('/').next() == Some(GROUP)
}

/// Objects of ours bear no secret; a Pod's variables may.
fn without_secrets(mut object: Value) -> Value {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    hide_variables(&mut object);
    object
}

/// Leaves out the values of variables of containers but for the operator's own.
fn hide_variables(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Array(variables) if name == "env" => variables.iter_mut().for_each(hide),
                    field => hide_variables(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_variables),
        _ => {}
    }
}

fn hide(variable: &mut Value) {
    let name = variable["name"].as_str().unwrap_or_default();
    let is_harmless = HARMLESS.iter().any(|prefix| name.starts_with(prefix));
    if let Some(value) = variable.get_mut("value").filter(|_| !is_harmless) {
        *value = json!("(left out)");
    }
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
    let mut options = OpenOptions::new();
    let mut target = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .map_err(told)?;
    target
        .write_all(&bytes)
        .and_then(|()| target.sync_all())
        .map_err(told)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_containers_are_left_out_but_for_the_operators_own() {
        let pod = json!({
            "metadata": {"annotations": {LAST_APPLIED: "{}", "a": "b"}},
            "spec": {"containers": [{"env": [
                {"name": "CSO_NAMESPACES", "value": "team-a"},
                {"name": "HTTPS_PROXY", "value": "http://user:canary@proxy"},
                {"name": "POD_NAME", "valueFrom": {}},
            ]}]},
        });
        let told = without_secrets(pod);
        assert_eq!(told["metadata"]["annotations"], json!({"a": "b"}));
        let variables = &told["spec"]["containers"][0]["env"];
        assert_eq!(variables[0]["value"], "team-a");
        assert_eq!(variables[1]["value"], "(left out)");
        assert_eq!(variables[2], json!({"name": "POD_NAME", "valueFrom": {}}));
    }
}
