#![allow(
    clippy::large_futures,
    reason = "a case holds a whole Instance, and a test awaits it once"
)]

use super::super::stage;
use super::*;
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{InstanceStatus, Marker, PurchaseRecord};
use cloud_server_operator::cloud::{Detail, ServerId};
use cloud_server_operator::credentials::KnownLogin;
use cloud_server_operator::instance::observation::{AccountFact, SessionFacts};
use cloud_server_operator::instance::observe;
use http::{Request, Response};
use jiff::tz::Offset;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ID: &str = "ecs-1";
const UID: &str = "0d1c9d4e-0000-4000-8000-000000000001";

/// The effects, each with its operation or reason, and the notes.
type Shown = (Vec<(Effect, String)>, Vec<String>);

struct Case {
    instance: Instance,
    detail: Fact<Detail>,
    login: LoginFact,
    account: AccountFact,
}

fn ready(version: &str) -> LoginFact {
    LoginFact::Ready(KnownLogin {
        secret: Some(version.to_owned()),
        ..KnownLogin::default()
    })
}

/// An Instance without a server, and a usable Account.
fn fresh() -> Case {
    let value = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "ns", "uid": UID, "generation": 2},
        "spec": {
            "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"},
            "login": {"passwordSecretRef": {"name": "login", "key": "password"}},
        },
    });
    Case {
        instance: serde_json::from_value(value).unwrap(),
        detail: Fact::NotRead,
        login: ready("login/1"),
        account: AccountFact::AccountSession(SessionFacts {
            settle: Duration::from_secs(180),
            imports: Default::default(),
            credential: "secret/1".into(),
            former_credential: None,
            utc_offset: Offset::UTC,
            knows_our_account: false,
        }),
    }
}

