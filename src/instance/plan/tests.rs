//! One row of the way at a time: an observation in, a step and a reason out.

mod pursue;
mod want;

use super::*;
use crate::api::conditions::State;
use crate::api::{Before, Instance, InstanceStatus, Marker, OpenOperation, Verb};
use crate::cloud::{Detail, Login, TaskId, TaskState};
use crate::instance::facts::Facts;
use crate::instance::login::{Credentials, LoginFact};
use crate::instance::memory::{Attempt, Doubts, Gone, Memories, Memory, Post, ReleaseCall, open};
use crate::instance::observe::Fact;
use crate::inventory::testing;
use crate::runtime::watch::ObjectKey;
use jiff::Timestamp;
use serde_json::json;

const SETTLE: Duration = Duration::from_secs(180);
const UID: &str = "0d1c9d4e-0000-4000-8000-000000000001";
const ID: &str = "ecs-1";

/// An observation that is changed step by step.
struct Scene(Observation);

impl Scene {
    /// An object that appeared a moment ago, an Account that works, a listing nobody has read.
    fn fresh() -> Self {
        Self::of(&instance(), true)
    }

    fn of(instance: &Instance, born_here: bool) -> Self {
        let facts = Facts::of("cluster", instance);
        let memories = Memories::default();
        memories.saw(UID, &facts.key, born_here);
        let mut memory = open(&memories.get(UID).unwrap()).clone();
        let now = Instant::now();
        memory.meet(facts.binding(), Doubts::default(), now);
        Self(Observation {
            facts,
            account: AccountFact::Seat(SeatFacts {
                settle: SETTLE,
                credential: "secret/1".into(),
                shown_ours: false,
            }),
            listing: Some(Listing::of(testing::view(None, None))),
            task: Fact::NotAsked,
            following: None,
            account_key: ObjectKey {
                namespace: "ns".into(),
                name: "default".into(),
            },
            detail: Fact::NotAsked,
            secret_version: Some("login/1".into()),
            login: LoginFact::Ready(Credentials {
                login: Login::Password("Abcdef1!".into()),
                secret: Some("login/1".into()),
                digest: Some([1; 32]),
            }),
            memory,
            now,
            wall: Timestamp::UNIX_EPOCH,
        })
    }

    /// The same object with a record, written by this process.
    fn recorded(id: Option<&str>, change: impl FnOnce(&mut Binding)) -> Self {
        let mut binding = binding();
        binding.id = id.map(ToOwned::to_owned);
        change(&mut binding);
        let mut instance = instance();
        instance.metadata.finalizers = Some(vec![crate::api::names::FINALIZER.into()]);
        instance.metadata.annotations =
            Some([(crate::api::names::BINDING.to_owned(), binding.to_text())].into());
        Self::of(&instance, true)
    }

    /// A server that was bought and seen, long ago.
    fn converged() -> Self {
        let mut scene = Self::recorded(Some(ID), |binding| binding.task = Some("t-1".into()));
        let mut status = InstanceStatus {
            id: Some(ID.into()),
            ..InstanceStatus::default()
        };
        status.detail = detail(&[]).fields;
        status.history = vec![HistoryEntry {
            verb: Verb::Create,
            attempt: 1,
            succeeded: true,
            reason: None,
            message: None,
            started_at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
            finished_at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                Timestamp::UNIX_EPOCH,
            ),
        }];
        scene.0.facts.status = status.into();
        scene
    }

    fn with(mut self, change: impl FnOnce(&mut Observation)) -> Self {
        change(&mut self.0);
        self
    }

    fn memory(self, change: impl FnOnce(&mut Memory)) -> Self {
        self.with(|seen| change(&mut seen.memory))
    }

    fn post(self, post: Post) -> Self {
        let nonce = self.0.facts.binding().unwrap().nonce.clone();
        self.memory(|memory| {
            let since = memory.first_seen;
            memory.attempts.insert(
                1,
                Attempt {
                    nonce,
                    account: "default".into(),
                    verb: Verb::Create,
                    is_own: true,
                    tries: 1,
                    since,
                    post,
                },
            );
        })
    }

    /// Two listings that began after this much more time, and show these servers.
    fn listed(self, after: Duration, servers: &[(&str, &str)]) -> Self {
        self.with(|seen| {
            let began = seen.now + after + Duration::from_secs(1);
            let rows = || servers.iter().map(|(id, name)| row(id, name)).collect();
            let count = u64::try_from(servers.len()).ok();
            let first = testing::pass(began, rows(), count);
            let second = testing::pass(began + Duration::from_secs(5), rows(), count);
            seen.listing = Some(Listing::of(testing::view(Some(first), Some(second))));
            seen.now = began + Duration::from_secs(10);
        })
    }

    fn deleting(self) -> Self {
        self.with(|seen| seen.facts.deleting = true)
    }

    fn plan(&self) -> Plan {
        plan(&self.0)
    }
}

