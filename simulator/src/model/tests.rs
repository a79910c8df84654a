mod histories;

use super::*;
use crate::catalogue::example;
use crate::readings::{FailedCreate, PowerAfterReinstall, ReleaseWhileCreating};

const TOKEN: &str = "the-token";
const PASSWORD: &str = "Abcdefg1!";

fn world(readings: Readings) -> World {
    World::new(Config {
        token: Secret::from(TOKEN),
        durations: Durations::all(Duration::from_millis(1_000)),
        readings,
        ..Config::default()
    })
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn create(name: &str) -> CreateRequest {
    let known = example();
    CreateRequest {
        package_code: Some(known.package.to_owned()),
        region_code: Some(known.region.to_owned()),
        zone_code: Some(known.zone.to_owned()),
        instance_name: Some(name.to_owned()),
        image: Some(known.image.to_owned()),
        key: None,
        firewall: Some(known.firewall.to_owned()),
        password: Some(Secret::from(PASSWORD)),
    }
}

fn on(server: &str) -> InstanceRequest {
    InstanceRequest {
        server: Some(server.to_owned()),
        force_stop: None,
    }
}

fn accepted(reply: Reply) -> (String, String) {
    match reply.outcome {
        Ok(Answer::Accepted { task, server, .. }) => (task, server),
        other => panic!("not accepted: {other:?}"),
    }
}

fn refused(reply: Reply) -> String {
    assert!(reply.effect.is_none(), "a refusal has no effect");
    reply.outcome.expect_err("not refused").code
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "tests make their requests on the spot"
)]
fn call(world: &mut World, millis: u64, request: Request) -> Reply {
    world.call(at(millis), Some(TOKEN), &request)
}

fn deployed(world: &mut World) -> String {
    let (_, server) = accepted(call(world, 0, Request::Create(create("web"))));
    world.advance(at(1_000));
    server
}

fn result_of(world: &mut World, millis: u64, task: &str) -> (String, Option<String>) {
    let reply = call(
        world,
        millis,
        Request::TaskResult {
            task: Some(task.to_owned()),
        },
    );
    match reply.outcome {
        Ok(Answer::Task(report)) => (report.status, report.result),
        other => panic!("no report: {other:?}"),
    }
}

fn list(page: usize, size: usize) -> Request {
    Request::Instances(ListRequest {
        region: Some(example().region.to_owned()),
        zone: Some(example().zone.to_owned()),
        page: Some(page.to_string()),
        page_size: Some(size.to_string()),
        ..ListRequest::default()
    })
}

fn listed(world: &mut World, millis: u64, page: usize, size: usize) -> Vec<String> {
    match call(world, millis, list(page, size)).outcome {
        Ok(Answer::Instances(page)) => page.rows.into_iter().map(|row| row.id).collect(),
        other => panic!("no listing: {other:?}"),
    }
}

#[test]
fn a_create_goes_from_creating_to_started() {
    let mut world = world(Readings::default());
    let (task, server) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    let info = world.server(&server).unwrap();
    assert_eq!(
        (info.status, info.pending, info.visible),
        ("CREATING", "CREATING", true)
    );
    assert_eq!(
        result_of(&mut world, 999, &task),
        ("PROCESSING".to_owned(), None)
    );
    assert_eq!(
        result_of(&mut world, 1_000, &task),
        ("FINISHED".to_owned(), Some("SUCCESS".to_owned()))
    );
    let info = world.server(&server).unwrap();
    assert_eq!((info.status, info.pending), ("STARTED", "NONE"));
    assert_eq!(world.take_events(), [Effect::Deployed { server }]);
}

#[test]
fn one_name_makes_two_servers() {
    let mut world = world(Readings::default());
    let (_, one) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    let (_, two) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    assert_ne!(one, two);
    assert_eq!(world.live_servers().len(), 2);
}

#[test]
fn a_release_ends_billing_and_the_server() {
    let mut world = world(Readings::default());
    let server = deployed(&mut world);
    let _ = accepted(call(&mut world, 5_000, Request::Release(on(&server))));
    assert_eq!(world.server(&server).unwrap().pending, "RELEASING");
    world.advance(at(9_000));
    assert!(world.live_servers().is_empty());
    assert_eq!(
        world.server(&server).unwrap().billed,
        Duration::from_secs(6)
    );
    assert!(listed(&mut world, 9_000, 1, 10).is_empty());
    let detail = Request::Detail {
        server: Some(server.clone()),
    };
    assert_eq!(
        refused(call(&mut world, 9_000, detail)),
        "InvalidInstance.NotFound"
    );
    let again = call(&mut world, 9_000, Request::Release(on(&server)));
    assert_eq!(refused(again), "InvalidInstance.NotFound");
}