/// An Instance whose server matches the spec.
fn converged() -> Case {
    let mut case = fresh();
    let record: PurchaseRecord = serde_json::from_value(json!({
        "version": 1, "cluster": "cluster", "namespace": "ns", "name": "web", "uid": UID,
        "marker": Marker::of_uid(UID).to_string(), "attempt": 1, "nonce": "n", "generation": 1, "account": "default",
        "credential": "secret/1", "package": "p", "places": ["r/z"], "id": ID,
        "target": {"image": "img-1", "passwordSecret": "login/1"}, "startedAt": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    let name = cloud_server_operator::api::names::server_name("web", &Marker::of_uid(UID));
    let detail = json!({"instanceUUID": ID, "instanceName": name, "imageResourceUUID": "img-1", "ecsStatus": "STARTED"});
    let fields = detail.as_object().cloned().unwrap();
    let meta = &mut case.instance.metadata;
    meta.annotations = Some([(BINDING.to_owned(), record.to_text())].into());
    meta.finalizers = Some(vec![FINALIZER.to_owned()]);
    case.instance.status = Some(InstanceStatus {
        id: Some(ID.to_owned()),
        attempt: 1,
        applied: Some(record.target),
        detail: fields.clone(),
        ..InstanceStatus::default()
    });
    let id = ServerId::from(ID);
    case.detail = Fact::Known(Detail { id, fields });
    case
}

impl Case {
    fn spec(mut self, change: &Value) -> Self {
        let mut spec = serde_json::to_value(&self.instance.spec).unwrap();
        json_patch::merge(&mut spec, change);
        self.instance.spec = serde_json::from_value(spec).unwrap();
        self
    }

    fn shows(mut self, field: &str, value: &str) -> Self {
        if let Fact::Known(detail) = &mut self.detail {
            detail.fields.insert(field.to_owned(), value.into());
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Status shows this operation in progress, or ended.
    fn operation(self, verb: Verb, target: &Value, end: &Value) -> Self {
        let operation = json!({
            "verb": verb, "attempt": 2, "nonce": "m", "generation": 1, "target": target, "accepted": true, "taskId": "t-2",
            "startedAt": "2026-01-01T00:00:00Z", "end": end,
        });
        self.with(|case| {
            let status = case.instance.status.as_mut().unwrap();
            status.operation = Some(serde_json::from_value(operation).unwrap());
            if let Some(reason) = end.get("reason") {
                let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60);
                let retry = json!({
                    "verb": verb, "generation": 1, "target": target, "reason": reason, "message": "no", "times": 1,
                    "notBefore": soon.to_string(),
                });
                status.retries = vec![serde_json::from_value(retry).unwrap()];
            }
            status.attempt = 2;
        })
    }

    async fn replay(self) -> Shown {
        let service = tower::service_fn(async |_: Request<Body>| {
            let body = Body::from(Vec::new());
            Ok::<_, Infallible>(Response::builder().status(404).body(body).unwrap())
        });
        let client = Client::new(service, "ns");
        let refused = Arc::default();
        let stop = CancellationToken::new();
        let context = stage::context(client, "cluster".to_owned(), refused, stop).unwrap();
        let facts = Facts::of("cluster", &unrestricted(&self.instance));
        let memory = context.memories.met(UID, &facts.key, true);
        let (mut observed, _) = observe::observe(&context, facts, &memory).await;
        observed.account = self.account;
        observed.detail = self.detail;
        observed.secret_version = Some("login/1".to_owned());
        if let LoginFact::Ready(credentials) = &self.login {
            observed.secret_version.clone_from(&credentials.secret);
        }
        observed.login = self.login;
        let mut replay = Replay::of(observed, &self.instance);
        let mut flow = replay.begin();
        for _ in 0..STEPS {
            if flow.is_continue() {
                let plan = plan(&replay.observed);
                flow = replay.step(&plan);
            }
        }
        assert!(flow.is_break(), "it ends by itself: {replay:?}");
        let (effects, notes) = replay.findings(false);
        let shown = effects.into_iter().map(|finding| {
            let head = finding.operation.or(finding.reason.map(ToOwned::to_owned));
            (
                finding.effect,
                format!("{}: {}", head.unwrap_or_default(), finding.why),
            )
        });
        (shown.collect(), notes)
    }

    /// Asserts the effects, each by verdict and a part of its line. Returns all lines.
    async fn has(self, lines: &[(Effect, &str)]) -> String {
        let (effects, notes) = self.replay().await;
        let all = format!("{effects:#?} {notes:#?}");
        let verdicts: Vec<Effect> = effects.iter().map(|(effect, _)| *effect).collect();
        let expected: Vec<Effect> = lines.iter().map(|(effect, _)| *effect).collect();
        assert_eq!(verdicts, expected, "{all}");
        for ((_, line), (_, part)) in effects.iter().zip(lines) {
            assert!(line.contains(part), "{part}: {all}");
        }
        all
    }
}

use Effect::{ErasesDisk, InPlace, NewServer, Nothing, Restart, Unknown, Waits};

#[tokio::test(start_paused = true)]
async fn all_steps_are_replayed_in_the_order_of_the_operator() {
    converged().has(&[(Nothing, "as in the file")]).await;
    let other = json!({"image": {"id": "img-2"}});
    let erased = [(ErasesDisk, "reinstall: image img-1 → img-2")];
    converged().spec(&other).has(&erased).await;
    let stop = json!({"powerState": "Stopped"});
    let stopped = [(InPlace, "stop: spec.powerState is Stopped")];
    converged().spec(&stop).has(&stopped).await;
    let token = json!({"restart": {"token": "b"}});
    let restarted = [(Restart, "spec.restart.token none → b")];
    converged().spec(&token).has(&restarted).await;
    // A reinstall counts as a restart, and is followed by a stop.
    let all = json!({"image": {"id": "img-2"}, "restart": {"token": "b"}, "powerState": "Stopped"});
    let steps = [(ErasesDisk, "reinstall"), (InPlace, "stop")];
    converged().spec(&all).has(&steps).await;
    // A server that is off is started before its password is set.
    let steps = [
        (InPlace, "start"),
        (InPlace, "this version of Secret login"),
    ];
    let edited = converged().with(|case| case.login = ready("login/2"));
    edited.shows("ecsStatus", "STOPPED").has(&steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_back_one_step_and_no_other() {
    for (policy, reason) in [
        ("OnRequest", "ReinstallNeedsApproval"),
        ("Never", "ReinstallForbidden"),
    ] {
        let held = json!({"image": {"id": "img-2"}, "reinstallPolicy": policy});
        let steps = [(InPlace, "start"), (Waits, reason)];
        converged()
            .spec(&held)
            .shows("ecsStatus", "STOPPED")
            .has(&steps)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_and_the_policy_observe_hold_back_all_steps_and_a_note_names_them() {
    for (restriction, reason) in [
        (json!({"pause": {}}), "Paused"),
        (json!({"managementPolicy": "Observe"}), "ObservedOnly"),
    ] {
        let edited = || converged().spec(&json!({"image": {"id": "img-2"}}));
        let all = edited().spec(&restriction).has(&[(Waits, reason)]).await;
        assert!(
            all.contains("held back: reinstall (ERASES THE DISK, image"),
            "{all}"
        );
        converged().spec(&restriction).has(&[(Nothing, "")]).await;
    }
    let observed = json!({"managementPolicy": "Observe"});
    fresh().spec(&observed).has(&[(Waits, "NoServer")]).await;
    fresh()
        .spec(&json!({"pause": {}}))
        .has(&[(Waits, "Paused")])
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_progress_counts_as_done() {
    let target = json!({"image": "img-2", "passwordSecret": "login/1"});
    let open = |image: &str| {
        let case = converged().operation(Verb::Reinstall, &target, &Value::Null);
        let case = case.shows("ecsPendingStatus", "REINSTALLING");
        case.spec(&json!({"image": {"id": image}}))
    };
    let all = open("img-2").has(&[(Nothing, "")]).await;
    assert!(all.contains("the reinstall in progress continues"), "{all}");
    // The detail still shows the image that the manifest goes back to.
    for image in ["img-1", "img-3"] {
        let line = format!("image img-2 → {image}");
        let all = open(image).has(&[(ErasesDisk, &line)]).await;
        assert!(
            all.contains("begin after the reinstall in progress"),
            "{all}"
        );
    }
    let busy = converged().shows("ecsPendingStatus", "BACKUP");
    let all = busy
        .spec(&json!({"powerState": "Stopped"}))
        .has(&[(InPlace, "stop")])
        .await;
    assert!(all.contains("(BACKUP)"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_after_a_failure_is_shown() {
    let target = json!({"image": "img-2", "passwordSecret": "login/1"});
    let now = jiff::Timestamp::now().to_string();
    for (reason, expected) in [
        ("Failed", &[(ErasesDisk, "img-1 → img-2")][..]),
        (
            "Refused",
            &[(ErasesDisk, "img-1 → img-2"), (Waits, "OperationRefused")],
        ),
    ] {
        let end = json!({"reason": reason, "message": "no", "times": 1, "finishedAt": now});
        let case = converged().spec(&json!({"image": {"id": "img-2"}}));
        let case = case.with(|case| case.instance.metadata.generation = Some(1));
        case.operation(Verb::Reinstall, &target, &end)
            .has(expected)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_buys_a_server_also_if_its_secret_is_missing_or_unreadable() {
    let bought = (NewServer, "create: package p in r/z, image img-1");
    fresh().has(&[bought]).await;
    let missing = Readiness::reconciling(Reason::LoginSecretNotFound, "no Secret login");
    let case = fresh().with(|case| case.login = LoginFact::Problem(missing));
    case.has(&[bought, (Waits, "no Secret login")]).await;
    let case = fresh().with(|case| case.login = LoginFact::Unread("forbidden".to_owned()));
    let all = case.has(&[bought]).await;
    assert!(all.contains("forbidden"), "{all}");
    let generated = json!({"login": {"passwordSecretRef": null, "generate": {}}});
    let case = fresh()
        .spec(&generated)
        .with(|case| case.login = LoginFact::Missing);
    case.has(&[(InPlace, "a password is generated in Secret"), bought])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_could_not_be_read_counts_as_status_shows_it() {
    let away = |case: Case| {
        case.with(|case| {
            case.account = AccountFact::NotFound;
            case.detail = Fact::NotRead;
        })
    };
    let all = away(converged()).has(&[(Nothing, "")]).await;
    assert!(
        all.contains("as status shows it, because server ecs-1 could not be read"),
        "{all}"
    );
    let edited = converged().spec(&json!({"image": {"id": "img-2"}}));
    away(edited).has(&[(ErasesDisk, "img-1 → img-2")]).await;
    let unseen = converged().with(|case| case.instance.status = None);
    away(unseen)
        .has(&[(Unknown, "there is no Account default")])
        .await;
    away(fresh()).has(&[(Waits, "AccountNotFound")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_bought_again_only_if_the_spec_requests_it() {
    let gone = |policy: &str, limit: u32| {
        let spec = json!({"onExternalDeletion": policy, "recreateLimit": limit});
        converged()
            .spec(&spec)
            .with(|case| case.detail = Fact::Absent)
    };
    gone("Recreate", 1)
        .has(&[(NewServer, "create: its server is gone")])
        .await;
    // Without a listing the operator does not know yet whether the server is missing.
    gone("Fail", 1).has(&[(Unknown, "")]).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_being_deleted_and_a_foreign_server_wait() {
    let deleted = converged().with(|case| {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now());
        case.instance.metadata.deletion_timestamp = Some(now);
    });
    deleted.has(&[(Waits, "is being deleted")]).await;
    let renamed = converged().shows("instanceName", "other");
    let edited = renamed.spec(&json!({"image": {"id": "img-2"}}));
    edited.has(&[(Waits, "NameDiffers")]).await;
    let drifted = converged().shows("imageResourceUUID", "img-9");
    let all = drifted.has(&[(Nothing, "")]).await;
    assert!(all.contains("img-9"), "{all}");
}
