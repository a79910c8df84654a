//! How GitOps tools judge an object, at every moment of every verb: the library of Flux (kstatus) and the interpreter of Argo
//! CD with our health checks read each state of an object that could be read. The service's true state shows whether they are
//! right.
//!
//! * Never current while an operation runs, or while an edit is not carried out.
//! * Failed while human action is needed, and at no other time.

use crate::apiserver::{ACCOUNTS, INSTANCES};
use crate::fault::Act::{CrashAfter, LoseAnswer};
use crate::fault::Dependency::Service;
use crate::fault::Kind;
use crate::fault::Step::{
    Acknowledge, Answers, ApplyAccount, Back, ConsoleRebuild, Delete, EditImage, EditPower,
    Reinstall, Restart, RotatePassword, Spec, TasksFail,
};
use crate::judges::{self, Verdict};
use crate::named::play::{Play, one};
use crate::run::{Recording, run};
use crate::specs::{goes_on, paused, reinstalls};
use crate::universe::Moment;
use cloud_simulator::catalogue::example;
use serde_json::{Value, json};
use std::time::Duration;

/// Seeds vary the network's delays and the watches.
const SEEDS: u64 = 3;
/// The operator reports within this time that human action is needed.
const REPORTED_WITHIN: Duration = Duration::from_secs(60);
/// An action at the console shows only at the next read of the server, and an idle server is read this rarely.
const READ_WITHIN: Duration = Duration::from_secs(700);
/// A Secret is not part of the object, so its edit shows in status only after the watch event and a reconcile.
const RECONCILED_WITHIN: Duration = Duration::from_secs(1);

/// A schedule, and when it needs human action.
struct Scene {
    play: Play,
    /// Whether human action is needed.
    needs_human: fn(&Moment) -> bool,
    /// How soon status must show that.
    within: Duration,
}

fn scene(play: Play) -> Scene {
    Scene {
        play,
        needs_human: |_| false,
        within: REPORTED_WITHIN,
    }
}

impl Scene {
    fn needs(mut self, needs_human: fn(&Moment) -> bool) -> Self {
        self.needs_human = needs_human;
        self
    }

    fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// A moment with the verdict of each judge.
struct Judged {
    moment: Moment,
    flux: Verdict,
    argo: Verdict,
}

/// Plays a scene, and has every moment judged.
fn judged(scene: &Scene, seed: u64) -> Vec<Judged> {
    let mut schedule = scene.play.schedule.clone();
    schedule.setting.seed = seed;
    let outcome = run(&schedule, Recording::Moments);
    assert_eq!(outcome.violations, [""; 0], "seed {seed}");
    assert_eq!(outcome.unmet, [""; 0], "seed {seed}");
    let objects: Vec<Value> = outcome.moments.iter().map(|m| m.object.clone()).collect();
    let flux = judges::kstatus(&objects);
    let argo = judges::argocd(&judges::contributed(), &objects);
    let verdicts = flux.into_iter().zip(argo);
    let all = outcome.moments.into_iter().zip(verdicts);
    all.map(|(moment, (flux, argo))| Judged { moment, flux, argo })
        .collect()
}

/// The verdicts for one kind of object, without repetitions.
fn verdicts<'a>(all: &'a [Judged], kind: &str) -> Vec<&'a str> {
    let of_kind = all.iter().filter(|one| one.moment.key.0 == kind);
    let mut verdicts: Vec<&str> = of_kind.map(|one| one.flux.status.as_str()).collect();
    verdicts.dedup();
    verdicts
}

/// A token of the spec, and how often its action had been carried out before.
#[derive(Default)]
struct RequestToken {
    token: Value,
    before: usize,
}

impl RequestToken {
    /// Whether the action of the newest token has not been carried out yet.
    fn is_open(&mut self, token: &Value, done: usize) -> bool {
        if self.token != *token {
            self.token = token.clone();
            self.before = done;
        }
        !token.is_null() && done <= self.before
    }
}

