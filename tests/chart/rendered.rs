//! Objects as helm and kustomize make them from files, without a cluster.

use crate::{OPERATOR, OWN, chart, helm, kubectl, root, succeeded};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The labels that tell helm's releases apart. `deploy/` has none of them: nothing is a release there.
pub const LABELS_OF_HELM: [&str; 4] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
];

/// What makes helm leave an object where it is.
pub const KEPT: &str = "helm.sh/resource-policy";

/// Objects by kind, namespace (none of what belongs to none) and name.
pub type Objects = BTreeMap<String, Value>;

/// The objects of a text, none of them twice.
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

/// JSON has one kind of number: 1.0 is 1, and kustomize writes it so.
fn plain_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // By its text, since a comparison of floating point numbers would need an excuse.
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

/// What `helm template` makes of the chart with these values, as a release of this namespace.
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

/// The same in the namespace of `deploy/`.
pub fn helm_with(values: &[&str]) -> Objects {
    helm_in(OWN, values)
}

/// A copy of the manifests, in which a user writes kustomizations of his own.
pub struct Manifests(TempDir);

impl Manifests {
    pub fn copy() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["deploy", "crds"] {
            copy(&root().join(folder), &directory.path().join(folder));
        }
        Self(directory)
    }

    /// Takes the mark of a comment from a line that has to be there.
    pub fn switch_on(&self, file: &str, line: &str) {
        let path = self.0.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let off = format!("#{line}\n");
        assert!(text.contains(&off), "{file} has no line {off}");
        fs::write(path, text.replace(&off, &format!("{line}\n"))).unwrap();
    }

    /// A kustomization of one's own beside `deploy/`.
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

/// What `kubectl kustomize` makes of a folder.
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