fn instance() -> Instance {
    serde_json::from_value(json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "ns", "uid": UID, "resourceVersion": "7", "generation": 1},
        "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"},
                 "firewall": {"id": "fw-1"}, "login": {"passwordSecretRef": {"name": "s", "key": "k"}}},
    }))
    .unwrap()
}

fn binding() -> Binding {
    Binding {
        cluster: "cluster".into(),
        namespace: "ns".into(),
        name: "web".into(),
        uid: UID.into(),
        marker: Marker::of_uid(UID),
        attempt: 1,
        nonce: "n1".into(),
        id: None,
        task: None,
        operation: OpenOperation {
            verb: Verb::Create,
            started_at: Timestamp::UNIX_EPOCH,
            generation: 1,
            uid: UID.into(),
            target: Applied {
                image: "img-1".into(),
                key: None,
                password_secret: Some("login/1".into()),
                restart: None,
                reinstall: None,
            },
            before: Before::default(),
        },
        package: "p".into(),
        firewall: "fw-1".into(),
        unfinished: None,
        places: vec!["r/z".into()],
        lost: 0,
        failed: 0,
        account: "default".into(),
        credential: "secret/1".into(),
    }
}

fn ours() -> String {
    format!("web-{}", Marker::of_uid(UID))
}

fn row(id: &str, name: &str) -> Map<String, Value> {
    let row = json!({"ecsResourceUUID": id, "instanceName": name, "ecsStatus": "STARTED",
        "ecsPendingStatus": "NONE", "imageResourceUUID": "img-1"});
    row.as_object().cloned().unwrap()
}

fn detail(changes: &[(&str, &str)]) -> Detail {
    let mut fields = row(ID, &ours());
    for (field, value) in changes {
        fields.insert((*field).to_owned(), json!(value));
    }
    Detail {
        id: ServerId::from(ID),
        fields,
    }
}

fn reason(plan: &Plan) -> Option<(State, Reason)> {
    plan.tell
        .verdict
        .as_ref()
        .map(|verdict| (verdict.state, verdict.reason))
}

fn rests(plan: &Plan) -> bool {
    matches!(plan.step, Step::Rest)
}

/// The attempt that a plan announces.
fn announced(plan: &Plan) -> Option<&Binding> {
    match &plan.step {
        Step::Call {
            binding,
            announce: true,
            ..
        } => Some(binding),
        _ => None,
    }
}

#[test]
fn an_object_born_before_our_eyes_is_bought_for_without_a_look() {
    let plan = Scene::fresh().plan();
    let binding = announced(&plan).unwrap();
    assert_eq!((binding.attempt, binding.lost, binding.failed), (1, 0, 0));
    assert_eq!(binding.places, ["r/z"]);
    let Step::Call { request, .. } = &plan.step else {
        unreachable!()
    };
    let Request::Create(request) = &**request else {
        unreachable!()
    };
    assert_eq!(request.name, ours());
}

#[test]
fn an_object_that_was_there_before_us_needs_one_listing_without_its_marker() {
    let scene = Scene::of(&instance(), false);
    assert!(rests(&scene.plan()));
    assert_eq!(scene.plan().wants.passes, 1);
    let scene = scene.listed(Duration::ZERO, &[("ecs-9", "other")]);
    assert_eq!(announced(&scene.plan()).unwrap().attempt, 1);
}

