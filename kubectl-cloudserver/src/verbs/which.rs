//! The Instances of a verb.

use crate::completion::values;
use crate::parsers::object_name;
use crate::service::Cluster;
use crate::{chain, lists};
use clap::Args;
use cloud_server_operator::api::Instance;
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use kube::api::{Api, ListParams};
use std::collections::BTreeSet;

/// Arguments that choose the Instances.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct WhichArgs {
    /// The Instances, by name.
    #[arg(value_name = "NAME", value_parser = object_name, add = values::instances())]
    names: Vec<String>,

    /// All Instances of the namespace with these labels: a label selector, as for kubectl -l.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<String>,

    /// All Instances of the namespace.
    #[arg(long)]
    all: bool,
}

impl WhichArgs {
    /// The Instances as they are now.
    ///
    /// # Errors
    /// One of them does not exist or cannot be read, or none matches: then none is returned, so none is changed.
    pub(super) async fn read(&self, cluster: &Cluster) -> Result<Vec<Instance>, String> {
        let api: Api<Instance> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let names: BTreeSet<&String> = self.names.iter().collect();
        if names.is_empty() {
            let labels = self.selector.as_deref().unwrap_or_default();
            let params = ListParams::default().labels(labels);
            let all = lists::all(&api, "list the Instances", params).await;
            let all = all.map_err(|error| cluster.explain(&error))?;
            let namespace = &cluster.namespace;
            let matching = self.selector.as_ref();
            let matching = matching.map_or(": check -n", |_| " that matches: check -n and -l");
            return match all.is_empty() {
                true => Err(format!("namespace {namespace} has no Instance{matching}")),
                false => Ok(all),
            };
        }
        let mut all = Vec::new();
        for name in names {
            let read = call("read the Instance", api.get(name)).await;
            all.push(read.map_err(|error| unread(cluster, name, &error))?);
        }
        Ok(all)
    }
}

/// Refuses an empty selector: a variable that a script has not set must not choose the whole namespace.
fn selector(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an empty selector matches every Instance: use --all for that".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn unread(cluster: &Cluster, name: &str, error: &KubeError) -> String {
    match error.is_not_found() {
        true => format!(
            "Instance {name} does not exist in namespace {}: check the name and -n ({})",
            cluster.namespace,
            chain(error)
        ),
        false => format!("Instance {name}: {}", cluster.explain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        which: WhichArgs,
    }

    fn which(words: &[&str]) -> Result<WhichArgs, String> {
        let line = Line::try_parse_from([&["x"][..], words].concat());
        line.map(|line| line.which)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn names_a_selector_or_all_are_required() {
        assert_eq!(which(&["a", "b.c"]).unwrap().names, ["a", "b.c"]);
        assert_eq!(
            which(&["-l", "app=web"]).unwrap().selector.as_deref(),
            Some("app=web")
        );
        assert!(which(&["--all"]).unwrap().all);
        for wrong in [
            &[][..],
            &["a", "-l", "b=c"],
            &["a", "--all"],
            &["--all", "-l", "b"],
        ] {
            assert!(which(wrong).is_err(), "{wrong:?}");
        }
        for empty in ["", " "] {
            let refusal = which(&["-l", empty]).unwrap_err();
            assert!(refusal.contains("use --all for that"), "{refusal}");
        }
    }

    #[test]
    fn an_invalid_name_makes_no_request() {
        for wrong in [
            "../x",
            "a/b",
            "A",
            "-a",
            "a-",
            "a..b",
            "",
            "a?b",
            &"a".repeat(254),
        ] {
            assert!(which(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