#[test]
fn power_goes_through_the_operations() {
    let mut world = world(Readings::default());
    let server = deployed(&mut world);
    assert_eq!(
        refused(call(&mut world, 1_000, Request::Start(on(&server)))),
        "InvalidEcsStatus.NotStopped"
    );
    let _ = accepted(call(&mut world, 2_000, Request::Stop(on(&server))));
    let conflict = call(&mut world, 2_500, Request::Restart(on(&server)));
    assert_eq!(refused(conflict), "OperationConflict.InProgress");
    world.advance(at(3_000));
    assert_eq!(world.server(&server).unwrap().status, "STOPPED");
    assert_eq!(
        refused(call(&mut world, 3_000, Request::Restart(on(&server)))),
        "InvalidEcsStatus.NotStarted"
    );
    let _ = accepted(call(&mut world, 3_000, Request::Start(on(&server))));
    world.advance(at(4_000));
    let _ = accepted(call(&mut world, 4_000, Request::Restart(on(&server))));
    world.advance(at(5_000));
    assert_eq!(world.server(&server).unwrap().status, "STARTED");
}

fn reinstall(server: &str) -> Request {
    Request::Reinstall(ReinstallRequest {
        server: Some(server.to_owned()),
        image: Some(example().other_image.to_owned()),
        password: Some(Secret::from("Another1?")),
        key: None,
        region_code: Some(example().region.to_owned()),
    })
}

#[test]
fn a_reinstall_changes_image_and_login_when_its_task_ends() {
    let mut world = world(Readings::default());
    let server = deployed(&mut world);
    let _ = accepted(call(&mut world, 1_000, reinstall(&server)));
    assert_eq!(world.server(&server).unwrap().image, example().image);
    assert_eq!(world.password_of(&server).as_deref(), Some(PASSWORD));
    world.advance(at(2_000));
    assert_eq!(world.server(&server).unwrap().image, example().other_image);
    assert_eq!(world.password_of(&server).as_deref(), Some("Another1?"));
}

#[test]
fn a_reinstall_may_need_a_stop_and_may_start() {
    let mut world = world(Readings {
        reinstall_needs_stop: true,
        power_after_reinstall: PowerAfterReinstall::Started,
        ..Readings::default()
    });
    let server = deployed(&mut world);
    assert_eq!(
        refused(call(&mut world, 1_000, reinstall(&server))),
        "InvalidEcsStatus.NotStopped"
    );
    let _ = accepted(call(&mut world, 1_000, Request::Stop(on(&server))));
    let _ = accepted(call(&mut world, 2_000, reinstall(&server)));
    world.advance(at(3_000));
    assert_eq!(world.server(&server).unwrap().status, "STARTED");
}

#[test]
fn what_is_wrong_with_a_create_has_a_code() {
    type Spoil = fn(&mut CreateRequest);
    let table: [(Spoil, &str); 17] = [
        (|c| c.package_code = None, "InvalidPackageCode.NotNull"),
        (
            |c| c.package_code = Some("none".into()),
            "InvalidPackageCode.NotFound",
        ),
        (
            |c| c.package_code = Some("ru-moscow-1-b-c1m2-s40-t1000".into()),
            "InvalidPackageCode.NotFound",
        ),
        (|c| c.region_code = None, "InvalidRegionCode.NotNull"),
        (
            |c| c.region_code = Some("xx-none-1".into()),
            "InvalidRegionCode.NotFound",
        ),
        (
            |c| c.zone_code = Some(String::new()),
            "InvalidZoneCode.NotNull",
        ),
        (
            |c| c.zone_code = Some("cn-taiwan-2-a".into()),
            "InvalidZoneCode.NotFound",
        ),
        (|c| c.instance_name = None, "InvalidInstanceName.NotNull"),
        (
            |c| c.instance_name = Some("a_b".into()),
            "InvalidInstanceName.Malformed",
        ),
        (|c| c.image = None, "InvalidImageResourceUUID.NotNull"),
        (
            |c| c.image = Some("img-none".into()),
            "InvalidImageResourceUUID.NotFound",
        ),
        (|c| c.firewall = None, "InvalidFirewallUUID.NotNull"),
        (
            |c| c.firewall = Some("fw-none".into()),
            "InvalidFirewallUUID.NotFound",
        ),
        (|c| c.password = None, "InvalidPassword.NotNull"),
        (
            |c| c.password = Some("short".into()),
            "InvalidPassword.Malformed",
        ),
        (
            |c| c.key = Some("key-none".into()),
            "InvalidSshKeyUUID.NotFound",
        ),
        (
            |c| {
                c.key = Some(example().key.into());
                c.image = Some(example().windows_image.into());
            },
            "InvalidSshKeyUUID.NotSupported",
        ),
    ];
    for (spoil, code) in table {
        let mut world = world(Readings::default());
        let mut body = create("web");
        spoil(&mut body);
        assert_eq!(refused(call(&mut world, 0, Request::Create(body))), code);
        assert!(world.servers().is_empty());
    }
}

#[test]
fn a_key_login_needs_no_password() {
    let mut world = world(Readings::default());
    let body = CreateRequest {
        key: Some(example().key.to_owned()),
        password: None,
        ..create("web")
    };
    let (_, server) = accepted(call(&mut world, 0, Request::Create(body)));
    assert_eq!(
        world.server(&server).unwrap().key.as_deref(),
        Some(example().key)
    );
    assert_eq!(world.password_of(&server), None);
}