#[test]
fn a_server_with_our_marker_is_recorded_and_not_bought_again() {
    let scene = Scene::of(&instance(), false).listed(Duration::ZERO, &[(ID, &ours())]);
    let plan = scene.plan();
    let Step::Record { binding } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(binding.id.as_deref(), Some(ID));
    assert_eq!(binding.lost, 1, "its request may have been doubled");
}

#[test]
fn a_login_that_cannot_be_used_buys_nothing_and_says_why() {
    let verdict = Verdict::reconciling(Reason::LoginSecretNotFound, "no Secret");
    let scene = Scene::fresh().with(|seen| seen.login = LoginFact::Problem(verdict));
    assert!(rests(&scene.plan()));
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Reconciling, Reason::LoginSecretNotFound))
    );
}

#[test]
fn a_server_that_status_knew_and_nobody_lists_is_not_bought_again() {
    let scene = Scene::fresh().with(|seen| {
        seen.facts.status = InstanceStatus {
            id: Some(ID.into()),
            ..InstanceStatus::default()
        }
        .into();
    });
    assert!(
        rests(&scene.plan()),
        "something was bought once: look first"
    );
    let scene = scene.listed(SETTLE, &[]);
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Stalled, Reason::ServerMissing))
    );
}

#[test]
fn a_lost_answer_settles_before_anything_is_bought_again() {
    let lost = || Scene::recorded(None, |_| {}).post(Post::Unknown);
    assert_eq!(
        reason(&lost().plan()),
        Some((State::Reconciling, Reason::CreateUnconfirmed))
    );
    let early = lost().listed(Duration::from_secs(10), &[]);
    assert!(
        rests(&early.plan()),
        "two passes before the settling time prove nothing"
    );
    let late = lost().listed(SETTLE, &[("ecs-9", "other")]);
    let plan = late.plan();
    let binding = announced(&plan).unwrap();
    assert_eq!((binding.attempt, binding.lost), (2, 1));
}

#[test]
fn a_lost_answer_whose_server_shows_up_is_adopted_at_once() {
    let scene = Scene::recorded(None, |_| {})
        .post(Post::Unknown)
        .listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    let plan = scene.plan();
    let Step::Record { binding } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (binding.id.as_deref(), binding.attempt, binding.lost),
        (Some(ID), 1, 1)
    );
}

#[test]
fn an_empty_listing_of_another_account_proves_nothing() {
    let scene = Scene::recorded(None, |binding| binding.credential = "secret/old".into())
        .post(Post::Unknown)
        .listed(SETTLE, &[]);
    assert!(rests(&scene.plan()));
    let shown = scene.with(|seen| {
        let AccountFact::Seat(seat) = &mut seen.account else {
            unreachable!()
        };
        seat.shown_ours = true;
    });
    assert!(
        announced(&shown.plan()).is_some(),
        "this token has shown a server of ours"
    );
}

#[test]
fn a_refused_call_is_repeated_in_its_time_without_a_new_record() {
    let refusal = Post::Refused {
        message: "no such image".into(),
        reason: Reason::CreateRefused,
    };
    let scene = Scene::recorded(None, |_| {}).post(refusal.clone());
    let waits = |scene: Scene| {
        scene.with(|seen| seen.memory.not_before = Some(seen.now + Duration::from_secs(8)))
    };
    let waiting = waits(scene);
    assert!(rests(&waiting.plan()));
    assert_eq!(
        reason(&waiting.plan()),
        Some((State::Stalled, Reason::CreateRefused))
    );
    let due = waiting.with(|seen| seen.now += Duration::from_secs(8));
    assert!(matches!(
        due.plan().step,
        Step::Call {
            announce: false,
            ..
        }
    ));
    let edited =
        waits(Scene::recorded(None, |_| {}).post(refusal)).with(|seen| seen.facts.generation = 2);
    let plan = edited.plan();
    assert_eq!(
        announced(&plan).map(|b| (b.attempt, b.lost)),
        Some((2, 0)),
        "a mended spec does not wait"
    );
}

