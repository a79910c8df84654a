//! The generated files in the repository match their sources.

mod decodes;
mod events;
mod reference;
mod schema;
mod secrets;

use crate::api::conditions::Reason;
use std::path::PathBuf;

/// Fails if a generated file differs from its source; `make generate` updates it.
fn same(path: &str, expected: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is out of date: run make generate"
    );
}

#[test]
fn the_custom_resource_definitions_are_up_to_date() {
    same("crds/cloudserver.dev.yaml", &crate::crds_yaml().unwrap());
}

#[test]
fn the_reference_of_the_two_kinds_is_up_to_date() {
    same("docs/api.md", &reference::page());
}

#[test]
fn the_pages_of_reasons_are_up_to_date() {
    let mut index = String::from(
        "# Reasons of the conditions\n\
         \n\
         Each reason of a condition of an Instance or Account, with its meaning. The page of a reason has the fix. Generated from\n\
         `src/api/conditions.rs`.\n\
         \n\
         | Condition | Meaning |\n\
         |---|---|\n\
         | `Ready` | always present. True: the server is as the spec describes it, or the Account can be used |\n\
         | `Reconciling` | waiting helps |\n\
         | `Stalled` | a user must fix something. The operator still retries most operations, slowly |\n\
         | `Drifted` | the server differs from the spec, and only a user may resolve that |\n\
         | `Synced` | of an Instance, true: its status is up to date. False: the server could not be confirmed for five minutes (`ServerReadFailed`, or the reason of its Account), or the Account needs a fix or is gone; `Ready` then shows the last observation |\n\
         | `Expiring` | of an Instance: the prepaid time of its server ends within a week. `Ready` is not affected |\n\
         | `ExcessivePermissions` | of an Account: the operator's ServiceAccount has more rights than it should |\n\
         | `InsecureEndpoint` | of an Account: its token is sent without encryption |\n\
         \n\
         `Reconciling`, `Stalled`, `Drifted`, `Expiring`, `ExcessivePermissions` and `InsecureEndpoint` are present only while they are true.\n\
         `Reconciling`, `Stalled` and `Drifted` refer to the message of `Ready`.\n\
         \n\
         | Reason | Meaning |\n\
         |---|---|\n",
    );
    for reason in Reason::ALL {
        let (name, meaning, remedy) = (reason.as_str(), reason.meaning(), reason.remedy());
        index.push_str(&format!("| [`{name}`](reasons/{name}.md) | {meaning} |\n"));
        let page = format!(
            "# {name}\n\n{meaning}\n\n**Action:** {remedy}\n\n[All reasons](../conditions.md)\n"
        );
        same(&format!("docs/reasons/{name}.md"), &page);
    }
    same("docs/conditions.md", &index);
}

#[test]
fn the_reference_of_metrics_is_up_to_date() {
    let mut page = String::from(
        "# Metrics\n\
         \n\
         `/metrics` is in OpenMetrics format. Labels have fixed sets of values, never names of objects or texts of errors. A counter or\n\
         histogram with labels appears with its first event. Gauges that count objects (`instances`, `accounts`, `operations_in_progress`,\n\
         `servers_…`, `inventory_…`) are computed at each scrape by the process that is active on the [shard](shards.md) (`0-of-1` without\n\
         shards); a standby does not have them. Reconciles and queues have the metric names of controller-runtime. Generated from\n\
         `src/runtime/metrics.rs`. See also [dashboard and alerts](monitoring.md#dashboard-and-alerts).\n\
         \n\
         | Metric | Type | Labels | Meaning |\n\
         |---|---|---|---|\n",
    );
    let text = crate::runtime::metrics::tests::exercised().encode();
    let source = include_str!("runtime/metrics.rs").lines();
    let names = source.filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let is_name = |name: &&str| name.contains('_') && !name.contains(' ');
    for name in names.filter(is_name) {
        let found = text.contains(&format!("# TYPE {name} "));
        assert!(found, "{name} has no sample in runtime/metrics/tests.rs");
    }
    for family in text.split("# HELP ").skip(1) {
        page.push_str(&metric_row(family));
    }
    page.push_str(&label_values());
    same("docs/operations/metrics.md", &page);
}

