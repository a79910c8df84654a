//! The manifests in files: every document, and every item of a list.

use cloud_server_operator::api::names::GROUP;
use cloud_server_operator::runtime::watch::ObjectKey;
use serde_json::Value;
use serde_saphyr::budget::{Budget, EnforcingPolicy, check_yaml_budget};
use serde_saphyr::{Error, Spanned, alias_limits, budget, options};
use std::path::{Path, PathBuf};

/// Extensions of the files that are read in a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The maximum nesting depth of a document. Each level needs stack; no Kubernetes object is nested half as deep.
const MAX_DEPTH: usize = 128;

/// The maximum number of values that the aliases (`*name`) of a document may expand to, since each needs memory.
const MAX_ALIAS_EVENTS: usize = 2_000_000;

/// The group of kustomize's own files.
const KUSTOMIZE: &str = "kustomize.config.k8s.io/";

/// One manifest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    /// The file.
    pub(super) file: String,
    /// The line in which its document begins.
    pub(super) line: u64,
    pub(super) value: Value,
}

/// The content of the files.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) instances: Vec<Manifest>,
    pub(super) accounts: Vec<Manifest>,
    pub(super) secrets: Vec<Manifest>,
    /// Other objects, as kind and name.
    pub(super) others: Vec<String>,
}

/// A place in a file, for people.
pub(super) fn place(file: &str, line: u64) -> String {
    format!("{file}, line {line}")
}

impl Manifest {
    pub(super) fn place(&self) -> String {
        place(&self.file, self.line)
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.text("/metadata/name").filter(|name| !name.is_empty())
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.text("/metadata/namespace")
            .filter(|name| !name.is_empty())
    }

    /// Namespace and name; `default_namespace` is the namespace of objects without one.
    pub(super) fn key(&self, default_namespace: &str) -> Option<ObjectKey> {
        let namespace = self.namespace().unwrap_or(default_namespace);
        Some(ObjectKey::new(namespace, self.name()?))
    }
}

/// Reads all files. `-` is standard input; of a directory, every YAML and JSON file is read, but no subdirectory.
///
/// # Errors
/// A file cannot be read, is neither YAML nor JSON, has a key twice in one object, too deep nesting or too many aliases, or has a
/// document that is not a manifest.
pub(super) fn read(files: &[PathBuf]) -> Result<Manifests, String> {
    let mut all = Manifests::default();
    for file in files {
        let unreadable = |file: &Path, error: std::io::Error| {
            format!("{file:?} could not be read: {error}: check what -f names")
        };
        if file == Path::new("-") {
            let text = std::io::read_to_string(std::io::stdin())
                .map_err(|error| unreadable(file, error))?;
            all.add_file("standard input", &text)?;
            continue;
        }
        let files = match file.is_dir() {
            true => of_directory(file).map_err(|error| unreadable(file, error))?,
            false => vec![file.clone()],
        };
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
            all.add_file(&file.display().to_string(), &text)?;
        }
    }
    Ok(all)
}

/// The message for a file that cannot be read as YAML or JSON, with the place and the remedy.
fn malformed(file: &str, error: &Error) -> String {
    let line = error.location().map(|at| at.line());
    let line = line.filter(|line| *line > 0);
    let place = line.map_or_else(|| file.to_owned(), |line| place(file, line));
    let mut error = error.without_snippet();
    while let Error::AliasError { error: inner, .. } = error {
        error = inner.without_snippet();
    }
    match error {
        Error::DuplicateMappingKey { key, .. } => format!(
            "key {:?} occurs twice in one object, the second time in {place}: remove one of them",
            key.as_deref().unwrap_or_default()
        ),
        other => format!(
            "{place}: could not be read as YAML or JSON: {}: fix it",
            other.to_string().replace('\n', " ")
        ),
    }
}