#[test]
fn a_receipt_that_was_not_written_comes_before_everything() {
    let given = Post::Accepted {
        id: ServerId::from(ID),
        task: Some(TaskId::from("t-1")),
    };
    for scene in [
        Scene::recorded(None, |_| {}).post(given.clone()),
        Scene::fresh().memory(|memory| {
            let since = memory.first_seen;
            memory.attempts.insert(
                1,
                Attempt {
                    nonce: "n1".into(),
                    account: "default".into(),
                    verb: Verb::Create,
                    is_own: true,
                    tries: 1,
                    since,
                    post: given,
                },
            );
        }),
    ] {
        let plan = scene.plan();
        let Step::Record { binding } = &plan.step else {
            panic!("{plan:?}")
        };
        assert_eq!(binding.id.as_deref(), Some(ID));
        assert_eq!(binding.task.as_deref(), Some("t-1"));
    }
}

#[test]
fn a_running_create_is_followed_and_done_only_when_task_and_detail_agree() {
    let scene = |task, detail| {
        Scene::recorded(Some(ID), |binding| binding.task = Some("t-1".into())).with(|seen| {
            seen.task = task;
            seen.detail = detail;
        })
    };
    let at_rest = || Fact::Known(detail(&[]));
    for (task, found, ready) in [
        (Fact::NotAsked, Fact::NotAsked, false),
        (Fact::Known(TaskState::Running), Fact::NotAsked, false),
        (
            Fact::Known(TaskState::Unknown { word: "ODD".into() }),
            Fact::NotAsked,
            false,
        ),
        (Fact::Known(TaskState::Succeeded), Fact::Absent, false),
        (
            Fact::Known(TaskState::Succeeded),
            Fact::Unknown("x".into()),
            false,
        ),
        (Fact::Unknown("x".into()), Fact::NotAsked, false),
        (
            Fact::Absent,
            Fact::Known(detail(&[("ecsPendingStatus", "CREATING")])),
            false,
        ),
        (Fact::Known(TaskState::Succeeded), at_rest(), true),
        (Fact::Absent, at_rest(), true),
    ] {
        let plan = scene(task.clone(), found.clone()).plan();
        assert!(rests(&plan));
        let (state, _) = reason(&plan).unwrap();
        assert_eq!(state == State::Ready, ready, "{task:?} {found:?}");
        assert_eq!(plan.tell.ended.is_some(), ready);
    }
}

#[test]
fn a_failed_create_is_told_cleaned_up_and_tried_again() {
    let failed = Fact::Known(TaskState::Failed {
        reason: Some("no host".into()),
    });
    let scene = Scene::recorded(Some(ID), |binding| binding.task = Some("t-1".into()))
        .with(|seen| seen.task = failed);
    let plan = scene.plan();
    assert_eq!(
        reason(&plan),
        Some((State::Reconciling, Reason::CreateFailed))
    );
    assert!(
        plan.tell
            .verdict
            .as_ref()
            .unwrap()
            .message
            .contains("no host")
    );
    assert_eq!(
        plan.tell.ended.as_ref().map(|entry| entry.succeeded),
        Some(false)
    );

    let told = scene.with(|seen| {
        let mut status = InstanceStatus::clone(&seen.facts.status);
        status.history = plan.tell.ended.clone().into_iter().collect();
        seen.facts.status = status.into();
    });
    let left_behind = told.with(|seen| seen.detail = Fact::Known(detail(&[])));
    assert!(
        matches!(&left_behind.plan().step, Step::Release { why: ReleaseReason::Failed, id } if id.as_str() == ID)
    );

    let gone = left_behind
        .with(|seen| seen.detail = Fact::Absent)
        .memory(|memory| {
            memory
                .gone
                .insert(ServerId::from(ID), (Gone::NotFound, memory.first_seen));
        })
        .listed(Duration::ZERO, &[]);
    let plan = gone.plan();
    assert_eq!(
        announced(&plan).map(|b| (b.attempt, b.failed, b.id.clone())),
        Some((2, 1, None))
    );
}

