use super::*;
use crate::cloud::{AllowedEndpoints, Http};
use crate::instance::facts::Facts;
use crate::runtime::{Metrics, Term};
use crate::wiring::{Contexts, Process};
use kube::{Client, Resource};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Stores that know names only, and the requests for reconciles.
#[derive(Default)]
struct Names {
    instances: Mutex<BTreeSet<ObjectKey>>,
    woken: Mutex<Vec<(String, Option<Priority>)>>,
}

impl Names {
    fn wake(&self, kind: &str, key: &ObjectKey, priority: Option<Priority>) {
        let mut woken = self.woken.lock().unwrap();
        woken.push((format!("{kind} {}", key.name), priority));
    }

    fn woken(&self) -> Vec<(String, Option<Priority>)> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }
}

impl Objects for Names {
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.wake("Instance", key, priority);
    }

    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>) {
        self.wake("Account", key, priority);
    }

    fn facts(&self, _key: &ObjectKey, _cluster: &str) -> Option<Facts> {
        None
    }

    fn has_instance(&self, key: &ObjectKey) -> bool {
        self.instances.lock().unwrap().contains(key)
    }

    fn has_account(&self, _key: &ObjectKey) -> bool {
        false
    }
}

fn feed() -> (Feed, Arc<Names>) {
    feed_of(Client::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
        }),
        "default",
    ))
}

fn feed_of(client: Client) -> (Feed, Arc<Names>) {
    let names = Arc::new(Names::default());
    let objects: Arc<dyn Objects> = names.clone();
    let process = Process {
        client,
        cluster: "c".to_owned(),
        http: Http::new(AllowedEndpoints::default()).unwrap(),
        metrics: Metrics::default(),
        shard: Shard::WHOLE,
        term: Term::of_process(),
        pod: None,
    };
    let contexts = Contexts::new(process, &objects, &CancellationToken::new());
    (contexts.feed, names)
}

fn instance(uid: &str, account: &str) -> DeserializeGuard<Instance> {
    let object = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "team", "uid": uid, "resourceVersion": "1", "generation": 1},
        "spec": {
            "accountRef": {"name": account}, "region": "r", "zone": "z", "package": {"code": "p"},
            "image": {"id": "i"}, "firewall": {"id": "f"},
            "login": {"passwordSecretRef": {"name": "login", "key": "password"}},
        },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn secret(version: &str) -> Notice {
    let meta: Value =
        json!({"name": "login", "namespace": "team", "uid": "s", "resourceVersion": version});
    Notice::of(&serde_json::from_value(meta).unwrap(), Change::Applied)
}

/// As a watch does: the object is in the store before its notice comes.
fn shows(feed: &Feed, names: &Names, object: &DeserializeGuard<Instance>) -> Notice {
    let notice = Notice::of(object.meta(), Change::Applied);
    assert!(feed.instance_shown(&notice.key, &notice.uid, object));
    names.instances.lock().unwrap().insert(notice.key.clone());
    notice
}

#[tokio::test(start_paused = true)]
async fn the_references_of_a_new_object_stay_when_the_former_of_that_name_goes() {
    let (feed, names) = feed();
    let refers = |account: &str| feed.is_referred(&ObjectKey::new("team", account));
    let first = shows(&feed, &names, &instance("1", "first"));
    feed.instance(&first);
    assert!(refers("first"));
    let second = shows(&feed, &names, &instance("2", "second"));
    let gone = |notice: &Notice| Notice {
        change: Change::Gone,
        ..notice.clone()
    };
    feed.instance(&gone(&first));
    feed.instance(&second);
    assert!(refers("second") && !refers("first"));
    names.instances.lock().unwrap().clear();
    feed.instance(&gone(&second));
    assert!(!refers("second"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_secret_wakes_the_objects_that_refer_to_it_once() {
    let (feed, names) = feed();
    let web = shows(&feed, &names, &instance("1", "default"));
    feed.instance(&web);
    let change = Some(Priority::Change);
    assert_eq!(names.woken(), [("Instance web".to_owned(), change)]);
    feed.secret(&secret("5"));
    assert_eq!(names.woken(), [("Instance web".to_owned(), change)]);
    feed.secret(&secret("5"));
    assert_eq!(names.woken(), [], "a listing repeats what is known");
    feed.instance(&web);
    assert_eq!(names.woken(), [("Instance web".to_owned(), None)]);
}

/// A password that the operator generates for one Instance may be the login of another one, too.
#[tokio::test(start_paused = true)]
async fn our_own_write_of_a_secret_wakes_the_objects_that_refer_to_it() {
    let (feed, names) = feed();
    shows(&feed, &names, &instance("1", "default"));
    let login = ObjectKey::new("team", "login");
    feed.0.instances.secrets.note_own_write(login, "s", "5");
    feed.secret(&secret("5"));
    let change = Some(Priority::Change);
    assert_eq!(names.woken(), [("Instance web".to_owned(), change)]);
}

/// An apiserver that has no object.
fn empty() -> Client {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "gone", "code": 404});
    let answer = move |_: http::Request<kube::client::Body>| {
        let body = kube::client::Body::from(status.to_string().into_bytes());
        let response = http::Response::builder().status(404).body(body);
        std::future::ready(response.map_err(kube::Error::HttpError))
    };
    Client::new(tower::service_fn(answer), "default")
}

/// S-3: etcd is restored to before the purchase. This process has read no record of the Instance since, and only the watch shows
/// that the Instance is gone.
#[tokio::test(start_paused = true)]
async fn a_server_is_reported_as_orphaned_unless_the_operator_removed_the_finalizer() {
    for (record, is_detached, reported) in [
        (json!({"id": "ecs-1"}), false, 1),
        (json!({"id": "ecs-1"}), true, 0),
        (json!({}), false, 1),
        (
            json!({"refused": {"reason": "SoldOut", "message": "no"}}),
            false,
            0,
        ),
        (Value::Null, false, 0),
    ] {
        let (feed, names) = feed_of(empty());
        let mut object = instance("1", "default");
        if let Value::Object(changes) = &record {
            let mut text = json!({
                "cluster": "c", "namespace": "team", "name": "web", "uid": "1", "marker": crate::api::Marker::of_uid("1"),
                "attempt": 1, "nonce": "n", "startedAt": "1970-01-01T00:00:00Z", "generation": 1, "target": {},
                "package": "p", "places": ["r/z"], "account": "default", "credential": "x",
            });
            text.as_object_mut().unwrap().extend(changes.clone());
            let annotations = [(crate::api::names::BINDING.to_owned(), text.to_string())];
            object.meta_mut().annotations = Some(annotations.into());
        }
        let web = shows(&feed, &names, &object);
        feed.instance(&web);
        let context = &feed.0.instances;
        context.memories.doubt_all();
        if is_detached {
            context.sessions.owners().set_detached("1", true);
        }
        feed.instance(&Notice {
            change: Change::Gone,
            ..web
        });
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let line = format!("servers_orphaned_total {reported}");
        assert!(context.metrics.encode().contains(&line), "{record}");
    }
}
