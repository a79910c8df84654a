//! A quota or a policy prevents the write of a Secret: the message quotes it and names the right remedy, and the operator
//! continues once it is gone.

use super::{age, agrees, generated, hourly, rotated, server_password};
use crate::support::{
    Setup, World, condition, create_calls, eventually, insist, instance, is_ready, quiet_all,
    ready_message,
};
use cloud_server_operator::api::Instance;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Waits until the Instance waits for its Secret; returns it with the message of the condition Ready.
async fn refusal(world: &World, name: &str) -> (Instance, String) {
    let refused = world.until_reason(name, "SecretNotWritable").await;
    let message = ready_message(&refused).to_owned();
    (refused, message)
}

/// An Instance whose server needs no Secret of the operator, except the connection Secret.
fn beside() -> Value {
    let mut beside = instance("beside");
    beside["spec"]["connectionSecret"] = json!({"name": "beside-connection"});
    beside
}

async fn metadata(world: &World, secret: &str) -> Secret {
    let secrets = world.secrets();
    let read = insist("read it", async || secrets.get(secret).await);
    read.await.unwrap()
}

async fn apply(world: &World, object: &Value) {
    world
        .run(&["apply", "--server-side", "-f", "-"], &object.to_string())
        .await;
}

/// A ResourceQuota for this number of Secrets, as its controller maintains it.
async fn quota(world: &World, hard: u32, used: u32) {
    let (hard, used) = (hard.to_string(), used.to_string());
    let namespace = world.namespace.as_str();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": namespace},
        "spec": {"hard": {"secrets": hard}},
    });
    apply(world, &quota).await;
    let status = json!({"status": {"hard": {"secrets": hard}, "used": {"secrets": used}}});
    let patch = [
        "patch",
        "resourcequota",
        "few",
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    world
        .run(&[&patch[..], &[&status.to_string()]].concat(), "")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_quota_that_is_used_up_is_named_and_waited_for() {
    let world = Setup::default().begin("quota").await;
    quota(&world, 2, 2).await;
    world.apply(&generated("web")).await;
    let (refused, message) = refusal(&world, "web").await;
    for words in [
        "web-login",
        "raise the ResourceQuota",
        "exceeded quota: few",
    ] {
        assert!(message.contains(words), "{words:?}: {message}");
    }
    assert!(!message.contains("deploy/secret-writer"), "{message}");
    assert!(
        condition(&refused, "Reconciling").is_some() && condition(&refused, "Stalled").is_none()
    );
    assert_eq!(create_calls(&world.sim), 0);
    // A server stays Ready without its connection Secret.
    world.apply(&beside()).await;
    let names_quota = |beside: &Instance| {
        let ready = condition(beside, "Ready");
        is_ready(beside) && ready.is_some_and(|ready| ready.message.contains("exceeded quota: few"))
    };
    world
        .until("beside", "Ready, and names the quota", names_quota)
        .await;
    quota(&world, 20, 2).await;
    let web = world.ready("web").await;
    agrees(&world, &web, "web-login").await;
    world
        .until("beside", "Ready, without a word of the quota", |beside| {
            is_ready(beside) && !names_quota(beside)
        })
        .await;
    world.finish().await;
}

/// A policy of the cluster for the Secrets of this namespace, and its binding.
async fn policy(world: &World, kind: &str, name: &str, spec: Value) {
    let version = "admissionregistration.k8s.io/v1";
    let mut policy = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name},
        "spec": {"matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"],
            }],
        }},
    });
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    let mut binding = json!({
        "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "spec": {"policyName": name},
    });
    if kind == "ValidatingAdmissionPolicy" {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    apply(world, &policy).await;
    apply(world, &binding).await;
}

/// Tries to create a Secret until the apiserver's answer shows that a policy is in effect.
async fn in_force(world: &World, shows: &str) {
    let make = [
        "create",
        "secret",
        "generic",
        "tried",
        "--dry-run=server",
        "-o",
        "yaml",
    ];
    eventually("the policy is in force", async || {
        let (_, output) = world.kubectl(&make, "").await;
        match output.contains(shows) {
            true => Ok(()),
            false => Err(output),
        }
    })
    .await;
}

