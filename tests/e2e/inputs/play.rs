//! Plays a row: it is broken, reported, counted for a minute while another Instance is created, and fixed.

use super::bill::{Bill, Count};
use super::row::Step::{
    Account, Answers, Bytes, Endpoint, NoAccount, NoSecret, Plain, Restocked, Secret, SetStatus,
    Settle, SoldOut, Spec, Token,
};
use super::row::{Begins, Row, SAME, SPARE, Step};
use crate::support::{
    Setup, World, condition, create, delete, insist, instance, instance_by_key, labels, reason,
};
use cloud_server_operator::api::Instance;
use cloud_simulator::catalogue;
use cloud_simulator::faults::Rule;
use cloud_simulator::model::{Console, Effect};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The window for counting costs, as the issue requires.
pub const WINDOW: Duration = Duration::from_secs(60);
const SPARE_TOKEN: &str = "spare-token-of-another-account";

/// Plays one row from beginning to end. Costs and messages are asserted last, so that one defect does not hide another.
pub async fn play(row: &Row) {
    let mut stage = Stage::begin(row).await;
    let web = stage.until_reported(row).await;
    let first = lines(&web.status.unwrap().conditions);

    let before = Count::of(&mut stage.world).await;
    sleep(WINDOW).await;
    let spent = Bill::since(&before, &mut stage.world).await;
    let web = stage.world.get("web").await;
    let message = conditions_of(&stage.world, &web).await;
    let last = lines(&web.status.unwrap().conditions);

    stage.assert_another_becomes_ready(row).await;
    // Not read at once: a retry of the refused operation may just have begun.
    stage.until_reported(row).await;
    let recovery = stage.fix(row).await;

    println!("ROW {}: {spent:?}, fixed in {recovery:.1?}", row.name);
    let mut wrong = spent.too_much();
    if first != last {
        wrong.push(format!("it was reported twice, first: {first}"));
    }
    assert_message(row.name, &message);
    let ledger = stage.world.sim.ledger();
    let called: Vec<String> = ledger
        .entries()
        .map(|entry| format!("{} {}", entry.at, entry.path))
        .collect();
    drop(ledger);
    assert!(wrong.is_empty(), "{}: {wrong:#?} {called:#?}", row.name);
    stage.world.finish().await;
}

/// The conditions of the Instance, and those of its Account unless it is ready.
async fn conditions_of(world: &World, instance: &Instance) -> String {
    let status = instance.status.as_ref().unwrap();
    let mut text = lines(&status.conditions);
    let account = insist("read it", async || world.accounts().get_opt(SAME).await)
        .await
        .unwrap();
    let conditions = account.and_then(|account| account.status);
    let conditions = conditions.map(|status| status.conditions);
    let conditions = conditions.unwrap_or_default();
    if conditions
        .first()
        .is_some_and(|ready| ready.status != "True")
    {
        text = format!("{text}\n\nAccount: {}", lines(&conditions));
    }
    redacted(world, &text, status.id.as_deref())
}

/// Types, reason and message. All conditions of an object have the same reason, and Ready has the message.
fn lines(conditions: &[Condition]) -> String {
    let kinds: Vec<String> = conditions
        .iter()
        .map(|condition| format!("{}={}", condition.type_, condition.status))
        .collect();
    let Condition {
        reason, message, ..
    } = &conditions[0];
    format!("{} {reason}\n{message}", kinds.join(" "))
}

/// The text without the values that differ between runs.
pub fn redacted(world: &World, text: &str, server: Option<&str>) -> String {
    let text = text
        .replace(&world.namespace, "<namespace>")
        .replace(world.sim.url(), "<endpoint>");
    let text = without_times(&text);
    match server {
        Some(id) => text.replace(id, "<server>"),
        None => text,
    }
}