/// A row of the reference: the metric of this part of a scrape, which begins after `# HELP`.
fn metric_row(family: &str) -> String {
    let mut lines = family.lines();
    let (name, help) = lines.next().unwrap().split_once(' ').unwrap();
    let kind = lines.next().unwrap().rsplit(' ').next().unwrap();
    let end = if kind == "counter" { "_total" } else { "" };
    let sample = lines.find(|line| !line.contains("le=\"+Inf\"")).unwrap();
    let labels = sample.split_once('{').map_or("", |(_, rest)| rest);
    let labels = labels.split("\",").filter_map(|pair| pair.split_once('='));
    let labels = labels.filter(|(label, _)| *label != "le");
    let labels: Vec<String> = labels.map(|(label, _)| format!("`{label}`")).collect();
    let (labels, help) = (labels.join(", "), help.strip_suffix('.').unwrap());
    format!("| `{name}{end}` | {kind} | {labels} | {help} |\n")
}

/// The values of labels that are not words of Kubernetes.
fn label_values() -> String {
    use crate::api::Verb;
    use crate::cloud::CallPriority;
    use crate::runtime::queue::Priority;
    let words = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    format!(
        "\n\
         ## Labels\n\
         \n\
         * `state`: `ready`, `reconciling` (waiting helps), `stalled` (a user must fix something), `unknown` (no status yet).\n\
         * `reason`: [a reason of the conditions](../conditions.md), or `Unknown`.\n\
         * `verb`: {}.\n\
         * `outcome` of `operation_duration_seconds`: `succeeded`, `failed`, `refused`, `answer_lost`, `superseded`, `server_gone`,\n  `outcome_unknown`. A \
         successful `create` may have adopted or imported its server.\n\
         * `priority` of the queue: {}; of the request limit: {}.\n",
        words(&Verb::ALL.map(Verb::as_str)),
        words(&Priority::ALL.map(Priority::as_str)),
        words(&CallPriority::ALL.map(CallPriority::as_str)),
    )
}

#[test]
fn no_page_describes_a_removed_reason() {
    let pages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reasons");
    for page in std::fs::read_dir(pages).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let known = Reason::ALL
            .iter()
            .any(|reason| name == format!("{}.md", reason.as_str()));
        assert!(
            known,
            "docs/reasons/{name} has no reason in the source: remove it"
        );
    }
}

#[test]
fn every_description_of_the_definitions_is_written() {
    let text = crate::crds_yaml().unwrap();
    assert!(
        !text.contains("Auto-generated"),
        "a field has no description of its own"
    );
}

#[test]
fn every_field_of_the_record_is_described() {
    use crate::api::{Marker, PurchaseRecord, Refusal, Resolved, ResolvedReference};
    let pin = || ResolvedReference {
        id: "img-1".into(),
        from: "name \"Ubuntu\"".into(),
    };
    let whole = PurchaseRecord {
        cluster: "c".into(),
        namespace: "n".into(),
        name: "n".into(),
        uid: "u".into(),
        marker: Marker::of_uid("u"),
        attempt: 1,
        nonce: "n".into(),
        id: Some("ecs-1".into()),
        imported: Some("by-hand".into()),
        task: Some("t".into()),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        generation: 1,
        cause: Some(crate::api::Cause::Spec),
        target: crate::api::Applied::default(),
        waiting_password: true,
        package: "p".into(),
        firewall: Some("f".into()),
        resolved: Some(Resolved {
            image: Some(pin()),
            ..Resolved::default()
        }),
        places: vec!["r/z".into()],
        lost: 1,
        failed: 1,
        refused: Some(Refusal {
            reason: "CreateRefused".into(),
            message: "create was refused".into(),
        }),
        recreated: 1,
        account: "default".into(),
        credential: "0".into(),
    };
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = std::fs::read_to_string(page).unwrap();
    for field in serde_json::to_value(whole)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
    {
        let is_described =
            page.contains(&format!("`{field}`")) || page.contains(&format!("\"{field}\":"));
        assert!(
            is_described,
            "docs/architecture.md does not describe the record's {field}"
        );
    }
}