/// The wrong verdicts for an Instance.
fn wrong_of_instance(scene: &Scene, all: &[&Judged]) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut restart, mut reinstall) = (RequestToken::default(), RequestToken::default());
    let mut unreported_since = None;
    for (nth, one) in all.iter().enumerate() {
        let moment = &one.moment;
        let (spec, truth) = (&moment.object["spec"], &moment.truth);
        let mut is_requested = restart.is_open(&spec["restart"]["token"], truth.restarted);
        is_requested |= reinstall.is_open(&spec["reinstall"]["token"], truth.erased);
        let needs = (scene.needs_human)(moment);
        let is_deleted = moment.object["metadata"]["deletionTimestamp"].is_string();
        let why = match one.flux.status.as_str() {
            "Terminating" => (!is_deleted).then(|| "no user deleted it".to_owned()),
            _ if is_deleted => Some("it is being deleted".to_owned()),
            "Current" => scene.is_not_current(moment, is_requested),
            "Failed" => (!needs).then(|| "no human action is needed".to_owned()),
            _ => None,
        };
        let is_reported = one.flux.status == "Failed" || is_deleted;
        // A retry is in progress again.
        unreported_since = (needs && !is_reported).then(|| unreported_since.unwrap_or(moment.at));
        let until = all.get(nth + 1).map(|next| next.moment.at);
        let is_late = |since| until.is_none_or(|until| until > since + scene.within);
        let is_unreported = unreported_since.is_some_and(is_late);
        let missing = is_unreported.then(|| "human action is needed".to_owned());
        wrong.extend(why.or(missing).map(|why| one.about(&why)));
    }
    wrong
}

impl Scene {
    /// The reason why an Instance that is judged as current is not.
    fn is_not_current(&self, moment: &Moment, is_requested: bool) -> Option<String> {
        let truth = &moment.truth;
        if let Some(verb) = truth.running.first() {
            return Some(format!("a {verb} runs"));
        }
        // The operator cannot know of an action at the console before the next read.
        let is_drift = self.within == READ_WITHIN && (self.needs_human)(moment);
        if let Some(lacks) = truth.lacks.filter(|_| !is_drift) {
            return Some(lacks.to_owned());
        }
        if is_requested {
            return Some("a token asks for what was not done".to_owned());
        }
        let steps = self.play.schedule.steps.iter();
        let mut edits = steps.filter(|timed| timed.step == RotatePassword);
        let late = self.play.schedule.watch_delay + RECONCILED_WITHIN;
        let is_new = |at: Duration| (at..=at + late).contains(&moment.at);
        let is_unread = edits.any(|timed| is_new(timed.after()));
        (truth.has_old_password && !is_unread).then(|| "it has the old password".to_owned())
    }

    /// Plays the scene under several seeds. The verdicts of kstatus for the Account and for the Instance must be these, in
    /// order.
    fn shows(self, account: &[&str], instance: &[&str]) {
        for seed in 1..=SEEDS {
            let all = judged(&self, seed);
            let of = |kind| all.iter().filter(move |one| one.moment.key.0 == kind);
            let mut wrong = wrong_of_instance(&self, &of(INSTANCES).collect::<Vec<_>>());
            wrong.extend(all.iter().filter_map(Judged::is_unlike));
            let current = of(ACCOUNTS).filter(|one| one.flux.status == "Current");
            let unasked = current.filter(|one| !one.moment.truth.has_answered);
            wrong.extend(unasked.map(|one| one.about("the service has not answered")));
            let shown = (verdicts(&all, ACCOUNTS), verdicts(&all, INSTANCES));
            let expected = (account.to_vec(), instance.to_vec());
            let few = &wrong[..wrong.len().min(3)];
            assert!(
                wrong.is_empty() && shown == expected,
                "seed {seed}, {} moments: {shown:?}, expected {expected:?}; {} wrong: {few:#?}",
                all.len(),
                wrong.len()
            );
        }
    }
}

impl Judged {
    fn about(&self, why: &str) -> String {
        let (moment, conditions) = (&self.moment, &self.moment.object["status"]["conditions"]);
        let (flux, truth) = (&self.flux.status, &moment.truth);
        format!(
            "{flux} at {:?}, but {why}: {conditions}, {truth:?}",
            moment.at
        )
    }

    /// The reason if the judges disagree. Only Argo CD recognizes a pause.
    fn is_unlike(&self) -> Option<String> {
        let conditions = self.moment.object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let is_paused = ready.is_some_and(|ready| ready["reason"] == "Paused");
        let is_behind = self.moment.object["status"]["observedGeneration"]
            != self.moment.object["metadata"]["generation"];
        let expected = match self.flux.status.as_str() {
            "Current" => "Healthy",
            "Failed" => "Degraded",
            "InProgress" if is_paused && !is_behind => "Suspended",
            _ => "Progressing",
        };
        let argo = &self.argo.status;
        (argo != expected).then(|| self.about(&format!("Argo CD reports {argo}")))
    }
}

/// The verdicts from a change of the desired state to its completion.
const DONE: [&str; 2] = ["InProgress", "Current"];

/// A life in which each verb is requested once the previous one is complete.
fn life(tasks: u64) -> Play {
    one()
        .tasks(tasks)
        .at(60_000, EditImage(1))
        .at(120_000, RotatePassword)
        .at(180_000, EditPower(1))
        .at(240_000, EditPower(1))
        .at(300_000, Restart(1))
        .at(360_000, Reinstall(1))
        .at(420_000, Delete(1))
}