#[test]
fn only_an_account_in_good_standing_and_within_its_quota_creates() {
    let mut world = world(Readings::default());
    world
        .change_account(DEFAULT_ACCOUNT, |account| {
            account.status = AccountStatus::Arrears;
        })
        .unwrap();
    assert_eq!(
        refused(call(&mut world, 0, Request::Create(create("web")))),
        "AccountStatus.Abnormal"
    );
    world
        .change_account(DEFAULT_ACCOUNT, |account| {
            account.status = AccountStatus::Normal;
            account.quota = Some(1);
        })
        .unwrap();
    let _ = accepted(call(&mut world, 0, Request::Create(create("web"))));
    assert_eq!(
        refused(call(&mut world, 0, Request::Create(create("web")))),
        "QuotaExceeded.Instance"
    );
}

#[test]
fn accounts_do_not_see_each_other() {
    let mut world = world(Readings::default());
    world.add_account("other", "other-token").unwrap();
    assert_eq!(
        world.add_account("third", "other-token"),
        Err(AccountExists)
    );
    let (task, server) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    let as_other =
        |world: &mut World, request| world.call(at(2_000), Some("other-token"), &request);
    let detail = Request::Detail {
        server: Some(server.clone()),
    };
    assert_eq!(
        refused(as_other(&mut world, detail)),
        "InvalidInstance.NotFound"
    );
    assert_eq!(
        refused(as_other(&mut world, Request::Release(on(&server)))),
        "InvalidInstance.NotFound"
    );
    let query = Request::TaskResult { task: Some(task) };
    assert_eq!(
        refused(as_other(&mut world, query)),
        "InvalidAsyncTaskUUID.NotFound"
    );
    assert_eq!(
        refused(world.call(at(0), None, &Request::Regions)),
        "Authenticated.Error"
    );
    assert_eq!(
        refused(world.call(at(0), Some("x"), &Request::Regions)),
        "Authenticated.Error"
    );
}

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
fn a_lost_task_id_leaves_the_server_to_be_looked_at() {
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
fn a_failed_create_leaves_what_the_reading_says() {
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
fn new_servers_may_be_listed_late() {
    let late = Duration::from_secs(5);
    let mut world = world(Readings {
        visible_late: late,
        detail_late: true,
        ..Readings::default()
    });
    let (_, server) = accepted(call(&mut world, 0, Request::Create(create("web"))));
    assert!(listed(&mut world, 4_999, 1, 10).is_empty());
    let detail = Request::Detail {
        server: Some(server.clone()),
    };
    assert_eq!(
        refused(call(&mut world, 4_999, detail)),
        "InvalidInstance.NotFound"
    );
    assert_eq!(listed(&mut world, 5_000, 1, 10), [server]);
}

#[test]
fn the_console_acts_behind_the_interface() {
    let mut world = world(Readings::default());
    let server = deployed(&mut world);
    let id = || server.clone();
    world.console(Console::PowerOff { server: id() }).unwrap();
    assert_eq!(world.server(&server).unwrap().status, "STOPPED");
    world
        .console(Console::Rename {
            server: id(),
            name: "other".into(),
        })
        .unwrap();
    let image = example().other_image.to_owned();
    world
        .console(Console::Rebuild {
            server: id(),
            image: image.clone(),
        })
        .unwrap();
    let info = world.server(&server).unwrap();
    assert_eq!((info.name.as_str(), &info.image), ("other", &image));
    world
        .console(Console::SellOut {
            region: example().region.into(),
        })
        .unwrap();
    assert!(
        world
            .regions_on_sale()
            .iter()
            .all(|region| region.code != example().region)
    );
    assert_eq!(
        listed(&mut world, 2_000, 1, 10),
        [id()],
        "servers of a sold-out region live on"
    );
    assert_eq!(
        refused(call(&mut world, 2_000, Request::Create(create("web")))),
        "OperationDenied.SoldOut"
    );
    world.console(Console::Release { server: id() }).unwrap();
    assert!(world.live_servers().is_empty());
    assert!(world.console(Console::Release { server: id() }).is_err());
}

#[test]
fn paging_is_validated() {
    let mut world = world(Readings::default());
    let with = |page: &str, size: &str| {
        Request::Keys(ListRequest {
            page: Some(page.to_owned()),
            page_size: Some(size.to_owned()),
            ..ListRequest::default()
        })
    };
    for (page, size, code) in [
        ("0", "10", "InvalidPage.OutOfRange"),
        ("1", "0", "InvalidPageSize.OutOfRange"),
        ("1", "51", "InvalidPageSize.OutOfRange"),
        ("x", "10", "InvalidPage.Malformed"),
        ("1", "-1", "InvalidPageSize.Malformed"),
    ] {
        assert_eq!(refused(call(&mut world, 0, with(page, size))), code);
    }
    match call(&mut world, 0, with("", "")).outcome {
        Ok(Answer::Keys(page)) => assert_eq!((page.rows.len(), page.total), (10, 58)),
        other => panic!("{other:?}"),
    }
}
