//! The limits of an operator's token.

use super::{but, may, may_make, of_an_instance, token_of_an_account};
use crate::support::{Manifests, Setup, World, create, eventually, insist, own, token_of};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// An installation: its description, its own namespace, and the name of its ServiceAccount.
struct Form {
    what: &'static str,
    own: String,
    account: &'static str,
    /// Whether it may write Secrets of Instances.
    writes: bool,
}

/// Secrets that must be refused in every namespace, and the words of the policy's refusal if a role allows them.
fn forbidden() -> Vec<(Value, &'static str)> {
    let labels = |labels: Value| but(&json!({"metadata": {"labels": labels}}));
    let owner = |change: Value| {
        let mut secret = of_an_instance();
        super::merge(&mut secret["metadata"]["ownerReferences"][0], &change);
        secret
    };
    vec![
        (token_of_an_account(), "type Opaque"),
        (
            labels(json!({"argocd.argoproj.io/secret-type": "cluster"})),
            "mean something else",
        ),
        (
            labels(json!({"cloudserver.dev/use": "token"})),
            "consents to be sent",
        ),
        (but(&json!({"immutable": true})), "no Secret immutable"),
        (
            labels(json!({"cloudserver.dev/secret": "token"})),
            "labels of its own",
        ),
        (
            labels(json!({"app.kubernetes.io/managed-by": null})),
            "labels of its own",
        ),
        (
            but(
                &json!({"metadata": {"annotations": {"cloudserver.dev/endpoint": "https://a.example"}}}),
            ),
            "mean something else",
        ),
        (
            but(&json!({"metadata": {"finalizers": ["a.example/b"]}})),
            "no finalizers",
        ),
        (
            but(&json!({"metadata": {"ownerReferences": null}})),
            "no others",
        ),
        (
            but(&json!({"data": {"tls.key": "YQ=="}})),
            "keys of a login",
        ),
        (
            but(&json!({"type": "bootstrap.kubernetes.io/token"})),
            "type Opaque",
        ),
        (owner(json!({"kind": "Account"})), "no others"),
        (
            owner(json!({"apiVersion": "cloudserver.dev.evil.example/v1"})),
            "no others",
        ),
        (owner(json!({"controller": null})), "no others"),
    ]
}

async fn client_of(world: &World, form: &Form) -> Client {
    let cluster = &world.shared.cluster;
    let token = token_of(cluster, &form.own, form.account).await;
    cluster.client_for(&token).await.unwrap()
}

async fn is_confined(world: &World, form: &Form) {
    let client = client_of(world, form).await;
    let watched = world.namespace.as_str();
    // The apiserver applies roles and policies after a delay.
    eventually(
        &format!("{}: what it needs is allowed", form.what),
        async || {
            for mut secret in kept() {
                may_make(&client, &form.own, &secret).await?;
                super::merge(&mut secret, &others());
                may_make(&client, &form.own, &secret).await?;
            }
            if form.writes {
                may_make(&client, watched, &of_an_instance()).await?;
                may_make(&client, watched, &but(&others())).await?;
            }
            Ok(())
        },
    )
    .await;
    eventually(
        &format!("{}: the policy is in force", form.what),
        async || {
            let tried = may_make(&client, &form.own, &token_of_an_account()).await;
            tried.err().map(|_| ()).ok_or_else(|| "allowed".to_owned())
        },
    )
    .await;
    for (secret, words) in forbidden() {
        for namespace in [watched, &form.own, "kube-system", "default"] {
            let Err(why) = may_make(&client, namespace, &secret).await else {
                panic!("{} may make in {namespace}: {secret:#}", form.what);
            };
            let is_tried = form.writes && namespace == watched;
            assert!(!is_tried || why.contains(words), "{words:?}: {why}");
        }
    }
    for (secret, words) in forbidden_copies() {
        let Err(why) = may_make(&client, &form.own, &secret).await else {
            panic!("{} may make in its own namespace: {secret:#}", form.what);
        };
        assert!(why.contains(words), "{words:?}: {why}");
    }
    // In the namespaces of the cluster itself, and in its own, the operator may not even create the Secrets that it may create
    // elsewhere.
    for namespace in ["kube-system", "kube-public", &form.own] {
        let tried = may_make(&client, namespace, &of_an_instance()).await;
        assert!(tried.is_err(), "{}: {namespace}", form.what);
    }
    for secret in kept() {
        let elsewhere = may_make(&client, watched, &secret).await;
        assert!(elsewhere.is_err(), "{}: {secret:#}", form.what);
    }
}

/// Metadata that a policy of the cluster, or an Instance's template, puts on a Secret.
fn others() -> Value {
    json!({"metadata": {"labels": {"cost-center": "x"}, "annotations": {"reflector/auto": "true"}}})
}

