//! Manifests as they stand in files: every document of each, lists taken apart.

use crate::api::names::GROUP;
use serde_json::Value;
use serde_saphyr::{Error, Spanned};
use std::path::{Path, PathBuf};

/// Endings of the files that are read of a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The group of what kustomize reads.
const KUSTOMIZE: &str = "kustomize.config.k8s.io/";

/// One manifest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    /// The file.
    pub(super) file: String,
    /// Where its document begins there.
    pub(super) line: u64,
    pub(super) value: Value,
}

/// What the files hold.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) instances: Vec<Manifest>,
    pub(super) accounts: Vec<Manifest>,
    pub(super) secrets: Vec<Manifest>,
    /// What is none of these, as kind and name.
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
}

/// Reads all files; - is standard input, and of a directory every YAML and JSON file is read.
///
/// # Errors
/// A file cannot be read, or is neither YAML nor JSON.
pub(super) fn read(files: &[PathBuf]) -> Result<Manifests, String> {
    let mut all = Manifests::default();
    for file in files {
        let name = file.display().to_string();
        let unreadable = |error: std::io::Error| {
            format!("{name} could not be read: {error}: check what -f names")
        };
        if file == Path::new("-") {
            let text = std::io::read_to_string(std::io::stdin()).map_err(unreadable)?;
            all.take("standard input", &text)?;
        } else if file.is_dir() {
            for file in of_directory(file).map_err(unreadable)? {
                let text = std::fs::read_to_string(&file).map_err(unreadable)?;
                all.take(&file.display().to_string(), &text)?;
            }
        } else {
            let text = std::fs::read_to_string(file).map_err(unreadable)?;
            all.take(&name, &text)?;
        }
    }
    Ok(all)
}

/// Why a file could not be read as YAML, with the place and what to do.
fn unreadable(file: &str, error: &Error) -> String {
    let at = error
        .location()
        .map(|at| at.line())
        .filter(|line| *line > 0);
    let place = at.map_or_else(|| file.to_owned(), |line| place(file, line));
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => {
            let key = match key {
                Some(key) => format!("key {key:?}"),
                None => "a key".to_owned(),
            };
            format!(
                "{key} stands twice in one object, the second time in {place}: leave out one of them"
            )
        }
        other => format!(
            "{place}: neither YAML nor JSON: {}: mend it",
            other.to_string().replace('\n', " ")
        ),
    }
}

fn of_directory(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let ending = path.extension().and_then(std::ffi::OsStr::to_str);
        if path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Manifests {
    fn take(&mut self, file: &str, text: &str) -> Result<(), String> {
        let documents: Vec<Spanned<Value>> =
            serde_saphyr::from_multiple(text).map_err(|error| unreadable(file, &error))?;
        for document in documents {
            self.sort(file, document.referenced.line(), document.value)?;
        }
        Ok(())
    }

    fn sort(&mut self, file: &str, line: u64, mut value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(()); // nothing between two lines of dashes
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        if kind.is_empty() || version.is_empty() {
            return Err(format!(
                "the document in {} has no apiVersion or no kind: it is no manifest, take it out or mend it",
                place(file, line)
            ));
        }
        let is_ours = version
            .split_once('/')
            .is_some_and(|(group, _)| group == GROUP);
        let is_list =
            kind == "List" || (is_ours && matches!(kind.as_str(), "InstanceList" | "AccountList"));
        if is_list {
            let items = value.get_mut("items").map(Value::take);
            for item in items
                .as_ref()
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.sort(file, line, item.clone())?;
            }
            return Ok(());
        }
        let file = file.to_owned();
        let manifest = Manifest { file, line, value };
        match (is_ours, kind.as_str()) {
            (true, "Instance") => self.instances.push(manifest),
            (true, "Account") => self.accounts.push(manifest),
            (false, "Secret") if version == "v1" => self.secrets.push(manifest),
            // What kustomize is told is nothing that anybody applies, and it has no name.
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

    fn taken(text: &str) -> Result<Manifests, String> {
        let mut all = Manifests::default();
        all.take("f.yaml", text).map(|()| all)
    }

    #[test]
    fn every_document_is_read_and_lists_are_taken_apart() {
        let text = "---\n# nothing but a comment\n---\napiVersion: cloudserver.dev/v1alpha1\nkind: Instance\nmetadata: {name: a}\n---\n\
                    {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"cloudserver.dev/v1alpha1\", \
                    \"kind\": \"Instance\", \"metadata\": {\"name\": \"b\", \"namespace\": \"n\"}}, {\"apiVersion\": \"v1\", \
                    \"kind\": \"Secret\", \"metadata\": {\"name\": \"s\"}}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
        let all = taken(text).unwrap();
        let names: Vec<_> = all.instances.iter().map(Manifest::name).collect();
        assert_eq!(names, [Some("a"), Some("b")]);
        assert_eq!(all.instances[1].namespace(), Some("n"));
        assert_eq!(all.secrets[0].name(), Some("s"));
        assert_eq!(all.others, ["ConfigMap c"]);
        let lines: Vec<u64> = all.instances.iter().map(|manifest| manifest.line).collect();
        assert_eq!(lines, [4, 8]);
    }

    #[test]
    fn what_has_no_name_is_told_by_its_place_and_what_kustomize_is_told_not_at_all() {
        let all = taken(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-}\n",
        );
        assert_eq!(all.unwrap().others, ["ConfigMap in f.yaml, line 5"]);
    }

    #[test]
    fn an_instance_of_another_group_is_none_of_ours() {
        let all = taken("apiVersion: other.dev/v1\nkind: Instance\nmetadata: {name: a}\n").unwrap();
        assert!(all.instances.is_empty());
        assert_eq!(all.others, ["Instance a"]);
    }

    #[test]
    fn what_is_no_manifest_is_an_error_with_the_file_in_it() {
        for (text, place) in [
            ("a: 1\n", "f.yaml, line 1"),
            ("---\n# nothing\n---\n\njust words\n", "f.yaml, line 5"),
            ("{", "f.yaml"),
            ("kind: a\nspec: [\n", "f.yaml, line "),
        ] {
            let error = taken(text).unwrap_err();
            assert!(error.contains(place), "{error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_named_with_its_place_and_what_to_do() {
        let yaml = "# one\nkind: Instance\nmetadata: {name: a}\nspec:\n  zone: a\n  image: {id: x}\n  zone: b\n";
        let json = "{\"kind\": \"Instance\",\n\"spec\": {\"zone\": \"a\",\n\"zone\": \"b\"}}";
        for (text, line) in [(yaml, 7), (json, 3)] {
            assert_eq!(
                taken(text).unwrap_err(),
                format!(
                    "key \"zone\" stands twice in one object, the second time in f.yaml, line {line}: leave out one of them"
                )
            );
        }
    }
}
