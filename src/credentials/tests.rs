//! Tests of the keys of a generated login Secret, and of its owner.

use super::generated::initial_change;
use super::login::{CURRENT, PENDING, is_settled, wanted_key};
use super::ownership::{ManagedSecret, Ownership};
use super::writing::SecretChange;
use super::*;
use crate::api::names::{MANAGED_BY, MANAGER, SECRET_MARKER, SECRET_ROLE, SETTLED_FROM};
use crate::api::{ConnectionSecretRef, Marker, PASSWORD, SecretTemplate};
use crate::runtime::KubeError;
use crate::runtime::watch::ObjectKey;
use crate::session::Content;
use data_encoding::BASE64;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

const UID: &str = "uid-of-web";
/// UID of the Instance from which a backup was made.
const FORMER: &str = "uid-before";

fn content(data: &Value) -> Content {
    let data: Map<String, Value> = data
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, text)| {
            let text = BASE64.encode(text.as_str().unwrap().as_bytes());
            (key.clone(), Value::from(text))
        })
        .collect();
    let mut secret: Secret = serde_json::from_value(json!({
        "type": "Opaque",
        "metadata": {
            "uid": "u", "resourceVersion": "7",
            "labels": {MANAGED_BY: MANAGER, SECRET_ROLE: "login"},
            "annotations": {SETTLED_FROM: "6"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other"},
                {"apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "name": "web", "uid": UID, "controller": true},
            ],
        },
        "data": data,
    }))
    .unwrap();
    Content::of(&mut secret)
}

#[test]
fn a_pending_password_is_set_next_unless_a_user_edited_the_password_since() {
    for (data, key, settled) in [
        (json!({"password": "a", "current": "a"}), PASSWORD, true),
        (
            json!({"password": "a", "current": "a", "previous": "b"}),
            PASSWORD,
            true,
        ),
        (json!({"password": "a\n", "current": "a"}), PASSWORD, true),
        (
            json!({"password": "a", "current": "a", "pending": "b"}),
            PENDING,
            false,
        ),
        (
            json!({"password": "c", "current": "a", "pending": "b"}),
            PASSWORD,
            false,
        ),
        (json!({"password": "c", "current": "a"}), PASSWORD, false),
        (json!({"password": "c"}), PASSWORD, false),
        (json!({"current": "a", "pending": "b"}), PASSWORD, false),
        (json!({"pending": "b"}), PENDING, false),
        (json!({"password": "c", "pending": "b"}), PASSWORD, false),
    ] {
        let content = content(&data);
        assert_eq!(wanted_key(&content), key, "{data}");
        assert_eq!(is_settled(&content), settled, "{data}");
    }
}

#[test]
fn a_first_password_is_current_only_if_a_server_is_bought_with_it() {
    let keys = |has_server| {
        let data = initial_change(has_server).data();
        let mut keys: Vec<String> = data.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(false), [CURRENT, PASSWORD]);
    assert_eq!(keys(true), [PENDING], "the server has another password");
}

#[test]
fn a_login_is_identified_by_the_version_of_its_secret() {
    let instance = instance(None, None);
    let spec: crate::api::InstanceSpec = serde_json::from_value(json!({
        "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"}, "login": {"generate": {}},
    }))
    .unwrap();
    let login = LoginSecret::of(&spec, instance.owner()).unwrap();
    let fact = |data: &Value| {
        login.fact(
            content(data),
            crate::api::PasswordSpecialCharacters::default(),
        )
    };
    let LoginFact::Ready(known) = fact(&json!({"password": "Abcdef1!", "current": "Abcdef1!"}))
    else {
        panic!("the login is usable")
    };
    assert_eq!(known.secret.as_deref(), Some("web-login/password/u/7"));
    let settled = Generated {
        is_settled: true,
        settled_from: Some("web-login/password/u/6".to_owned()),
    };
    assert_eq!(known.generated, Some(settled));
    assert!(!format!("{known:?}").contains("Abcdef1!"));
    let weak = fact(&json!({"password": "weak", "current": "weak"}));
    assert!(matches!(weak, LoginFact::Problem(_)));
}

