//! Redacts objects for the archive. Accounts and Instances contain no secret, but Pods and annotations may. Therefore specs of Pods
//! and annotations keep only fields that are known to contain none, and the status of a Pod loses the messages of ended containers.

use cloud_server_operator::api::names::GROUP;
use cloud_server_operator::operator;
use serde_json::{Map, Value};

/// The container whose arguments and variables are the operator's own.
pub(super) const OPERATOR: &str = "operator";

/// Variables whose values are kept in addition to those of the flags of `run`.
const VARIABLES: [&str; 4] = ["POD_NAME", "POD_NAMESPACE", "RUST_BACKTRACE", "RUST_LOG"];

/// Whether the value of a variable of the operator is kept. `CSO_TOKEN`, which the plugin reads, belongs to no flag of `run`.
fn is_shown(variable: &str) -> bool {
    let operator = operator::command();
    let run = operator.find_subcommand("run").into_iter();
    let mut flags = run
        .flat_map(clap::Command::get_arguments)
        .filter_map(clap::Arg::get_env);
    VARIABLES.contains(&variable) || flags.any(|flag| flag == variable)
}

/// Fields that are kept of every container: they may name a Secret, but do not contain it.
const OF_A_CONTAINER: [&str; 5] = ["image", "imagePullPolicy", "name", "ports", "resources"];

/// The object without possible secrets. The specs of Pods keep only their containers.
pub(super) fn redacted(mut object: Value) -> Value {
    for metadata in ["/metadata", "/spec/template/metadata"] {
        if let Some(Value::Object(annotations)) =
            object.pointer_mut(&format!("{metadata}/annotations"))
        {
            // Only the operator's own annotations stay, such as the record.
            annotations.retain(|name, _| name.split('/').next() == Some(GROUP));
        }
    }
    // The paths of a Pod, and of a Deployment or StatefulSet.
    for spec in ["/spec", "/spec/template/spec"] {
        if let Some(Value::Object(spec)) = object.pointer_mut(spec)
            && spec.contains_key("containers")
        {
            spec.retain(|field, _| field == "containers");
            each(spec.get_mut("containers"), container);
        }
    }
    for kind in ["container", "initContainer", "ephemeralContainer"] {
        let statuses = object.pointer_mut(&format!("/status/{kind}Statuses"));
        each(statuses, |status| {
            for state in ["state", "lastState"] {
                let state = status.get_mut(state);
                // The message of a terminated container may be the end of its log.
                if let Some(Value::Object(ended)) = state.and_then(|it| it.get_mut("terminated")) {
                    ended.remove("message");
                }
            }
        });
    }
    object
}

fn container(container: &mut Map<String, Value>) {
    // With a command the arguments are those of another program, such as a shell.
    let is_operator =
        container.get("name") == Some(&OPERATOR.into()) && !container.contains_key("command");
    container.retain(|field, _| match field.as_str() {
        "args" | "env" => is_operator,
        field => OF_A_CONTAINER.contains(&field),
    });
    each(container.get_mut("env"), |variable| {
        let name = variable.get("name").and_then(Value::as_str);
        if !name.is_some_and(is_shown) {
            variable.remove("value");
        }
    });
}

fn each(list: Option<&mut Value>, change: impl FnMut(&mut Map<String, Value>)) {
    let items = list.and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_server_operator::api::names::LAST_APPLIED;
    use serde_json::json;

    const SECRET: &str = "canary";

    fn pod_spec() -> Value {
        json!({
            "initContainers": [{"name": "init", "command": ["sh", SECRET], "args": [SECRET]}],
            "containers": [
                {
                    "name": "operator",
                    "image": "operator:1",
                    "args": ["run", "--concurrency=7"],
                    "env": [
                        {"name": "CSO_NAMESPACES", "value": "team-a"},
                        {"name": "CSO_TOKEN", "value": SECRET},
                        {"name": "CSO_OF_TOMORROW", "value": SECRET},
                        {"name": "HTTPS_PROXY", "value": SECRET},
                        {"name": "POD_NAME", "valueFrom": {}},
                    ],
                    "livenessProbe": {"periodSeconds": 10, "httpGet": {"path": "/", "httpHeaders": [{"name": "a", "value": SECRET}]}},
                    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
                },
                {
                    "name": "sidecar",
                    "args": [SECRET],
                    "env": [{"name": "CSO_NAMESPACES", "value": SECRET}],
                    "readinessProbe": {"exec": {"command": [SECRET]}},
                },
                {"name": "operator", "command": ["sh", "-c"], "args": [SECRET]},
            ],
            "volumes": [{"name": "a", "secret": {"secretName": "b"}}, {"name": "c", "csi": {"volumeAttributes": {"d": SECRET}}}],
        })
    }

    #[test]
    fn a_pod_keeps_only_fields_that_are_known_to_contain_no_secret() {
        let annotations = json!({LAST_APPLIED: SECRET, "a": SECRET});
        let pod = redacted(json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": pod_spec(),
            "status": {"phase": "Running",
                "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "message": SECRET}}}],
                "initContainerStatuses": [{"lastState": {"terminated": {"message": SECRET}}}]},
        }));
        assert!(!pod.to_string().contains(SECRET), "{pod:#}");
        let operator = &pod["spec"]["containers"][0];
        assert_eq!(operator["args"], json!(["run", "--concurrency=7"]));
        assert_eq!(operator["image"], "operator:1");
        let variables = &operator["env"];
        assert_eq!(variables[0]["value"], "team-a");
        assert_eq!(variables[1], json!({"name": "CSO_TOKEN"}));
        assert_eq!(variables[4], json!({"name": "POD_NAME", "valueFrom": {}}));
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(ended["exitCode"], 1);

        let deployment = redacted(json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"replicas": 2, "template": {"metadata": {"annotations": annotations}, "spec": pod_spec()}},
        }));
        assert!(!deployment.to_string().contains(SECRET), "{deployment:#}");
        assert_eq!(deployment["spec"]["replicas"], 2);
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0]["args"][0],
            "run"
        );
    }

    #[test]
    fn an_instance_keeps_its_record_and_no_other_annotation() {
        let instance = json!({
            "metadata": {"annotations": {"cloudserver.dev/binding": "r", LAST_APPLIED: SECRET, "cloudserver.dev.evil/a": SECRET}},
            "spec": {"region": "r"},
        });
        let expected = json!({"metadata": {"annotations": {"cloudserver.dev/binding": "r"}}, "spec": {"region": "r"}});
        assert_eq!(redacted(instance), expected);
    }

    #[test]
    fn the_flags_of_run_are_shown_and_no_token() {
        for shown in ["CSO_NAMESPACES", "CSO_LEADER_ELECT", "RUST_LOG"] {
            assert!(is_shown(shown), "{shown}");
        }
        assert!(!is_shown("CSO_TOKEN") && !is_shown("CSO_TOKEN_FILE"));
    }
}
