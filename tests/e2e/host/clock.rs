//! A wall clock that jumps by an hour and by ten years, in both directions, during every kind of work and at a start. Pauses,
//! deadlines and the settling time use the monotonic clock, and attempts are counted: only displayed times are wrong.

use crate::support::{
    Setup, World, condition, console, counts, eventually, instance, names, new_password,
    other_image, outline, password_of, posts, quiet_all, server_id, stopped, token,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, TaskScript};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const HOUR: i64 = 3_600;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;
const CREATE: &str = "/instance/create";

/// The wall clock of an operator.
struct Clock {
    directory: TempDir,
}

impl Clock {
    /// A correct clock, with the library that falsifies it.
    fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("cso-clock-")
            .tempdir()
            .unwrap();
        let clock = Self { directory };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/host/clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(clock.library())
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        clock.shift(0);
        clock
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("clock.so")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("shift")
    }

    /// Shifts the clock by this many seconds from now on. Written in place, since the operator maps the file.
    fn shift(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let open = std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.file());
        open.unwrap()
            .write_all_at(&seconds.to_ne_bytes(), 0)
            .unwrap();
    }

    fn setup(&self) -> Setup {
        Setup::default()
            .environment("LD_PRELOAD", self.library().to_str().unwrap())
            .environment("CLOCK_SHIFT", self.file().to_str().unwrap())
    }
}

/// How far the newest change of an Instance's Ready condition is ahead of the correct time.
async fn ahead(world: &World, name: &str) -> SignedDuration {
    let now = world.get(name).await;
    let shown = condition(&now, "Ready").unwrap().last_transition_time.0;
    shown.duration_since(Timestamp::now())
}

async fn attempt(world: &World, name: &str) -> i64 {
    world.get(name).await.status.unwrap().attempt
}

/// Longer than the delay of the late execution. A settling time by the wall clock would end too early.
async fn settle_seconds(world: &World, seconds: u32) {
    let spec = json!({"settleSeconds": seconds});
    world.change_account("default", spec).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_step_changes_only_the_times_that_are_shown() {
    let clock = Clock::new();
    // Certificates and tokens contain times of their own, so the apiserver is reached through a proxy without TLS.
    let mut world = clock.setup().tasks(2_000).recorder().begin("clock").await;
    settle_seconds(&world, 8).await;
    let never = Rule::on(CREATE, Act::Task(TaskScript::Never)).containing("\"endless-");
    world.sim.fault(never.times(1));
    world.apply(&instance("endless")).await;
    let fleet = names("web", 4);
    let mut last = vec![0; fleet.len()];
    for (step, seconds) in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS, 0]
        .into_iter()
        .enumerate()
    {
        // A create whose answer is lost and that is executed three seconds later, and one that never arrives.
        let (late, lost) = (format!("late-{step}"), format!("lost-{step}"));
        let rule = Rule::on(CREATE, Act::Late { millis: 3_000 }).containing(&format!("\"{late}-"));
        world.sim.fault(rule.times(1));
        let when = cloud_simulator::faults::When::BeforeEffect;
        let rule = Rule::on(CREATE, Act::Lose { when }).containing(&format!("\"{lost}-"));
        world.sim.fault(rule.times(1));
        let calls = posts(&world, 0).len();
        world.apply(&instance(&late)).await;
        world.apply(&instance(&lost)).await;
        let seq = world.sim.ledger().last_seq();
        match step {
            0 => world.apply_all(&fleet, instance).await,
            1 => world.apply_all(&fleet, other_image).await,
            2 => world.apply_all(&fleet, stopped).await,
            3 => world.apply_all(&fleet, |name| token(name, "one")).await,
            _ => new_password(&world).await,
        }
        let all = fleet.len() + 2;
        eventually("all are at the service", async || {
            match posts(&world, 0).len() - calls {
                n if n >= all => Ok(()),
                n => Err(format!("{n}, {:?}", posts(&world, seq))),
            }
        })
        .await;
        clock.shift(seconds);
        if step % 2 == 1 {
            // Also across a start.
            world.restart().await;
        }
        world.all_ready(&fleet).await;
        world.all_ready(&[late.clone(), lost]).await;
        println!(
            "CLOCK {seconds}: late {:?}, attempts {last:?}",
            ahead(&world, &late).await
        );
        let off = ahead(&world, &late).await - SignedDuration::from_secs(seconds);
        assert!(
            off.abs() < SignedDuration::from_mins(5),
            "the clock was not wrong: the test tests nothing"
        );
        for (name, last) in fleet.iter().zip(&mut last) {
            let now = attempt(&world, name).await;
            assert!(now > *last, "{name}: {now} after {last}");
            *last = now;
        }
        let endless = world.get("endless").await;
        assert!(
            condition(&endless, "Stalled").is_none(),
            "{}",
            outline(&endless)
        );
    }
    // One server for each.
    assert_eq!(
        world.sim.servers().len(),
        1 + fleet.len() + 5 * 2,
        "{}",
        world.ledger_text()
    );
    // To the other image and back, stopped and started.
    for (verb, done) in [(Verb::Reinstall, 8), (Verb::Stop, 4), (Verb::Start, 4)] {
        assert_eq!(
            counts(&world, verb, None),
            (done, done),
            "{}",
            world.ledger_text()
        );
    }
    let endless = world.only_server(&world.get("endless").await).id;
    console(&world, Console::EndTask { server: endless });
    world.ready("endless").await;
    for name in &fleet {
        let now = world.get(name).await;
        let has = password_of(&world, &server_id(&now));
        assert_eq!(has.as_deref(), Some(World::NEW_PASSWORD));
    }
    quiet_all(&world).await;
    world.delete("web-0").await;
    clock.shift(TEN_YEARS);
    world.gone("web-0").await;
    world.finish().await;
}