#[test]
fn what_the_listing_shows_unchanged_is_left_alone() {
    let scene = Scene::converged().listed(Duration::ZERO, &[(ID, &ours())]);
    let plan = scene.plan();
    assert!(rests(&plan));
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    assert!(plan.tell.detail.is_none());
    assert_eq!(plan.wants, Wants::default());
}

#[test]
fn the_server_is_judged_by_what_it_shows() {
    let judged = |changes: &[(&str, &str)]| {
        let found = Fact::Known(detail(changes));
        reason(&Scene::converged().with(|seen| seen.detail = found).plan()).unwrap()
    };
    assert_eq!(judged(&[]), (State::Ready, Reason::Available));
    assert_eq!(
        judged(&[("imageResourceUUID", "img-2")]),
        (State::Drifted, Reason::ImageDiffers)
    );
    assert_eq!(
        judged(&[("ecsStatus", "STOPPED")]),
        (State::Reconciling, Reason::Starting)
    );
    assert_eq!(
        judged(&[("instanceName", "renamed")]),
        (State::Drifted, Reason::NameDiffers)
    );
    assert_eq!(
        judged(&[("ecsStatus", "MELTED")]),
        (State::Drifted, Reason::PowerStateDiffers)
    );
    assert_eq!(
        judged(&[("ecsPendingStatus", "RESTARTING")]),
        (State::Reconciling, Reason::OperationPending)
    );
}

#[test]
fn a_recorded_server_that_is_missing_is_reported_and_not_bought_again() {
    let missing = Scene::converged()
        .listed(SETTLE, &[])
        .with(|seen| seen.detail = Fact::Absent);
    assert_eq!(
        reason(&missing.plan()),
        Some((State::Stalled, Reason::ServerMissing))
    );
    assert!(rests(&missing.plan()));
    let unread = Scene::converged()
        .listed(SETTLE, &[])
        .with(|seen| seen.detail = Fact::Unknown("503".into()));
    assert_eq!(reason(&unread.plan()), None, "a listing alone says nothing");
    let foreign = Scene::recorded(Some(ID), |binding| binding.credential = "secret/old".into());
    let mut foreign = foreign
        .listed(SETTLE, &[])
        .with(|seen| seen.detail = Fact::Absent);
    foreign.0.facts.status = Scene::converged().0.facts.status;
    assert_eq!(
        reason(&foreign.plan()),
        Some((State::Reconciling, Reason::ServerUnobserved)),
        "the token may be another account's"
    );
}

#[test]
fn a_surplus_server_is_released_only_beside_the_recorded_one() {
    let both = Scene::converged().listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    assert!(
        matches!(&both.plan().step, Step::Release { why: ReleaseReason::Surplus, id } if id.as_str() == "ecs-2")
    );
    let alone = Scene::converged().listed(Duration::ZERO, &[("ecs-2", &ours())]);
    assert!(rests(&alone.plan()), "it may be the last one");
}

#[test]
fn an_object_that_is_deleted_before_anything_was_recorded_is_held_by_nobody() {
    assert!(rests(&Scene::fresh().deleting().plan()));
}

#[test]
fn deletion_releases_then_proves_then_lets_go() {
    let scene = || {
        Scene::converged()
            .post(Post::Accepted {
                id: ServerId::from(ID),
                task: Some(TaskId::from("t-1")),
            })
            .deleting()
    };
    assert!(
        matches!(&scene().plan().step, Step::Release { why: ReleaseReason::Deleted, id } if id.as_str() == ID)
    );

    let called = scene().memory(|memory| {
        let at = memory.first_seen;
        let call = ReleaseCall {
            at,
            task: Some(TaskId::from("t-2")),

            accepted: true,
            trouble: None,
            not_before: None,
        };
        memory.releases.insert(ServerId::from(ID), call);
    });
    assert!(rests(&called.plan()));
    assert_eq!(
        reason(&called.plan()),
        Some((State::Reconciling, Reason::Releasing))
    );

    let gone = called.memory(|memory| {
        memory
            .gone
            .insert(ServerId::from(ID), (Gone::Released, memory.first_seen));
    });
    assert!(
        rests(&gone.plan()),
        "its task says so; the listings have not"
    );
    assert_eq!(gone.plan().wants.passes, 2);
    let listed = gone.listed(Duration::ZERO, &[("ecs-9", "other")]);
    assert!(
        matches!(listed.plan().step, Step::Finish),
        "every attempt has its receipt: no settling time"
    );
}

