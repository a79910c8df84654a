//! Objects that helm and kustomize render from files, without a cluster.

use crate::{OPERATOR, OWN, chart, helm, kubectl, root, succeeded};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The labels by which helm distinguishes its releases. `deploy/` has none of them, since it is not installed as a release.
pub const LABELS_OF_HELM: [&str; 4] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
];

/// The annotation that makes helm keep an object.
pub const KEPT: &str = "helm.sh/resource-policy";

/// Objects by kind, namespace (absent for cluster-scoped objects) and name.
pub type Objects = BTreeMap<String, Value>;

/// The objects of a text; panics if one occurs twice.
pub fn objects(yaml: &str) -> Objects {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let mut objects = Objects::new();
    for mut object in all.into_iter().filter(|object| !object.is_null()) {
        plain_numbers(&mut object);
        let name = identity(&object);
        assert!(
            objects.insert(name.clone(), object).is_none(),
            "{name} twice"
        );
    }
    objects
}

/// JSON has one kind of number: kustomize writes 1.0 as 1.
fn plain_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // By its text, since clippy objects to comparisons of floating point numbers.
            let text = number.to_string();
            let whole = text.strip_suffix(".0").map(str::parse::<i64>);
            if let Some(Ok(whole)) = whole {
                *value = whole.into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain_numbers),
        Value::Object(fields) => fields.values_mut().for_each(plain_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

pub fn identity(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let kind = text("/kind").unwrap();
    let name = text("/metadata/name").unwrap();
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// The output of `helm template` with these values, for a release in this namespace.
pub fn helm_in(namespace: &str, values: &[&str]) -> Objects {
    let mut template = helm();
    template
        .args(["template", OPERATOR])
        .arg(chart())
        .args(["--namespace", namespace]);
    for value in values {
        template.args(["--set-json", value]);
    }
    objects(&succeeded(&template.output().unwrap()))
}

/// The output in the namespace of `deploy/`.
pub fn helm_with(values: &[&str]) -> Objects {
    helm_in(OWN, values)
}

/// A copy of the manifests, in which a user writes kustomizations.
pub struct Manifests(TempDir);

impl Manifests {
    pub fn copy() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["deploy", "crds"] {
            copy(&root().join(folder), &directory.path().join(folder));
        }
        Self(directory)
    }

    /// Uncomments a line that must exist.
    pub fn switch_on(&self, file: &str, line: &str) {
        let path = self.0.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let off = format!("#{line}\n");
        assert!(text.contains(&off), "{file} has no line {off}");
        fs::write(path, text.replace(&off, &format!("{line}\n"))).unwrap();
    }

    /// Renders a user's kustomization next to `deploy/`.
    pub fn own(&self, text: &str) -> Objects {
        let folder = self.0.path().join("own");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kustomization.yaml"), text).unwrap();
        self.kustomize("own")
    }

    pub fn kustomize(&self, folder: &str) -> Objects {
        kustomize(&self.0.path().join(folder))
    }
}

/// The output of `kubectl kustomize` for a folder.
pub fn kustomize(folder: &Path) -> Objects {
    let output = kubectl().arg("kustomize").arg(folder).output().unwrap();
    objects(&succeeded(&output))
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}
