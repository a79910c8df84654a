mod histories;
mod refusals;
mod scripts;

use super::*;
use crate::catalogue::example;
use crate::readings::PowerAfterReinstall;

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
fn a_reinstall_may_leave_the_power_as_it_was_or_off() {
    for (power_after_reinstall, off_before, after) in [
        (PowerAfterReinstall::Kept, false, "STARTED"),
        (PowerAfterReinstall::Kept, true, "STOPPED"),
        (PowerAfterReinstall::Stopped, false, "STOPPED"),
    ] {
        let mut world = world(Readings {
            power_after_reinstall,
            ..Readings::default()
        });
        let server = deployed(&mut world);
        if off_before {
            let _ = accepted(call(&mut world, 1_000, Request::Stop(on(&server))));
        }
        let _ = accepted(call(&mut world, 2_000, reinstall(&server)));
        world.advance(at(3_000));
        assert_eq!(world.server(&server).unwrap().status, after);
    }
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

/// This test is no benchmark: it guards against a world that is expensive to create or slow to query. It takes the best of five
/// rounds, since a stall of the machine makes one round slow, not all.
#[test]
fn a_world_is_cheap() {
    let round = || {
        let begun = std::time::Instant::now();
        for _ in 0..500 {
            let mut world = world(Readings::default());
            let server = deployed(&mut world);
            let _ = accepted(call(&mut world, 2_000, Request::Release(on(&server))));
            world.advance(at(10_000));
            assert!(world.clone().live_servers().is_empty());
        }
        begun.elapsed()
    };
    let most = Duration::from_secs(5);
    assert!(
        (0..5).any(|_| round() < most),
        "each of five rounds took longer than {most:?}"
    );
}