/// Limits the nesting depth, and lifts limits of the library that are meant for hostile input: these files are the user's own, and
/// kubectl accepts larger ones.
fn limits() -> Option<Budget> {
    budget! {
        max_events: usize::MAX,
        max_nodes: usize::MAX,
        max_documents: usize::MAX,
        max_total_scalar_bytes: usize::MAX,
        max_aliases: usize::MAX,
        max_anchors: usize::MAX,
        max_merge_keys: usize::MAX,
        max_recorded_anchor_events: usize::MAX,
        max_recorded_anchor_bytes: usize::MAX,
        enforce_alias_anchor_ratio: false,
        max_depth: MAX_DEPTH,
    }
}

fn of_directory(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| {
        let ending = path.extension().and_then(std::ffi::OsStr::to_str);
        path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending))
    });
    paths.sort();
    Ok(paths)
}

impl Manifests {
    fn add_file(&mut self, file: &str, text: &str) -> Result<(), String> {
        // Parsing nested values needs no stack, but converting them does, so the depth is checked first.
        let checked =
            limits().map(|budget| check_yaml_budget(text, budget, EnforcingPolicy::AllContent));
        if matches!(checked, Some(Ok(report)) if report.breached.is_some()) {
            return Err(format!(
                "{file}: more than {MAX_DEPTH} levels of nesting: no Kubernetes object has as many: fix the file"
            ));
        }
        let options = options! {
            budget: limits(),
            emit_comments: false,
            alias_limits: alias_limits! { max_total_replayed_events: MAX_ALIAS_EVENTS },
        };
        let documents: Vec<Spanned<Value>> =
            serde_saphyr::from_multiple_with_options(text, options)
                .map_err(|error| malformed(file, &error))?;
        for document in documents {
            self.classify(file, document.referenced.line(), document.value)?;
        }
        Ok(())
    }

    fn classify(&mut self, file: &str, line: u64, mut value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(()); // an empty document
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        if kind.is_empty() || version.is_empty() {
            return Err(format!(
                "a document or list item in {} has no apiVersion or no kind: it is not a manifest: remove or fix it",
                place(file, line)
            ));
        }
        let is_ours = version.split('/').next() == Some(GROUP);
        let is_list =
            kind == "List" || (is_ours && matches!(kind.as_str(), "InstanceList" | "AccountList"));
        if is_list {
            if let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
                for item in items {
                    self.classify(file, line, item)?;
                }
            }
            return Ok(());
        }
        let file = file.to_owned();
        let manifest = Manifest { file, line, value };
        match (is_ours, kind.as_str()) {
            (true, "Instance") => self.instances.push(manifest),
            (true, "Account") => self.accounts.push(manifest),
            (false, "Secret") if version == "v1" => self.secrets.push(manifest),
            // A file for kustomize is never applied, so it is not listed as skipped either.
            _ if version.starts_with(KUSTOMIZE) => {}
            _ => {
                let other = match manifest.name() {
                    Some(name) => format!("{kind} {name}"),
                    None => format!("{kind} in {}", manifest.place()),
                };
                self.others.push(other);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Manifests, String> {
        let mut all = Manifests::default();
        all.add_file("f.yaml", text).map(|()| all)
    }

    #[test]
    fn every_document_is_read_and_lists_are_taken_apart() {
        let text = "---\n# nothing but a comment\n---\napiVersion: cloudserver.dev/v1alpha1\nkind: Instance\nmetadata: {name: a}\n---\n\
                    {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"cloudserver.dev/v1alpha1\", \
                    \"kind\": \"Instance\", \"metadata\": {\"name\": \"b\", \"namespace\": \"n\"}}, {\"apiVersion\": \"v1\", \
                    \"kind\": \"Secret\", \"metadata\": {\"name\": \"s\"}}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
        let all = read_text(text).unwrap();
        let names: Vec<_> = all.instances.iter().map(Manifest::name).collect();
        assert_eq!(names, [Some("a"), Some("b")]);
        assert_eq!(all.instances[1].namespace(), Some("n"));
        assert_eq!(all.secrets[0].name(), Some("s"));
        assert_eq!(all.others, ["ConfigMap c"]);
        let lines: Vec<u64> = all.instances.iter().map(|manifest| manifest.line).collect();
        assert_eq!(lines, [4, 8]);
    }

    #[test]
    fn an_object_without_a_name_is_named_by_its_place_and_a_file_for_kustomize_is_skipped() {
        let all = read_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-}\n",
        );
        assert_eq!(all.unwrap().others, ["ConfigMap in f.yaml, line 5"]);
    }

