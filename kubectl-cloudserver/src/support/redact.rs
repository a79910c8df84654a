//! Redacts objects for the archive. Accounts and Instances contain no secret, but Pods and annotations may. Therefore only fields that
//! are known to contain none are kept in these.

use cloud_server_operator::api::names::GROUP;
use cloud_server_operator::operator;
use serde_json::{Value, json};

const LEFT_OUT: &str = "(left out)";

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

/// Fields of a container that are kept unchanged: they may name a Secret, but do not contain it.
const OF_A_CONTAINER: [&str; 9] = [
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "ports",
    "resources",
    "restartPolicy",
    "securityContext",
    "volumeMounts",
];

/// Fields of a volume that are kept unchanged.
const OF_A_VOLUME: [&str; 5] = ["name", "configMap", "emptyDir", "projected", "secret"];

/// The object without possible secrets.
pub(super) fn redacted(mut object: Value) -> Value {
    for metadata in ["/metadata", "/spec/template/metadata"] {
        if let Some(metadata) = object.pointer_mut(metadata) {
            annotations(metadata);
        }
    }
    // The paths of a Pod, and of a Deployment or StatefulSet.
    for spec in ["/spec", "/spec/template/spec"] {
        for containers in ["containers", "initContainers", "ephemeralContainers"] {
            each(
                object.pointer_mut(&format!("{spec}/{containers}")),
                container,
            );
        }
        each(object.pointer_mut(&format!("{spec}/volumes")), |volume| {
            leave_out(volume, |field| OF_A_VOLUME.contains(&field));
        });
    }
    for statuses in [
        "/status/containerStatuses",
        "/status/initContainerStatuses",
        "/status/ephemeralContainerStatuses",
    ] {
        each(object.pointer_mut(statuses), ended);
    }
    object
}

/// Keeps the operator's own annotations, such as the record.
fn annotations(metadata: &mut Value) {
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| name.split('/').next() == Some(GROUP));
    }
}

fn container(container: &mut Value) {
    let is_operator = container["name"] == OPERATOR;
    // With a command the arguments are those of another program, such as a shell.
    let has_own_arguments = is_operator && container["command"].is_null();
    leave_out(container, |field| match field {
        "env" | "startupProbe" | "livenessProbe" | "readinessProbe" => true,
        "args" => has_own_arguments,
        field => OF_A_CONTAINER.contains(&field),
    });
    for name in ["startupProbe", "livenessProbe", "readinessProbe"] {
        // The request and its headers may contain a secret; the numbers do not.
        if let Some(Value::Object(probe)) = container.get_mut(name) {
            probe.retain(|_, value| value.is_number());
        }
    }
    each(container.get_mut("env"), |variable| {
        let name = variable["name"].as_str().unwrap_or_default();
        let is_told = is_operator && is_shown(name);
        if let Some(value) = variable.get_mut("value").filter(|_| !is_told) {
            *value = json!(LEFT_OUT);
        }
    });
}

/// The message of a terminated container may be the end of its log.
fn ended(status: &mut Value) {
    for state in ["state", "lastState"] {
        if let Some(message) = status.pointer_mut(&format!("/{state}/terminated/message")) {
            *message = json!(LEFT_OUT);
        }
    }
}

fn leave_out(object: &mut Value, is_told: impl Fn(&str) -> bool) {
    let fields = object.as_object_mut().into_iter().flatten();
    for (_, value) in fields.filter(|(name, _)| !is_told(name)) {
        *value = json!(LEFT_OUT);
    }
}

fn each(list: Option<&mut Value>, change: impl FnMut(&mut Value)) {
    let items = list.and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_server_operator::api::names::LAST_APPLIED;

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
    fn of_pods_stays_what_is_known_to_bear_no_secret() {
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
        assert_eq!(operator["livenessProbe"], json!({"periodSeconds": 10}));
        let variables = &operator["env"];
        assert_eq!(variables[0]["value"], "team-a");
        assert_eq!(variables[1]["value"], LEFT_OUT);
        assert_eq!(variables[4], json!({"name": "POD_NAME", "valueFrom": {}}));
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": "a", "secret": {"secretName": "b"}}, {"name": "c", "csi": LEFT_OUT}])
        );
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
    fn an_instance_keeps_its_record_and_nobody_elses_annotations() {
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