#[test]
fn deletion_after_a_lost_answer_waits_for_the_settling_time() {
    let scene = Scene::recorded(None, |_| {}).post(Post::Unknown).deleting();
    let early = scene.listed(Duration::ZERO, &[]);
    assert!(
        rests(&early.plan()),
        "a late execution would leave an orphan"
    );
    let late = Scene::recorded(None, |_| {})
        .post(Post::Unknown)
        .deleting()
        .listed(SETTLE, &[]);
    assert!(matches!(late.plan().step, Step::Finish));
    let found = Scene::recorded(None, |_| {})
        .post(Post::Unknown)
        .deleting()
        .listed(SETTLE, &[(ID, &ours())]);
    assert!(matches!(&found.plan().step, Step::Release { id, .. } if id.as_str() == ID));
}

#[test]
fn a_doubled_request_is_found_when_the_object_is_deleted() {
    let scene = Scene::converged()
        .deleting()
        .memory(|memory| {
            memory
                .gone
                .insert(ServerId::from(ID), (Gone::Released, memory.first_seen));
        })
        .listed(Duration::ZERO, &[("ecs-2", &ours())]);
    assert!(matches!(&scene.plan().step, Step::Release { id, .. } if id.as_str() == "ecs-2"));
}

#[test]
fn not_found_by_a_token_that_may_be_another_accounts_releases_nothing_for_good() {
    let mut scene = Scene::recorded(Some(ID), |binding| {
        binding.task = Some("t-1".into());
        binding.credential = "secret/old".into();
    });
    scene.0.facts.status = Scene::converged().0.facts.status;
    let scene = scene
        .deleting()
        .memory(|memory| {
            memory
                .gone
                .insert(ServerId::from(ID), (Gone::NotFound, memory.first_seen));
        })
        .listed(SETTLE, &[]);
    assert!(rests(&scene.plan()));
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Reconciling, Reason::ReleaseUnconfirmed))
    );
}

#[test]
fn without_an_account_a_seen_server_stays_as_it_was_seen() {
    let away =
        |scene: Scene| scene.with(|seen| seen.account = AccountFact::NotFound("default".into()));
    assert_eq!(
        reason(&away(Scene::fresh()).plan()),
        Some((State::Reconciling, Reason::AccountNotFound))
    );
    let seen = Scene::converged().with(|seen| {
        let status = InstanceStatus {
            observed_generation: 1,
            ..InstanceStatus::clone(&seen.facts.status)
        };
        seen.facts.status = status.into();
    });
    assert_eq!(reason(&away(seen).plan()), None);
}

#[test]
fn an_edited_record_stops_everything() {
    let mut scene = Scene::converged();
    scene.0.facts.record = Record::Invalid("edited".into());
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Stalled, Reason::BindingInvalid))
    );
    assert!(rests(&scene.plan()));
    let deleting = scene.deleting();
    assert!(
        rests(&deleting.plan()),
        "what is not known to be ours is not released"
    );
}

#[test]
fn a_key_is_made_of_namespace_and_name() {
    let facts = Scene::fresh().0.facts;
    assert_eq!(
        facts.key,
        ObjectKey {
            namespace: "ns".into(),
            name: "web".into()
        }
    );
}

#[test]
fn a_listing_from_before_the_purchase_does_not_make_the_server_missing() {
    let scene = Scene::converged()
        .listed(Duration::ZERO, &[])
        .memory(|memory| {
            memory.looked = Some(memory.first_seen + Duration::from_secs(30));
            memory.led_by = Some(0);
        });
    assert!(rests(&scene.plan()));
    let available = (State::Ready, Reason::Available);
    assert_eq!(
        reason(&scene.plan()),
        Some(available),
        "the detail showed it since"
    );
}
