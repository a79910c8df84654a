//! What of an object does not go into the archive. Accounts and Instances bear no secret; in a Pod and in annotations anybody may
//! have put one. So of those stays what is known to bear none, and what nobody thought of is left out.

use crate::api::names::GROUP;
use serde_json::{Value, json};

const LEFT_OUT: &str = "(left out)";

/// The container whose arguments and variables are the operator's own.
pub(super) const OPERATOR: &str = "operator";

/// Variables whose values are told: the flags of `run`, and those that name the Pod or say what is logged. Of the same prefix is
/// `CSO_TOKEN`, which the commands read, so each is named.
const VARIABLES: [&str; 24] = [
    "CSO_ALLOWED_ENDPOINTS",
    "CSO_CLUSTER_ID",
    "CSO_CONCURRENCY",
    "CSO_GRACE_SECONDS",
    "CSO_KEEP_TOKENS",
    "CSO_KEEP_TOKENS_NAMESPACE",
    "CSO_LEADER_ELECT",
    "CSO_LEADER_ELECT_LEASE_DURATION",
    "CSO_LEADER_ELECT_RENEW_DEADLINE",
    "CSO_LEADER_ELECT_RESOURCE_NAME",
    "CSO_LEADER_ELECT_RESOURCE_NAMESPACE",
    "CSO_LEADER_ELECT_RETRY_PERIOD",
    "CSO_LISTEN",
    "CSO_LOG_FILTER_FILE",
    "CSO_METRICS_AUTH",
    "CSO_METRICS_LISTEN",
    "CSO_METRICS_TLS_CERT",
    "CSO_METRICS_TLS_KEY",
    "CSO_NAMESPACES",
    "CSO_SHARDS",
    "POD_NAME",
    "POD_NAMESPACE",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// Fields of a container that are told as they are: where they name a Secret, they do not hold it.
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

/// Fields of a volume that are told as they are.
const OF_A_VOLUME: [&str; 5] = ["name", "configMap", "emptyDir", "projected", "secret"];

/// The object without what may be a secret.
pub(super) fn redacted(mut object: Value) -> Value {
    for metadata in ["/metadata", "/spec/template/metadata"] {
        if let Some(metadata) = object.pointer_mut(metadata) {
            annotations(metadata);
        }
    }
    // Of a Pod, and of a Deployment.
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

/// The operator's own stay, such as the record of what was bought.
fn annotations(metadata: &mut Value) {
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| name.split('/').next() == Some(GROUP));
    }
}

fn container(container: &mut Value) {
    let is_operator = container["name"] == OPERATOR;
    // With a command of its own the arguments are those of another program, such as a shell.
    let has_own_arguments = is_operator && container["command"].is_null();
    leave_out(container, |field| match field {
        "env" | "startupProbe" | "livenessProbe" | "readinessProbe" => true,
        "args" => has_own_arguments,
        field => OF_A_CONTAINER.contains(&field),
    });
    for name in ["startupProbe", "livenessProbe", "readinessProbe"] {
        // What is asked, with its headers, is somebody's; how often is not.
        if let Some(Value::Object(probe)) = container.get_mut(name) {
            probe.retain(|_, value| value.is_number());
        }
    }
    each(container.get_mut("env"), |variable| {
        let name = variable["name"].as_str().unwrap_or_default();
        let is_told = is_operator && VARIABLES.contains(&name);
        if let Some(value) = variable.get_mut("value").filter(|_| !is_told) {
            *value = json!(LEFT_OUT);
        }
    });
}

/// The message of a container that ended may be the end of its log.
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
    use crate::api::names::LAST_APPLIED;
    use crate::cli::RunArgs;
    use clap::Args;
    use std::collections::BTreeSet;

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
    fn the_flags_of_run_are_told_and_no_other_variable_of_the_programs_own() {
        let run = RunArgs::augment_args(clap::Command::new("run"));
        let flags = run.get_arguments().filter_map(clap::Arg::get_env);
        let flags: BTreeSet<_> = flags.map(|name| name.to_str().unwrap()).collect();
        let ours = VARIABLES.iter().filter(|name| name.starts_with("CSO_"));
        assert_eq!(ours.copied().collect::<BTreeSet<_>>(), flags);
    }
}