    #[test]
    fn an_instance_of_another_group_is_skipped() {
        let all =
            read_text("apiVersion: other.dev/v1\nkind: Instance\nmetadata: {name: a}\n").unwrap();
        assert!(all.instances.is_empty());
        assert_eq!(all.others, ["Instance a"]);
    }

    #[test]
    fn a_document_that_is_no_manifest_is_an_error_that_names_the_file() {
        for (text, place) in [
            ("a: 1\n", "f.yaml, line 1"),
            ("---\n# nothing\n---\n\njust words\n", "f.yaml, line 5"),
            ("{", "f.yaml"),
            ("kind: a\nspec: [\n", "f.yaml, line "),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(place), "{error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }

    /// A list of Instances as `kubectl get -o yaml` prints them.
    fn list(count: usize) -> String {
        let status = "  status:\n    conditions:\n".to_owned()
            + &"    - {type: Ready, status: 'True', reason: Available, message: m, lastTransitionTime: t}\n"
                .repeat(4)
            + "    detail:\n"
            + &(0..40).map(|n| format!("      field{n}: [a, {{b: c}}]\n")).collect::<String>();
        let item = |n: usize| {
            format!(
                "- apiVersion: cloudserver.dev/v1alpha1\n  kind: Instance\n  metadata: {{name: i{n}}}\n{status}"
            )
        };
        let items: String = (0..count).map(item).collect();
        format!("apiVersion: v1\nkind: List\nitems:\n{items}")
    }

    #[test]
    fn a_file_may_be_as_large_as_for_kubectl() {
        let instance =
            "---\napiVersion: cloudserver.dev/v1alpha1\nkind: Instance\nmetadata: {name: i}\n";
        let documents = read_text(&instance.repeat(10_000)).unwrap();
        assert_eq!(documents.instances.len(), 10_000);
        assert_eq!(read_text(&list(2_000)).unwrap().instances.len(), 2_000);
        let aliases = "labels: &l {a: b, c: d}\nbase: &b {e: f}\n".to_owned()
            + &(0..20_000)
                .map(|n| format!("x{n}: {{labels: *l, <<: *b}}\n"))
                .collect::<String>();
        let one = format!(
            "{instance}spec:\n{}",
            aliases
                .replace("\n", "\n  ")
                .replacen("labels", "  labels", 1)
        );
        assert_eq!(
            read_text(&one).unwrap().instances[0].text("/spec/x19999/e"),
            Some("f")
        );
        let comments = "# a comment\n".repeat(100_000);
        let commented = format!(
            "{comments}{instance}spec:\n{comments}  zone: z\n{comments}  list:\n{comments}  - a\n"
        );
        assert_eq!(read_text(&commented).unwrap().instances.len(), 1);
    }

    #[test]
    fn deep_nesting_and_aliases_that_multiply_are_refused() {
        let depth = 200;
        let nested = format!(
            "kind: a\nspec: {}{}\n",
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let bomb = (1..10).fold(
            "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(),
            |text, n| {
                let all = vec![format!("*a{}", n - 1); 10].join(", ");
                text + &format!("a{n}: &a{n} [{all}]\n")
            },
        );
        for text in [nested, bomb] {
            let why = read_text(&text).unwrap_err();
            assert!(why.contains("f.yaml"), "{why}");
        }
    }

    #[test]
    fn a_duplicate_key_is_named_with_its_place_and_the_remedy() {
        let yaml = "# one\nkind: Instance\nmetadata: {name: a}\nspec:\n  zone: a\n  image: {id: x}\n  zone: b\n";
        let json = "{\"kind\": \"Instance\",\n\"spec\": {\"zone\": \"a\",\n\"zone\": \"b\"}}";
        for (text, line) in [(yaml, 7), (json, 3)] {
            assert_eq!(
                read_text(text).unwrap_err(),
                format!(
                    "key \"zone\" occurs twice in one object, the second time in f.yaml, line {line}: remove one of them"
                )
            );
        }
    }
}