/// The Instance `web` with a record that was written for the object with this UID, and a server with this name.
struct Owner {
    key: ObjectKey,
    marker: Marker,
    imported: Option<Marker>,
}

fn instance(record_of: Option<&str>, imported: Option<&str>) -> Owner {
    Owner {
        key: ObjectKey::new("ns", "web"),
        marker: Marker::of_uid(record_of.unwrap_or(UID)),
        imported: imported.and_then(Marker::in_name),
    }
}

impl Owner {
    fn login<'a>(&'a self, template: Option<&'a SecretTemplate>) -> ManagedSecret<'a> {
        ManagedSecret::login(self.owner(), "web-login".to_owned(), template)
    }

    fn owner(&self) -> SecretOwner<'_> {
        SecretOwner {
            key: &self.key,
            uid: UID,
            marker: &self.marker,
            imported: self.imported.clone(),
            record: None,
        }
    }
}

fn owned_by(content: &mut Content, name: &str, uid: &str) {
    content.owners = vec![OwnerReference {
        api_version: "cloudserver.dev/v1alpha1".to_owned(),
        kind: "Instance".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }];
}

fn whose(content: &Content, instance: &Owner) -> Ownership {
    instance.login(None).ownership(content)
}

#[test]
fn only_a_secret_that_this_instance_controls_for_this_purpose_is_ours() {
    let instance = instance(None, None);
    let mut content = content(&json!({}));
    assert_eq!(whose(&content, &instance), Ownership::Ours);
    let reference = ConnectionSecretRef {
        name: "web-connection".to_owned(),
        template: None,
    };
    let connection = ManagedSecret::connection(instance.owner(), &reference);
    assert_ne!(
        connection.ownership(&content),
        Ownership::Ours,
        "the Secret contains the login"
    );
    content.labels.clear();
    assert_eq!(whose(&content, &instance), Ownership::Ours);
    content.owners.retain(|owner| owner.controller.is_none());
    assert_eq!(
        whose(&content, &instance),
        Ownership::Foreign,
        "the owner is not its controller"
    );
    content.owners.clear();
    assert_eq!(
        whose(&content, &instance),
        Ownership::Free,
        "without a label"
    );
    owned_by(&mut content, "web", FORMER);
    assert_eq!(whose(&content, &instance), Ownership::Former);
    owned_by(&mut content, "db", FORMER);
    assert_eq!(whose(&content, &instance), Ownership::Foreign, "db owns it");
}

#[test]
fn a_restored_secret_is_adopted_only_by_its_own_instance() {
    let restored = instance(Some(FORMER), None);
    let marked = |uid: &str| {
        let mut content = content(&json!({"password": "a", "current": "a"}));
        content.owners.clear();
        let marker = Marker::of_uid(uid).to_string();
        content.labels.insert(SECRET_MARKER.to_owned(), marker);
        content
    };
    // Recognized by its label without an owner, and by label or owner if the owner is gone.
    assert_eq!(whose(&marked(FORMER), &restored), Ownership::Reclaimable);
    let mut dead = marked(FORMER);
    owned_by(&mut dead, "web", FORMER);
    assert_eq!(whose(&dead, &restored), Ownership::Reclaimable);
    dead.labels.remove(SECRET_MARKER);
    assert_eq!(whose(&dead, &restored), Ownership::Reclaimable);
    // Restored twice: the owner is the object of the first restore.
    owned_by(&mut dead, "web", "uid-between");
    dead.labels
        .insert(SECRET_MARKER.into(), Marker::of_uid(FORMER).to_string());
    assert_eq!(whose(&dead, &restored), Ownership::Reclaimable);
    // A user removed the owner reference, and the Instance has no record yet.
    let fresh = instance(None, None);
    assert_eq!(whose(&marked(UID), &fresh), Ownership::Reclaimable);
    // The server of the Instance in another cluster was imported.
    let name = format!("web-{}", Marker::of_uid(FORMER));
    let imported = instance(Some(UID), Some(&name));
    assert_eq!(whose(&marked(FORMER), &imported), Ownership::Reclaimable);

    // Any other difference means that it is not ours: marker, labels, type, role, or a living owner.
    assert_eq!(whose(&marked(FORMER), &fresh), Ownership::Free);
    assert_eq!(whose(&marked("uid-of-db"), &restored), Ownership::Free);
    for label in [MANAGED_BY, SECRET_ROLE] {
        let mut content = marked(FORMER);
        content.labels.remove(label);
        assert_eq!(whose(&content, &restored), Ownership::Free, "{label}");
    }
    let mut content = marked(FORMER);
    content
        .labels
        .insert(SECRET_ROLE.into(), "connection".into());
    assert_eq!(whose(&content, &restored), Ownership::Free);
    let mut content = marked(FORMER);
    content.type_ = "kubernetes.io/tls".to_owned();
    assert_eq!(whose(&content, &restored), Ownership::Foreign);
    let mut content = marked(FORMER);
    owned_by(&mut content, "db", "uid-of-db");
    assert_eq!(whose(&content, &restored), Ownership::Foreign);
    owned_by(&mut content, "web", FORMER);
    content.owners[0].kind = "Deployment".to_owned();
    assert_eq!(whose(&content, &restored), Ownership::Foreign);
}

