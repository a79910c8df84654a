//! The specification leaves questions open. For any combination of answers, a life with every operation has one effect for
//! each, and leaves nothing behind. The assertions use the ledger.

use crate::support::{
    Mark, Setup, World, assert_idle, effects, ended, eventually, insist, instance, instance_by_key,
    is_ready, mark, new_password, outline, password_of, posts, quiet, written,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::readings::{
    FailReason, FailureShape, HttpStatus, ListOrder, ListRows, PowerAfterReinstall, Readings,
    ResultWhileProcessing, RowCount, TaskId,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The login with which an Instance is bought; later it changes to the other kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Born {
    ByPassword,
    ByKey,
}

/// One Instance through its life.
struct Life {
    world: World,
    readings: Readings,
    /// The manifest as currently applied.
    manifest: Value,
    /// The identifier of its server.
    id: String,
    /// The number of writes that each change cost.
    writes: Vec<(Verb, usize)>,
}

impl Life {
    async fn begin(setup: Setup, readings: Readings, born: Born) -> Self {
        let world = setup.readings(readings.clone()).begin("life").await;
        let manifest = match born {
            Born::ByPassword => instance("web"),
            Born::ByKey => instance_by_key("web"),
        };
        world.apply(&manifest).await;
        let ready = world.ready("web").await;
        let server = assert_idle(&world, &ready);
        let key = (born == Born::ByKey).then_some(catalogue::example().key);
        assert_eq!(server.key.as_deref(), key);
        Self {
            world,
            readings,
            manifest,
            id: server.id,
            writes: Vec::new(),
        }
    }

    /// Changes the spec and applies it.
    async fn apply(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.manifest["spec"]);
        self.world.apply(&self.manifest).await;
    }

    async fn mark(&self) -> Mark {
        mark(&self.world, "web").await
    }

    /// Waits until a change has had exactly these effects, and the Instance is idle.
    async fn took(&mut self, before: Mark, verb: Verb, expected: &[&str]) -> Instance {
        let world = &self.world;
        let what = format!("{verb} with {expected:?}, and Ready");
        let instance = eventually(&what, async || {
            let web = world.get("web").await;
            let did = ended(&web, &before)
                .iter()
                .any(|entry| entry.verb == verb && entry.succeeded);
            let effects = effects(world, before.seq);
            if did && is_ready(&web) && effects == expected {
                Ok(web)
            } else {
                Err(format!("{}, {effects:?}", outline(&web)))
            }
        })
        .await;
        assert_eq!(assert_idle(world, &instance).id, self.id);
        let wrote = written(world, "web", &before).await.len();
        self.writes.push((verb, wrote));
        instance
    }

    /// A verb with one call.
    async fn took_one(&mut self, before: Mark, verb: Verb, call: &str, expected: [&str; 2]) {
        self.took(before, verb, &expected).await;
        let posts = posts(&self.world, before.seq);
        assert_eq!(posts, [call], "{}", self.world.ledger_text());
    }

    /// A reinstall of the running server, with the additional operations that its reading requires.
    async fn reinstalled(&mut self, before: Mark) -> Instance {
        let mut expected = Vec::new();
        if self.readings.reinstall_needs_stop {
            expected.extend(["StopAccepted", "Stopped"]);
        }
        expected.extend(["ReinstallAccepted", "Reinstalled"]);
        let off = match self.readings.power_after_reinstall {
            PowerAfterReinstall::Kept => self.readings.reinstall_needs_stop,
            PowerAfterReinstall::Started => false,
            PowerAfterReinstall::Stopped => true,
        };
        if off {
            expected.extend(["StartAccepted", "Started"]);
        }
        let instance = self.took(before, Verb::Reinstall, &expected).await;
        let detail = &instance.status.as_ref().unwrap().detail;
        assert_eq!(detail["ecsStatus"], "STARTED");
        instance
    }

    /// The detail is complete regardless of the listing's rows, and the listing is read.
    async fn queried(&self) {
        let web = self.world.get("web").await;
        let status = web.status.as_ref().unwrap();
        let shown = ["ecsResourceUUID", "cpu", "publicIpAddress", "imageName"];
        for field in shown {
            assert!(status.detail.contains_key(field), "no {field}: {status:#?}");
        }
        assert!(status.addresses.as_ref().unwrap().public.is_some());
        assert_eq!(status.id.as_deref(), Some(self.id.as_str()));
        eventually(
            "the Account counts one server, and of none unowned",
            async || {
                let account = insist("read it", async || {
                    self.world.accounts().get("default").await
                })
                .await
                .unwrap();
                let status = account.status.unwrap_or_default();
                match (status.servers, status.unowned_servers) {
                    (Some(1), Some(0)) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            },
        )
        .await;
    }
}

/// Create, stop, start, restart, another password, another image, the other login, delete: each once.
async fn life(test: &str, setup: Setup, readings: Readings, born: Born) {
    let mut life = Life::begin(setup, readings, born).await;

    let before = life.mark().await;
    life.apply(|spec| spec["powerState"] = json!("Stopped"))
        .await;
    let effects = ["StopAccepted", "Stopped"];
    life.took_one(before, Verb::Stop, "stop", effects).await;

    let before = life.mark().await;
    life.apply(|spec| spec["powerState"] = json!("Running"))
        .await;
    let effects = ["StartAccepted", "Started"];
    life.took_one(before, Verb::Start, "start", effects).await;

    let before = life.mark().await;
    life.apply(|spec| spec["restart"] = json!({"token": "one"}))
        .await;
    let effects = ["RestartAccepted", "Restarted"];
    life.took_one(before, Verb::Restart, "restart", effects)
        .await;

    if born == Born::ByPassword {
        password_changes(&mut life).await;
    }

    let before = life.mark().await;
    let example = catalogue::example();
    life.apply(|spec| spec["image"]["id"] = json!(example.other_image))
        .await;
    life.reinstalled(before).await;

    let before = life.mark().await;
    let other = match born {
        Born::ByPassword => instance_by_key("web"),
        Born::ByKey => instance("web"),
    };
    life.apply(|spec| spec["login"] = other["spec"]["login"].clone())
        .await;
    let ready = life.reinstalled(before).await;
    let server = life.world.only_server(&ready);
    assert_eq!(server.image, example.other_image);
    let key = (born == Born::ByPassword).then_some(example.key);
    assert_eq!(server.key.as_deref(), key);

    if born == Born::ByKey {
        password_changes(&mut life).await;
    }
    life.queried().await;
    quiet(&life.world, "web").await;

    let world = life.world;
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    quiet(&world, "web").await;
    println!("WRITES {test}: {:?}", life.writes);
    // Two writes for each of a stop, a reinstall and a start, two ends, the first intent and its refusal, and one for each call that
    // takes longer than 2 s, which all do on a busy machine.
    let most = match (
        life.readings.reinstall_needs_stop,
        life.readings.power_after_reinstall,
    ) {
        (true, _) => 13,
        (false, PowerAfterReinstall::Stopped) => 8,
        (false, _) => 5,
    };
    assert!(
        life.writes.iter().all(|(_, count)| *count <= most),
        "{:?}",
        life.writes
    );
    world.finish().await;
}

async fn password_changes(life: &mut Life) {
    let before = life.mark().await;
    new_password(&life.world).await;
    let effects = ["PasswordAccepted", "PasswordChanged"];
    let call = "modifyInstancePassword";
    life.took_one(before, Verb::ModifyPassword, call, effects)
        .await;
    let password = password_of(&life.world, &life.id);
    assert_eq!(password.as_deref(), Some(World::NEW_PASSWORD));
}

macro_rules! lives {
    ($($test:ident, $setup:expr, $born:ident: $($field:ident = $value:expr),*;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let readings = Readings { $($field: $value,)* ..Readings::default() };
            life(stringify!($test), $setup, readings, Born::$born).await;
        }
    )+};
}

lives! {
    a_life_as_specified, Setup::default(), ByPassword: ;
    a_life_of_nested_ids_minimal_rows_and_refusals_in_a_2xx, Setup::default(), ByPassword:
        task_id = TaskId::Nested,
        http_status = HttpStatus::Ok,
        list_rows = ListRows::Minimal,
        row_count = RowCount::Page,
        awkward_ids = true,
        not_found = FailureShape::SuccessFalse,
        refusals = FailureShape::SuccessFalse;
    a_life_of_flat_ids_late_servers_and_a_stop_before_each_reinstall, Setup::default(), ByPassword:
        task_id = TaskId::Flat,
        http_status = HttpStatus::Accepted,
        list_order = ListOrder::OldestFirst,
        visible_late = Duration::from_secs(3),
        detail_late = true,
        refusals = FailureShape::Envelope,
        reinstall_needs_stop = true,
        power_after_reinstall = PowerAfterReinstall::Started;
    a_life_of_forgotten_tasks_and_a_flow_that_grows, Setup::default(), ByKey:
        task_kept = Some(Duration::from_secs(2)),
        result_while_processing = ResultWhileProcessing::Null,
        fail_reason = FailReason::Remark,
        used_flow_grows = true,
        list_rows = ListRows::Minimal,
        not_found = FailureShape::Envelope;
    a_life_of_awkward_ids_and_a_power_that_stays_as_it_was, Setup::default(), ByKey:
        awkward_ids = true,
        task_id = TaskId::Nested,
        result_while_processing = ResultWhileProcessing::Empty,
        refusals = FailureShape::SuccessFalse,
        list_rows = ListRows::Minimal,
        used_flow_grows = true,
        reinstall_needs_stop = true,
        power_after_reinstall = PowerAfterReinstall::Kept;
    a_life_of_servers_that_a_reinstall_leaves_off, Setup::default().tasks(2_500), ByPassword:
        task_id = TaskId::Flat,
        http_status = HttpStatus::Ok,
        row_count = RowCount::Page,
        list_order = ListOrder::OldestFirst,
        visible_late = Duration::from_secs(3),
        task_kept = Some(Duration::from_secs(2)),
        not_found = FailureShape::Envelope,
        refusals = FailureShape::Envelope,
        power_after_reinstall = PowerAfterReinstall::Stopped;
    a_life_at_other_paths, Setup::default().moved(), ByPassword:
        task_id = TaskId::Nested,
        http_status = HttpStatus::Accepted,
        list_rows = ListRows::Minimal,
        awkward_ids = true,
        reinstall_needs_stop = true;
}

/// All that clients report, except the late address: an additional write would be counted with the first change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_as_clients_report_the_service() {
    let readings = Readings {
        address_late: Duration::ZERO,
        ..Readings::as_reported()
    };
    let test = "a_life_as_clients_report_the_service";
    life(test, Setup::default(), readings, Born::ByKey).await;
}
