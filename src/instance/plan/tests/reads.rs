//! Tests of the rules for reads: when the next one is due.

use super::diff::with_spec;
use super::follow::open_operation;
use super::*;
use crate::instance::memory::look::Poll;
use crate::instance::observe::reads;

/// A server that status shows as the listing does.
fn steady() -> Scene {
    let scene = Scene::converged().status(|status| {
        let address = json!("203.0.113.7");
        status.detail.insert("publicIpAddress".to_owned(), address);
    });
    scene.listed(Duration::ZERO, &[(ID, &ours())])
}

/// The listing shows another name than status.
fn renamed() -> Scene {
    steady().listed(Duration::ZERO, &[(ID, "renamed")])
}

/// The server was read in this reconcile, while the listing showed the same as now.
fn read(scene: Scene) -> Scene {
    scene.with(|observed| {
        let row = observed.listed(&ID.into()).map(|(_, row)| row);
        let look = &mut observed.memory.observations.look;
        (look.at, look.row) = (Some(observed.now), row);
        look.answer = idle(observed.now);
    })
}

fn unreadable(scene: Scene) -> Scene {
    read(scene).look(|look, _, _| look.is_unreadable = true)
}

fn requested(scene: Scene) -> Scene {
    scene.with(|observed| {
        let now = observed.now;
        observed.memory.reconcile_requested(Some("a"), None, now);
    })
}

/// The seconds until the next read.
fn next(scene: &Scene) -> Option<u64> {
    let at = reads::next_at(&scene.0)?;
    Some(at.saturating_duration_since(scene.0.now).as_secs())
}

#[test]
fn an_idle_server_is_read_when_the_listing_differs_or_a_user_requests_it() {
    let every_two_minutes = |scene| {
        with_spec(scene, |spec| {
            spec.resync_period = Some("2m".into());
        })
    };
    let busy = || {
        steady().status(|status| {
            let busy = json!("STARTING");
            status.detail.insert("ecsPendingStatus".to_owned(), busy);
        })
    };
    let absent = || steady().listed(Duration::ZERO, &[]);
    for (what, scene, expected) in [
        ("the listing agrees with status", steady(), None),
        ("it differs", renamed(), Some(0)),
        ("it differs as at the last read", read(renamed()), Some(600)),
        ("it lacks the server", absent(), Some(0)),
        (
            "it lacked the server at the last read",
            read(absent()),
            Some(600),
        ),
        ("the read failed", unreadable(renamed()), Some(20)),
        (
            "a period is specified",
            every_two_minutes(read(steady())),
            Some(120),
        ),
        ("a read is requested", requested(steady()), Some(0)),
        ("it was made", read(requested(steady())), None),
        ("it failed", unreadable(requested(steady())), Some(20)),
        (
            "the service is busy with the server",
            read(busy()),
            Some(20),
        ),
    ] {
        assert_eq!(next(&scene), expected, "{what}");
    }
}

#[test]
fn an_operation_is_followed_by_its_task_and_the_server_is_read_after_its_end() {
    let polled = |state: Option<TaskState>| {
        let open = open_operation(Verb::Restart, as_bought(), CallState::Unknown);
        open.with(|observed| {
            let now = observed.now;
            let task = TaskId::from("t-9");
            let mut poll = Poll::of(None, task, Verb::Restart, Some(now), now);
            if let Some(state) = state {
                poll.last = Some(now);
                poll.answered(Fact::Known(state), now);
            }
            observed.memory.observations.poll = Some(poll);
        })
    };
    let unknown = || TaskState::Unknown {
        word: "RETRY".into(),
    };
    for (what, scene, expected) in [
        ("no query yet", polled(None), Some(1)),
        ("it runs", polled(Some(TaskState::Running)), Some(1)),
        ("it has ended", polled(Some(TaskState::Succeeded)), Some(0)),
        ("it is inconclusive", polled(Some(unknown())), Some(0)),
        ("both are", read(polled(Some(unknown()))), Some(20)),
    ] {
        assert_eq!(next(&scene), expected, "{what}");
    }
}