fn image_of(moment: &Moment) -> &Value {
    &moment.object["spec"]["image"]["id"]
}

const NO_IMAGE: &str = "img-nosuchimage";

#[test]
fn every_verb_is_in_progress_until_it_is_done() {
    // Tasks that end between two polls, and tasks that are polled many times.
    for tasks in [0, 8] {
        let verbs = [&DONE; 7].map(|done| done.to_vec()).concat();
        let instance = [&verbs[..], &["Terminating"]].concat();
        scene(life(tasks)).shows(&DONE, &instance);
    }
}

#[test]
fn an_edit_is_in_progress_although_every_watch_is_late() {
    let late = scene(life(8).stale(20));
    let verbs = [&DONE; 7].map(|done| done.to_vec()).concat();
    late.shows(&DONE, &[&verbs[..], &["Terminating"]].concat());
}

#[test]
fn a_refused_create_has_failed_until_a_user_fixes_it() {
    let fixed = json!({"image": {"id": example().image}});
    let refused = one().spec(json!({"image": {"id": NO_IMAGE}}));
    scene(refused.at(300_000, Spec(1, fixed)))
        .needs(|now| image_of(now) == NO_IMAGE && now.truth.refused > 0)
        .shows(&DONE, &["InProgress", "Failed", "InProgress", "Current"]);
}

#[test]
fn a_reinstall_of_unknown_outcome_has_failed_until_a_user_decides() {
    let lost = one().at(60_000, Reinstall(1));
    let lost = lost.on(Kind::Reinstall, 1, CrashAfter);
    scene(lost.at(300_000, Reinstall(1)))
        .needs(|now| {
            let is_first = now.object["spec"]["reinstall"]["token"] == "token-1";
            is_first && now.truth.reinstalls == 1
        })
        .shows(
            &DONE,
            &[&DONE[..], &["InProgress", "Failed"], &DONE].concat(),
        );
}

#[test]
fn an_operation_that_fails_again_and_again_has_failed_until_it_succeeds() {
    let failing = one().at(60_000, TasksFail(true)).at(61_000, EditImage(1));
    scene(failing.at(1_000_000, TasksFail(false)))
        .needs(|now| now.truth.failed >= 3 && now.truth.lacks.is_some())
        .shows(
            &DONE,
            &[
                &DONE[..],
                &["InProgress", "Failed"],
                &["InProgress", "Failed"],
                &DONE,
            ]
            .concat(),
        );
}

#[test]
fn a_reinstall_that_waits_for_consent_has_failed_until_it_is_given() {
    let asks = one().spec(reinstalls("OnRequest"));
    let asks = asks.at(60_000, EditImage(1));
    scene(asks.at(300_000, Acknowledge(1)))
        .needs(|now| {
            let acknowledged = &now.object["spec"]["reinstall"]["image"];
            now.truth.lacks == Some("another image") && acknowledged != image_of(now)
        })
        .shows(
            &DONE,
            &[&DONE[..], &["InProgress", "Failed"], &DONE].concat(),
        );
}

#[test]
fn a_drift_that_only_a_user_may_resolve_has_failed_once_it_is_seen() {
    let drifted = one().at(60_000, ConsoleRebuild(1));
    let accepted = json!({"image": {"id": example().windows_image}});
    scene(drifted.at(1_500_000, Spec(1, accepted)))
        .needs(|now| now.truth.lacks == Some("another image"))
        .within(READ_WITHIN)
        .shows(&DONE, &[&DONE[..], &["Failed"], &DONE].concat());
}

#[test]
fn a_create_without_an_answer_is_in_progress() {
    let lost = one().on(Kind::Create, 1, LoseAnswer);
    scene(lost).shows(&DONE, &DONE);
}

#[test]
fn a_pause_is_in_progress_for_flux_and_a_pause_for_argo() {
    let held = one().at(60_000, Spec(1, paused()));
    let held = held.at(120_000, Spec(1, goes_on()));
    scene(held).shows(&DONE, &[DONE, DONE].concat());
}

#[test]
fn a_service_that_is_away_makes_nothing_fail() {
    let away = one().at(60_000, Answers(Service, 503));
    let away = away.at(61_000, EditImage(1)).at(300_000, Back(Service));
    scene(away).shows(&[DONE, DONE].concat(), &[DONE, DONE].concat());
}

#[test]
fn objects_that_come_before_their_account_wait_for_it() {
    let mut play = one().at(60_000, ApplyAccount);
    play.schedule.setting.account_comes_later = true;
    scene(play).shows(&DONE, &DONE);
}

#[test]
fn a_token_that_the_service_refuses_is_waited_for() {
    let refused = one()
        .at(100, Answers(Service, 401))
        .at(300_000, Back(Service));
    scene(refused).shows(&[DONE, DONE].concat(), &DONE);
}
