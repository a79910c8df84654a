//! Tasks that do not succeed, and the state that they leave behind.

use super::*;
use crate::readings::{FailedCreate, ReleaseWhileCreating};

#[test]
fn tasks_follow_their_script() {
    let finished = |result: &str| ("FINISHED".to_owned(), Some(result.to_owned()));
    let running = |result: Option<&str>| ("PROCESSING".to_owned(), result.map(str::to_owned));
    let word = TaskScript::UnknownWord {
        word: "PAUSED".to_owned(),
    };
    let table = [
        (
            TaskScript::Fail {
                reason: "no".into(),
            },
            vec![finished("FAIL")],
            "ERROR",
        ),
        (TaskScript::Cancel, vec![finished("CANCEL")], "ERROR"),
        (
            TaskScript::Never,
            vec![running(None), running(None)],
            "CREATING",
        ),
        (
            TaskScript::Retry,
            vec![running(Some("RETRY")), finished("SUCCESS")],
            "STARTED",
        ),
        (
            word,
            vec![("PAUSED".to_owned(), Some("PAUSED".to_owned()))],
            "STARTED",
        ),
        (
            TaskScript::Backwards,
            vec![finished("SUCCESS"), running(None), finished("SUCCESS")],
            "STARTED",
        ),
    ];
    for (script, reports, status) in table {
        let mut world = world(Readings::default());
        let request = Request::Create(create("web"));
        let (task, server) =
            accepted(world.call_scripted(at(0), Some(TOKEN), &request, script.clone()));
        for (round, report) in (1..).zip(reports) {
            assert_eq!(
                result_of(&mut world, round * 1_000, &task),
                report,
                "{script:?}"
            );
        }
        assert_eq!(world.server(&server).unwrap().status, status, "{script:?}");
    }
}

#[test]
fn a_lost_task_id_leaves_the_server_to_be_read() {
    let mut world = world(Readings::default());
    let request = Request::Create(create("web"));
    let (task, server) =
        accepted(world.call_scripted(at(0), Some(TOKEN), &request, TaskScript::LostId));
    let query = Request::TaskResult { task: Some(task) };
    assert_eq!(
        refused(call(&mut world, 1_000, query)),
        "InvalidAsyncTaskUUID.NotFound"
    );
    assert_eq!(world.server(&server).unwrap().status, "STARTED");
}

#[test]
fn a_failed_create_leaves_what_the_reading_specifies() {
    for (reading, left) in [
        (FailedCreate::LeavesBroken, 1),
        (FailedCreate::LeavesNothing, 0),
    ] {
        let mut world = world(Readings {
            failed_create: reading,
            ..Readings::default()
        });
        let request = Request::Create(create("web"));
        let (_, server) =
            accepted(world.call_scripted(at(0), Some(TOKEN), &request, TaskScript::Cancel));
        world.advance(at(1_000));
        assert_eq!(world.live_servers().len(), left);
        if left == 1 {
            let stop = call(&mut world, 1_000, reinstall(&server));
            assert_eq!(refused(stop), "InvalidEcsStatus.Error");
            let _ = accepted(call(&mut world, 1_000, Request::Release(on(&server))));
        }
    }
}

#[test]
fn a_release_while_creating_is_refused_or_cancels() {
    let mut refusing = world(Readings::default());
    let (_, server) = accepted(call(&mut refusing, 0, Request::Create(create("web"))));
    let reply = call(&mut refusing, 500, Request::Release(on(&server)));
    assert_eq!(refused(reply), "OperationConflict.InProgress");

    let allowed = ReleaseWhileCreating::Allowed;
    let mut allowing = world(Readings {
        release_while_creating: allowed,
        ..Readings::default()
    });
    let (task, server) = accepted(call(&mut allowing, 0, Request::Create(create("web"))));
    let _ = accepted(call(&mut allowing, 500, Request::Release(on(&server))));
    assert_eq!(
        result_of(&mut allowing, 1_500, &task).1.as_deref(),
        Some("CANCEL")
    );
    assert!(allowing.live_servers().is_empty());
}

#[test]
fn a_task_that_never_ends_is_ended_at_the_console() {
    let mut world = world(Readings::default());
    let never = Request::Create(create("web"));
    let reply = world.call_scripted(at(0), Some(TOKEN), &never, TaskScript::Never);
    let (task, server) = accepted(reply);
    world.advance(at(86_400_000));
    let end = || Console::EndTask {
        server: server.clone(),
    };
    let status = |world: &World| world.server(&server).unwrap().status;
    assert_eq!((world.next_due(), status(&world)), (None, "CREATING"));
    world.console(end()).unwrap();
    assert_eq!(status(&world), "STARTED");
    let (_, result) = result_of(&mut world, 86_400_000, &task);
    assert_eq!(result.as_deref(), Some("SUCCESS"));
    // Without a running task, nothing ends.
    world.console(end()).unwrap();
}

#[test]
fn a_task_may_be_forgotten_some_time_after_its_end() {
    let mut world = world(Readings {
        task_kept: Some(Duration::from_millis(500)),
        ..Readings::default()
    });
    let (task, _) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    let (_, result) = result_of(&mut world, 1_499, &task);
    assert_eq!(result.as_deref(), Some("SUCCESS"));
    let query = Request::TaskResult { task: Some(task) };
    let reply = call(&mut world, 1_500, query);
    assert_eq!(refused(reply), "InvalidAsyncTaskUUID.NotFound");
}