/// The Secrets in the operator's own namespace.
fn kept() -> [Value; 2] {
    [copy_of_a_token(), copy_with_tls()]
}

/// The copy of a token in the operator's own namespace.
fn copy_of_a_token() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cloudserver.dev/token-copy",
        "metadata": {"generateName": "token-copy-", "labels": {
            "app.kubernetes.io/managed-by": "cloud-server-operator", "cloudserver.dev/token-copy": "true",
            "cloudserver.dev/namespace": "team-a",
        }},
        "data": {"account": "YQ==", "token": "YQ=="},
    })
}

/// The copy of a token for an Account with its own authority and a client certificate.
fn copy_with_tls() -> Value {
    let mut copy = copy_of_a_token();
    let tls = json!({"ca.crt": "YQ==", "tls.crt": "YQ==", "tls.key": "YQ=="});
    super::merge(&mut copy, &json!({"data": tls}));
    copy
}

/// Secrets that must be refused in the operator's own namespace, and the words of the policy's refusal.
fn forbidden_copies() -> Vec<(Value, &'static str)> {
    let but = |mut secret: Value, patch: Value| {
        super::merge(&mut secret, &patch);
        secret
    };
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let copy = copy_with_tls;
    vec![
        (
            but(copy(), labels(json!({"cloudserver.dev/use": "token"}))),
            "consents to be sent",
        ),
        (
            but(copy(), json!({"type": "cloudserver.dev/token"})),
            "no other Secrets there",
        ),
        (
            but(copy(), json!({"immutable": true})),
            "no Secret immutable",
        ),
        (
            but(copy(), labels(json!({"cloudserver.dev/other": "c"}))),
            "mean something else",
        ),
        (
            but(copy(), json!({"data": {"password": "YQ=="}})),
            "the keys that",
        ),
    ]
}