#[test]
fn no_remedy_deletes_a_secret_that_may_hold_the_only_copy_of_a_password() {
    let instance = instance(None, None);
    let managed = instance.login(None);
    for whose in [Ownership::Free, Ownership::Foreign, Ownership::Former] {
        let words = managed.conflict(whose).unwrap().message;
        let of_kubernetes = "Kubernetes deletes it soon";
        assert!(
            !words.replace(of_kubernetes, "").contains("delete"),
            "{words}"
        );
        let is_offered = words.contains("kubectl label secret -n ns web-login");
        assert_eq!(is_offered, whose == Ownership::Free, "{words}");
    }
}

#[test]
fn a_secret_has_the_labels_of_its_template_and_its_own() {
    let template: SecretTemplate = serde_json::from_value(json!({
        "labels": {"team": "a", MANAGED_BY: "me"}, "annotations": {"note": "b"},
    }))
    .unwrap();
    let instance = instance(None, None);
    let managed = instance.login(Some(&template));
    let labels = managed.labels(None);
    assert_eq!(labels["team"], "a");
    assert_eq!(
        labels[MANAGED_BY], MANAGER,
        "the label of the operator takes precedence"
    );
    assert_eq!(labels[SECRET_MARKER], Marker::of_uid(UID).as_str());
    // Of the Instance from which the server was imported.
    let mut marked = content(&json!({}));
    marked.labels.insert(SECRET_MARKER.into(), "former".into());
    assert_eq!(managed.labels(Some(&marked))[SECRET_MARKER], "former");
    let mut content = content(&json!({}));
    assert!(!managed.is_labelled(&content));
    content.labels.extend(template.labels.clone());
    content.annotations.extend(template.annotations.clone());
    content.labels.insert("by".into(), "hand".into());
    assert!(!managed.is_labelled(&content), "it has no marker");
    content
        .labels
        .insert(SECRET_MARKER.into(), Marker::of_uid(UID).to_string());
    assert!(managed.is_labelled(&content));
}

#[test]
fn an_error_does_not_repeat_the_values_of_a_write() {
    let mut change = SecretChange::default();
    change.put(PASSWORD, "Abcdef1!");
    let encoded = BASE64.encode(b"Abcdef1!");
    let message = format!("a webhook denied Abcdef1! and {encoded}");
    let status = kube::core::Status::failure(&message, "Forbidden").with_code(403);
    let shown = change.without_values(KubeError::Refused {
        operation: "create a Secret",
        status: Box::new(status),
    });
    let shown = shown.to_string();
    assert!(
        !shown.contains("Abcdef1!") && !shown.contains(&encoded),
        "{shown}"
    );
    assert!(
        shown.contains("a webhook denied [hidden] and [hidden]"),
        "{shown}"
    );
    assert!(!format!("{change:?}").contains("Abcdef1!"));
}

#[test]
fn debug_of_a_write_shows_no_password() {
    let mut change = SecretChange::default();
    change.put(PASSWORD, "canary-5f0e8c2b");
    for text in [format!("{change:?}"), format!("{change:#?}")] {
        assert!(!text.contains("canary"), "{text}");
    }
}
