//! The apiserver may quote a refused Secret, but no log contains the quotation, at any log level.

use super::{CANARIES, OWN, writings};
use crate::support::{Setup, World, eventually, instance};
use data_encoding::BASE64;
use serde_json::json;
use std::sync::LazyLock;

/// Every line that `RUST_LOG` can enable: each target of each package in the build, by name and by module where a quotation was
/// observed, and the forms by span and by field.
pub(super) fn everything() -> &'static str {
    static ALL: LazyLock<String> = LazyLock::new(|| {
        const MODULES: [&str; 9] = [
            "trace",
            "kube_client::client=trace",
            "kube_client::client::builder=trace",
            "kube_runtime::watcher=trace",
            "h2::codec::framed_read=trace",
            "reqwest::connect=trace",
            "[HTTP]=trace",
            "[{http.url}]=trace",
            "[]=trace",
        ];
        let packages = include_str!("../../../Cargo.lock").lines();
        let packages =
            packages.filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let packages = packages.map(|name| format!("{}=trace", name.replace('-', "_")));
        let modules = MODULES.map(ToOwned::to_owned);
        packages.chain(modules).collect::<Vec<_>>().join(",")
    });
    &ALL
}

/// A policy that refuses copies of this namespace's tokens, with a message that quotes their content.
async fn refuse(world: &World) -> String {
    let name = format!("quotes-{}", world.namespace);
    let is_ours = format!(
        "has(object.metadata.labels) && 'cloudserver.dev/namespace' in object.metadata.labels && \
         object.metadata.labels['cloudserver.dev/namespace'] == '{}'",
        world.namespace
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"],
            }]},
            "matchConditions": [{"name": "ours", "expression": is_ours}],
            "validations": [{"expression": "false", "messageExpression": "'not this: ' + string(object.data.token)"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        world.run(&["apply", "-f", "-"], &object.to_string()).await;
    }
    let probe = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": OWN, "labels": {"cloudserver.dev/namespace": world.namespace}},
        "data": {"token": BASE64.encode(World::TOKEN.as_bytes())},
    });
    eventually("the policy is in force", async || {
        let create = ["create", "--dry-run=server", "-n", OWN, "-f", "-"];
        let create = crate::support::kubectl(&create, &probe.to_string()).await;
        let stderr = String::from_utf8_lossy(&create.stderr).into_owned();
        match stderr.contains(&BASE64.encode(World::TOKEN.as_bytes())) {
            true => Ok(()),
            false => Err(stderr),
        }
    })
    .await;
    name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_the_apiserver_quotes_is_not_logged() {
    let setup = Setup::default().keeps_tokens().without_operator();
    let mut world = setup.filter(everything()).begin("quoted").await;
    let policy = refuse(&world).await;
    world.start().await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let log = world.logs();
    assert!(
        log.contains("the token has no current copy") && log.contains("not this: [hidden]"),
        "the refusal was met and is reported: {log}"
    );
    for secret in CANARIES {
        for form in writings(secret) {
            let quoting = log.lines().find(|line| line.contains(&form));
            assert_eq!(quoting, None, "{form} ({secret})");
        }
    }
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        world.run(&["delete", kind, &policy], "").await;
    }
    world.finish().await;
}