/// Replaces times by a placeholder.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_end_matches([':', ',', '.', ')']);
        let is_of_a_day = word.matches(':').count() == 2;
        word.parse::<jiff::Timestamp>().is_ok()
            || (is_of_a_day && word.parse::<jiff::civil::Time>().is_ok())
    };
    // The marker in a name depends on a UID.
    let is_marked = |word: &str| {
        let word = word.trim_end_matches([':', ',', '.', ')', ';']);
        cloud_server_operator::api::Marker::in_name(word).is_some()
    };
    let line = |line: &str| {
        let words = line.split(' ').map(|word| match is_time(word) {
            true => word.replace(|c: char| c.is_ascii_digit(), "0"),
            false if is_marked(word) => "<marked>".to_owned(),
            false => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

pub fn assert_message(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// A world with a broken Instance.
struct Stage {
    world: World,
    /// The Instance as last applied.
    web: Value,
}

impl Stage {
    async fn begin(row: &Row) -> Self {
        let world = Setup::default().without_operator().begin("input").await;
        world.sim.add_account(SPARE, SPARE_TOKEN).unwrap();
        world.secret("spare-token", "token", SPARE_TOKEN).await;
        account(&world, SPARE, world.sim.url(), "spare-token", 2).await;
        let web = instance("web");
        let mut stage = Self { world, web };
        match row.begins {
            Begins::New => {
                stage.take(&row.broken).await;
                stage.world.start().await;
                stage.world.apply(&stage.web).await;
            }
            Begins::Found => {
                stage.take(&row.broken).await;
                stage.world.apply(&stage.web).await;
                stage.world.start().await;
            }
            Begins::Server => {
                stage.world.start().await;
                stage.world.apply(&stage.web).await;
                stage.world.ready("web").await;
                stage.change(&row.broken).await;
            }
        }
        stage
    }

    /// Takes the steps, and applies the Instance if one of them changes its spec.
    async fn change(&mut self, steps: &[Step]) {
        self.take(steps).await;
        if steps.iter().any(|step| matches!(step, Spec(..))) {
            self.world.apply(&self.web).await;
        }
    }

    async fn take(&mut self, steps: &[Step]) {
        let world = &self.world;
        for step in steps {
            match step {
                Spec(path, value) => {
                    *self.web["spec"].pointer_mut(path).unwrap() = value.clone();
                }
                Secret(name, key, value) => secret(world, name, key, value.as_bytes()).await,
                Bytes(name, key, value) => secret(world, name, key, value).await,
                NoSecret(name) => delete(&world.secrets(), name).await,
                Endpoint(endpoint) => account(world, SAME, endpoint, "cloud-token", 2).await,
                Account => account(world, SAME, world.sim.url(), "cloud-token", 2).await,
                NoAccount => delete(&world.accounts(), SAME).await,
                Settle(seconds) => {
                    account(world, SAME, world.sim.url(), "cloud-token", *seconds).await;
                }
                Token(token) => world.sim.set_token(SAME, token).unwrap(),
                SetStatus(status) => world.sim.set_account_status(SAME, *status).unwrap(),
                Answers(path, act) => {
                    world.sim.fault(Rule::on(path, act.clone()).account(SAME));
                }
                Plain => world.sim.faults().clear(),
                SoldOut => console(world, |region| Console::SellOut { region }),
                Restocked => console(world, |region| Console::Restock { region }),
            }
        }
    }

    /// Waits until the row's reason is reported for the newest spec.
    async fn until_reported(&self, row: &Row) -> Instance {
        let (kind, word) = row.report;
        let what = format!("{}: {kind} {word}", row.name);
        let holds = |instance: &Instance| {
            reason(instance) == word
                && condition(instance, kind).is_some_and(|condition| condition.status == "True")
                && instance.status.as_ref().map(|s| s.observed_generation)
                    == instance.metadata.generation
        };
        self.world.until("web", &what, holds).await
    }

    /// A healthy Instance becomes ready next to the broken one.
    async fn assert_another_becomes_ready(&self, row: &Row) {
        let world = &self.world;
        let bought = world.sim.live_servers().len();
        assert_eq!(bought, row.servers, "{}: {}", row.name, world.ledger_text());
        let restock = row.broken.iter().any(|step| matches!(step, SoldOut));
        if restock {
            console(world, |region| Console::Restock { region });
        }
        let mut other = instance_by_key("other");
        other["spec"]["accountRef"] = json!({"name": row.other_account});
        world.apply(&other).await;
        world.ready("other").await;
        if restock {
            console(world, |region| Console::SellOut { region });
        }
    }

    /// Fixes the row. Returns how long it took until the Instance was ready.
    async fn fix(&mut self, row: &Row) -> Duration {
        self.change(&row.fixed).await;
        let began = Instant::now();
        let ready = self.world.ready("web").await;
        let took = began.elapsed();
        let world = &self.world;
        let server = world.only_server(&ready);
        assert_eq!(Some(&server.image), ready.spec.image.id.as_ref());
        let ledger = world.sim.ledger();
        let made = |effect: &&&Effect| matches!(effect, Effect::Created { .. });
        let made = ledger.effects().iter().filter(made).count();
        assert_eq!(made, 2, "{}", world.ledger_text());
        self.assert_no_secret_leaked(row).await;
        took
    }

    /// Asserts that the content of a Secret, including a wrong one, appears nowhere else.
    async fn assert_no_secret_leaked(&self, row: &Row) {
        let world = &self.world;
        let all = ListParams::default();
        let instances = insist("read it", async || world.instances().list(&all).await)
            .await
            .unwrap()
            .items;
        let accounts = insist("read it", async || world.accounts().list(&all).await)
            .await
            .unwrap()
            .items;
        let pages = [
            world.logs(),
            serde_json::to_string(&instances).unwrap(),
            serde_json::to_string(&accounts).unwrap(),
        ];
        for step in row.broken.iter().chain(&row.fixed) {
            let Secret(_, _, value) = step else { continue };
            for line in value.lines().filter(|line| line.len() > 4) {
                assert!(
                    pages.iter().all(|page| !page.contains(line)),
                    "{}: the content of a Secret leaked",
                    row.name
                );
            }
        }
    }
}

async fn account(world: &World, name: &str, endpoint: &str, secret: &str, settle: u32) {
    let account = json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Account",
        "metadata": {"name": name},
        "spec": {
            "endpoint": endpoint,
            "tokenSecretRef": {"name": secret, "key": "token"},
            "settleSeconds": settle,
        },
    });
    let params = PatchParams::apply("user").force();
    let (accounts, patch) = (world.accounts(), Patch::Apply(&account));
    let written = insist("an Account is written", async || {
        accounts.patch(name, &params, &patch).await
    });
    written.await.unwrap();
}

/// Writes a Secret with only this key. Replaced rather than applied, since an apply of `stringData` removes no key.
async fn secret(world: &World, name: &str, key: &str, value: &[u8]) {
    let api = world.secrets();
    let text = data_encoding::BASE64.encode(value);
    let secret = json!({"metadata": {"name": name, "labels": labels(name)}, "data": {key: text}});
    let secret = serde_json::from_value(secret).unwrap();
    let params = PostParams::default();
    let found = insist("read it", async || api.get_opt(name).await);
    if found.await.unwrap().is_none() {
        create(&api, &secret).await;
        return;
    }
    let replaced = insist("a Secret is replaced", async || {
        api.replace(name, &params, &secret).await
    });
    replaced.await.unwrap();
}

fn console(world: &World, action: impl FnOnce(String) -> Console) {
    let region = catalogue::example().region.to_owned();
    world.sim.world(|w| w.console(action(region))).unwrap();
}