async fn remove(world: &World, kind: &str, name: &str) {
    for kind in [format!("{kind}binding"), kind.to_owned()] {
        world.run(&["delete", &kind, name], "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_policy_that_denies_the_secret_is_named_and_met_by_a_template() {
    let world = Setup::default().begin("denied").await;
    let (kind, name) = (
        "ValidatingAdmissionPolicy",
        format!("teams-of-{}", world.namespace),
    );
    let validation = json!({
        "expression": "'team' in object.metadata.?labels.orValue({})", "message": "every Secret names its team",
    });
    policy(&world, kind, &name, json!({"validations": [validation]})).await;
    in_force(&world, "every Secret names its team").await;
    world.apply(&generated("web")).await;
    let (refused, message) = refusal(&world, "web").await;
    for words in [name.as_str(), "every Secret names its team", "template"] {
        assert!(message.contains(words), "{words:?}: {message}");
    }
    assert!(!message.contains("deploy/secret-writer"), "{message}");
    assert!(condition(&refused, "Stalled").is_some());
    assert_eq!(create_calls(&world.sim), 0);
    let mut named = generated("web");
    let template = json!({"labels": {"team": "a"}, "annotations": {"note.example/of": "b"}});
    named["spec"]["login"]["generate"]["template"] = template.clone();
    named["spec"]["connectionSecret"] = json!({"name": "web-connection", "template": template});
    world.apply(&named).await;
    let web = world.ready("web").await;
    agrees(&world, &web, "web-login").await;
    let secrets = world.secrets();
    eventually("it can be connected to", async || {
        let found = secrets.get_opt("web-connection").await;
        let found = found.map_err(|error| error.to_string())?;
        found.map(drop).ok_or("there is no Secret".to_owned())
    })
    .await;
    for secret in ["web-login", "web-connection"] {
        let secret = metadata(&world, secret).await;
        assert_eq!(secret.labels()["team"], "a");
        assert_eq!(secret.annotations()["note.example/of"], "b");
    }
    quiet_all(&world).await;
    // The policy is removed instead of adding a template: the operator continues without further help.
    let mut other = generated("other");
    other["spec"]["login"]["generate"]["secretName"] = json!("of-other");
    world.apply(&other).await;
    refusal(&world, "other").await;
    remove(&world, "validatingadmissionpolicy", &name).await;
    let other = world.ready("other").await;
    agrees(&world, &other, "of-other").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_labels_of_a_policy_and_of_users_stay_and_do_no_harm() {
    let world = Setup::default().begin("labelled").await;
    let (kind, name) = (
        "MutatingAdmissionPolicy",
        format!("costs-of-{}", world.namespace),
    );
    let adds = "Object{metadata: Object.metadata{labels: {'cost-center': 'x'}, annotations: {'audit.example/by': 'policy'}}}";
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": adds}});
    let spec =
        json!({"mutations": [mutation], "reinvocationPolicy": "Never", "failurePolicy": "Fail"});
    policy(&world, kind, &name, spec).await;
    in_force(&world, "cost-center").await;
    let mut manifest = hourly("web");
    manifest["spec"]["connectionSecret"] = json!({"name": "web-connection"});
    world.apply(&manifest).await;
    let web = world.ready("web").await;
    let first = server_password(&world, &web);
    agrees(&world, &web, "web-login").await;
    world
        .run(&["label", "secret", "web-login", "by=hand"], "")
        .await;
    world
        .run(
            &["annotate", "secret", "web-login", "by.example/hand=yes"],
            "",
        )
        .await;
    super::in_force(&world, "web", "web-login").await;
    quiet_all(&world).await;
    age(&world, "web-login", 2).await;
    let web = rotated(&world, &first).await;
    agrees(&world, &web, "web-login").await;
    // A changed template is written without a new password, and removes nothing.
    let second = server_password(&world, &web);
    manifest["spec"]["login"]["generate"]["template"] = json!({"labels": {"team": "a"}});
    world.apply(&manifest).await;
    eventually("the label is there", async || {
        match metadata(&world, "web-login").await.labels().get("team") {
            Some(_) => Ok(()),
            None => Err("it is not".to_owned()),
        }
    })
    .await;
    let web = super::in_force(&world, "web", "web-login").await;
    assert_eq!(server_password(&world, &web), second);
    agrees(&world, &web, "web-login").await;
    quiet_all(&world).await;
    let secret = metadata(&world, "web-login").await;
    for (label, value) in [("cost-center", "x"), ("by", "hand"), ("team", "a")] {
        assert_eq!(secret.labels()[label], value);
    }
    for (annotation, value) in [("audit.example/by", "policy"), ("by.example/hand", "yes")] {
        assert_eq!(secret.annotations()[annotation], value);
    }
    let connection = metadata(&world, "web-connection").await;
    assert_eq!(connection.labels()["cost-center"], "x");
    remove(&world, "mutatingadmissionpolicy", &name).await;
    world.finish().await;
}