/// An existing Secret of another creator, the change that the operator's token attempts, and the words of the policy's refusal
/// if it refuses.
fn changes() -> Vec<(Value, Value, Option<&'static str>)> {
    let password = json!({"data": {"password": "Yg=="}});
    let rotated = json!({"metadata": {"annotations": {"cloudserver.dev/rotated-at": "2026-11-22T15:34:43Z"}}});
    let consents = json!({"metadata": {"labels": {"cloudserver.dev/use": "token"}}});
    let immutable = json!({"immutable": true});
    let consent = Some("consents to be sent");
    let owner = of_an_instance()["metadata"]["ownerReferences"].clone();
    let adopted = json!({"metadata": {"ownerReferences": owner}});
    let owned = |owner: Value, labels: Value| {
        but(&json!({"metadata": {"ownerReferences": owner, "labels": labels}}))
    };
    let former = |name: &str| {
        let mut former = owner.clone();
        former[0]["name"] = json!(name);
        former[0]["uid"] = json!("0d1c9d4e-0000-4000-8000-000000000002");
        former
    };
    let marked = json!({"cloudserver.dev/marker": "aaaaaaaaaaaaa"});
    let takes_over = Some("takes over no Secret");
    vec![
        (of_an_instance(), password.clone(), None),
        (but(&consents), password, consent),
        (but(&consents), rotated.clone(), consent),
        (of_an_instance(), consents, consent),
        (
            of_an_instance(),
            immutable.clone(),
            Some("no Secret immutable"),
        ),
        // A change that another writer intends: the policy leaves the check of immutability to the apiserver.
        (but(&immutable), rotated, None),
        // Secrets restored from a backup: marked for an Instance, or owned by a former one of the same name.
        (owned(json!(null), marked.clone()), adopted.clone(), None),
        (owned(former("web"), json!({})), adopted.clone(), None),
        (owned(json!(null), json!({})), adopted.clone(), takes_over),
        (
            owned(former("db"), marked.clone()),
            adopted.clone(),
            takes_over,
        ),
        (
            owned(
                former("web"),
                json!({"app.kubernetes.io/managed-by": "others"}),
            ),
            adopted.clone(),
            takes_over,
        ),
        (
            owned(former("web"), json!({"cloudserver.dev/secret": null})),
            adopted,
            takes_over,
        ),
        // Labels of other writers may be added and changed, but not removed; the operator's own labels must stay unchanged.
        (of_an_instance(), others(), None),
        (
            but(&others()),
            json!({"metadata": {"labels": {"cost-center": null}}}),
            Some("takes no label"),
        ),
        (
            owned(owner.clone(), marked),
            json!({"metadata": {"labels": {"cloudserver.dev/marker": "bbbbbbbbbbbbb"}}}),
            Some("changes none of these"),
        ),
        (
            of_an_instance(),
            json!({"metadata": {"labels": {"cloudserver.dev/secret": "connection"}}}),
            Some("changes none of these"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_that_consents_to_be_sent_is_the_operators_to_write() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("consenting").await;
    let shared = &world.shared;
    let client = shared.cluster.client_for(&shared.token).await.unwrap();
    eventually("the policy is in force", async || {
        let tried = may_make(&client, &world.namespace, &token_of_an_account()).await;
        tried.err().map(|_| ()).ok_or_else(|| "allowed".to_owned())
    })
    .await;
    let ours: Api<Secret> = Api::namespaced(client, &world.namespace);
    for (number, (existing, change, refusal)) in changes().into_iter().enumerate() {
        let name = format!("tried-{number}");
        let mut existing = existing;
        // Held by a finalizer, since the garbage collector deletes a Secret whose owner does not exist.
        let held = json!({"metadata": {"name": name, "finalizers": ["example.com/held"]}});
        super::merge(&mut existing, &held);
        create(&world.secrets(), &serde_json::from_value(existing).unwrap()).await;
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let changed = insist("a Secret is changed", async || {
            ours.patch(&name, &params, &Patch::Merge(&change)).await
        });
        let why = changed.await.err().map(|error| error.to_string());
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let (secrets, params) = (world.secrets(), PatchParams::default());
        let patched = insist("a finalizer is removed", async || {
            secrets.patch(&name, &params, &released).await
        });
        patched.await.unwrap();
        match (refusal, why) {
            (None, None) => {}
            (Some(words), Some(why)) => assert!(why.contains(words), "{words:?}: {why}"),
            (_, why) => panic!("{change}: {refusal:?} was expected: {why:?}"),
        }
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_every_form_and_under_every_name_the_operator_writes_its_own_secrets_and_no_others() {
    let setup = Setup::default().cluster(own().await).bare();
    let world = setup.without_operator().begin("forms").await;
    let form = |what, own: &str, account, writes| Form {
        what,
        own: own.to_owned(),
        account,
        writes,
    };
    // In the form that `own` installs.
    let account = "cloud-server-operator";
    is_confined(
        &world,
        &form("deploy", "cloud-server-system", account, true),
    )
    .await;

    // An overlay that renames all objects.
    let cluster = &world.shared.cluster;
    let manifests = Manifests::copy();
    manifests.kustomization(
        "renamed",
        "namePrefix: mine-\nnamespace: elsewhere\nresources: [../deploy, ../deploy/secret-writer]\n",
    );
    manifests.apply(cluster, "renamed").await;
    let renamed = form(
        "an overlay",
        "elsewhere",
        "mine-cloud-server-operator",
        true,
    );
    is_confined(&world, &renamed).await;

    // The same without the cluster's own policy, with only the overlay's.
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        world
            .run(&["delete", kind, "cloud-server-operator-secrets"], "")
            .await;
    }
    is_confined(&world, &renamed).await;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        world
            .run(&["delete", kind, "mine-cloud-server-operator-secrets"], "")
            .await;
    }

    // For one namespace, with and without the permission to write Secrets there.
    let manifests = Manifests::for_one_namespace(&world.namespace, "forms-writes");
    manifests.apply(cluster, "deploy/namespaced").await;
    is_confined(&world, &form("namespaced", "forms-writes", account, true)).await;
    let manifests = Manifests::copy();
    let names = [
        ("watched: team-a", &*format!("watched: {}", world.namespace)),
        ("operator: cloud-server-team-a", "operator: forms-reads"),
    ];
    manifests.edit("deploy/namespaced/names.yaml", &names);
    manifests.apply(cluster, "deploy/namespaced").await;
    is_confined(
        &world,
        &form("namespaced, reading", "forms-reads", account, false),
    )
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_has_one_lease_and_changes_no_event() {
    let world = Setup::default().bare().without_operator();
    let world = world.begin("least").await;
    let user = crate::support::Shared::USER;
    for (namespace, question, answer) in [
        (
            "cloud-server-system",
            "update lease/cloud-server-operator",
            "yes",
        ),
        (
            "cloud-server-system",
            "get lease/cloud-server-operator",
            "yes",
        ),
        ("cloud-server-system", "update lease/another", "no"),
        (
            "cloud-server-system",
            "delete lease/cloud-server-operator",
            "no",
        ),
        ("cloud-server-system", "list leases", "yes"),
        (
            "cloud-server-system",
            "update lease/cloud-server-operator-0-of-2",
            "no",
        ),
        (
            world.namespace.as_str(),
            "create events.events.k8s.io",
            "yes",
        ),
        (world.namespace.as_str(), "patch events.events.k8s.io", "no"),
        (
            world.namespace.as_str(),
            "create serviceaccounts/token",
            "no",
        ),
        ("kube-system", "get namespace/kube-system", "yes"),
        ("default", "get namespace/default", "no"),
    ] {
        let question: Vec<&str> = question.split(' ').chain(["-n", namespace]).collect();
        assert_eq!(
            may(&world, user, &question).await,
            answer == "yes",
            "{question:?}"
        );
    }
    world.finish().await;
}
