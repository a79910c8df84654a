//! Another controller has its own condition in the status of an Instance and of its Account, as the API conventions of
//! Kubernetes allow.

use crate::support::{
    Setup, World, assert_idle, done, eventually, insist, instance, mark, other_image, quiet,
};
use cloud_server_operator::api::{Account, Instance, Verb};
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::interval;

const TYPE: &str = "example.com/Paid";
/// How often the other controller checks its condition.
const INTERVAL: Duration = Duration::from_millis(20);
/// Changes of the other controller's condition in the window in which the operator must write nothing.
const CHANGES: usize = 40;

/// The other controller: it writes its condition by server-side apply as soon as the condition is missing.
struct Other {
    api: Api<DynamicObject>,
    kind: ApiResource,
    name: &'static str,
}

/// A running one.
struct Running {
    task: JoinHandle<()>,
    writes: Arc<AtomicUsize>,
}

impl Running {
    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn others(object: &DynamicObject) -> Option<&Value> {
    let all = object.data["status"]["conditions"].as_array();
    all?.iter().find(|condition| condition["type"] == TYPE)
}

impl Other {
    fn of<K: Resource<DynamicType = ()>>(world: &World, name: &'static str) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let api = Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
        Self { api, kind, name }
    }

    /// Makes one attempt to write its condition with this message.
    async fn attempt(&self, message: &str) -> kube::Result<DynamicObject> {
        let condition = json!({
            "type": TYPE, "status": "False", "reason": "Unpaid", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00+01:00",
        });
        let status = json!({"conditions": [condition]});
        let object = json!({
            "apiVersion": self.kind.api_version, "kind": self.kind.kind,
            "metadata": {"name": self.name}, "status": status,
        });
        let params = PatchParams::apply("other-controller").force();
        let patch = Patch::Apply(&object);
        self.api.patch_status(self.name, &params, &patch).await
    }

    async fn write(&self, message: &str) {
        let written = insist("the other controller writes", async || {
            self.attempt(message).await
        });
        written.await.unwrap();
    }

    async fn get(&self) -> Option<DynamicObject> {
        self.api.get_opt(self.name).await.ok().flatten()
    }

    fn run(self) -> Running {
        let writes = Arc::new(AtomicUsize::new(0));
        let count = writes.clone();
        let task = tokio::spawn(async move {
            let mut ticks = interval(INTERVAL);
            loop {
                ticks.tick().await;
                let Some(now) = self.get().await else {
                    continue;
                };
                if others(&now).is_none() && self.attempt("by its controller").await.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Running { task, writes }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_of_another_controller_stays_through_the_life_of_an_instance() {
    let mut world = Setup::default().without_operator().begin("others").await;
    world.apply(&instance("web")).await;
    let (web, account) = (
        Other::of::<Instance>(&world, "web"),
        Other::of::<Account>(&world, "default"),
    );
    let keeps = [
        Other::of::<Instance>(&world, "web").run(),
        Other::of::<Account>(&world, "default").run(),
    ];
    for other in [&web, &account] {
        eventually("the other controller has written", async || {
            let now = other.get().await.ok_or("no object")?;
            others(&now)
                .map(|_| ())
                .ok_or_else(|| "no condition".to_owned())
        })
        .await;
    }
    world.start().await;
    let first = world.ready("web").await;

    let before = mark(&world, "web").await;
    world.apply(&other_image("web")).await;
    assert_idle(
        &world,
        &done(&world, "web", &before, &[Verb::Reinstall]).await,
    );
    // The Account becomes unusable and usable again: its own conditions are added and removed.
    world.secret("cloud-token", "token", "wrong").await;
    let accounts = world.accounts();
    let until_account = async |expected: bool| {
        eventually("the Account is as its token", async || {
            let now = accounts
                .get("default")
                .await
                .map_err(|error| error.to_string())?;
            let status = now.status.unwrap_or_default();
            let is_usable = status
                .conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True");
            (is_usable == expected)
                .then_some(())
                .ok_or_else(|| format!("{status:?}"))
        })
        .await;
    };
    until_account(false).await;
    world.secret("cloud-token", "token", World::TOKEN).await;
    until_account(true).await;
    world.restart().await;
    let now = world.ready("web").await;
    assert_eq!(now.status.unwrap().id, first.status.unwrap().id);
    let writes = keeps.each_ref().map(Running::writes);
    assert_eq!(
        writes,
        [1, 1],
        "each condition was written once and never lost"
    );

    // A change of that condition causes neither a write nor a call of the operator.
    eventually(
        "the operator has written nothing for five seconds",
        async || {
            let written = world
                .writes_since(Timestamp::now() - SignedDuration::from_secs(5))
                .await;
            written
                .is_empty()
                .then_some(())
                .ok_or_else(|| format!("{written:#?}"))
        },
    )
    .await;
    let since = Timestamp::now();
    for n in 0..CHANGES {
        web.write(&format!("change {n}")).await;
    }
    quiet(&world, "web").await;
    let written = world.writes_since(since).await;
    assert!(written.is_empty(), "{written:#?}");
    let shown = web.get().await.unwrap();
    assert_eq!(
        others(&shown).unwrap()["message"],
        format!("change {}", CHANGES - 1)
    );
    assert_eq!(keeps.each_ref().map(Running::writes), [1, 1]);
    drop(keeps);
    world.delete("web").await;
    world.gone("web").await;
    world.finish().await;
}
