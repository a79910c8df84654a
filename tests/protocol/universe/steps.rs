//! The actions of users, of the service's console and of random events.

use super::beginning::LEGACY;
use super::{Absence, ImportBy, Universe, base64, instance, released};
use crate::apiserver::{
    ACCOUNTS, INSTANCES, Key, OTHERS_TYPE, SECRETS, others_condition, unwritten,
};
use crate::fault::Step;
use crate::specs;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_simulator::catalogue::{self, Image};
use cloud_simulator::model::{Account, Console, DEFAULT_ACCOUNT};
use json_patch::merge;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Another region than that of the judged Instances.
const ELSEWHERE: &str = "de-frankfurt-1";

impl Universe {
    /// Carries out one step of a user, a fault or the service.
    pub fn step(&mut self, step: &Step) {
        self.advance();
        self.last_change = Instant::now();
        self.note(|| format!("-- {step:?}"));
        let before = self.kube.version();
        let has_object = step
            .object()
            .is_none_or(|n| self.kube.get(&instance(n)).is_some());
        if has_object {
            self.oracle.steps(step);
        }
        self.take(step);
        if step.changes_objects() && self.kube.version() == before {
            self.finds_nothing(step);
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Apply(n) => self.apply(n),
            Step::EditImage(n) => self.edit_image(n),
            Step::Spec(n, ref patch) => self.edit_spec(n, |spec| merge(spec, patch)),
            Step::Acknowledge(n) => self.acknowledge_reinstall(n),
            Step::EditLogin(_)
            | Step::DropLogin(_)
            | Step::DropConnection(_)
            | Step::OfferImage
            | Step::WithdrawImage
            | Step::SellOut
            | Step::Restock
            | Step::TasksFail(_)
            | Step::Hides(_)
            | Step::LimitToken(_)
            | Step::Most(_)
            | Step::Imports(_)
            | Step::ApplyAccount
            | Step::Immigrate(_) => self.step_aside(step),
            Step::EditPower(n) => self.edit_power(n),
            Step::Restart(n) => {
                let token = self.token();
                self.edit_spec(n, |spec| spec["restart"] = json!({"token": token}));
            }
            Step::Reinstall(n) => {
                let token = self.token();
                self.edit_spec(n, |spec| spec["reinstall"] = json!({"token": token}));
            }
            Step::RotatePassword => self.rotate_password(),
            Step::Label(n) => self.label(n),
            Step::Delete(n) => self.kube.delete(&instance(n)),
            Step::WipeStatus(n) => self.kube.edit(&instance(n), |object| {
                object["status"] = unwritten(INSTANCES);
            }),
            Step::OthersCondition(n) => self.others_condition(n, false),
            Step::OthersList(n) => self.others_condition(n, true),
            Step::ForceFinalizers(n) => self.force_finalizers(n),
            Step::Replace(n) => self.kube.edit(&instance(n), |object| {
                if object["metadata"]["deletionTimestamp"].is_null() {
                    strip(object);
                }
            }),
            Step::Released(n, ref name) => {
                let account = self.kube.get(&(ACCOUNTS, "default".to_owned()));
                let spec = account.unwrap()["spec"].clone();
                self.kube.edit(&instance(n), |object| {
                    released::write(object, name, &spec);
                });
            }
            Step::Backup(n) => match self.kube.get(&instance(n)) {
                Some(object) => drop(self.backups.insert(n, object.clone())),
                None => self.finds_nothing(step),
            },
            Step::RestoreBackup(n) => self.put_back(n, n),
            Step::Copy(n) => self.copy(n),
            Step::SnapshotEtcd => self.snapshot = Some(self.kube.clone()),
            Step::RestoreEtcd => self.restore_etcd(),
            Step::ConsoleRelease(n) => self.console(step, n, |server| Console::Release { server }),
            Step::ConsoleOff(n) => self.console(step, n, |server| Console::PowerOff { server }),
            Step::ConsoleOn(n) => self.console(step, n, |server| Console::PowerOn { server }),
            Step::ConsoleMigrate(n) => self.console(step, n, |server| Console::Migrate { server }),
            Step::ConsoleRebuild(n) => {
                let image = catalogue::example().windows_image.to_owned();
                self.console(step, n, |server| Console::Rebuild { server, image });
            }
            Step::Kill(slot) => self.kills.push(slot),
            Step::Terminate(slot) => self.terminations.push(slot),
            Step::Away(dependency) => self.goes(dependency, Absence::Silent),
            Step::Answers(dependency, status) => self.goes(dependency, Absence::Answers(status)),
            Step::Back(dependency) => self.back(dependency),
        }
    }

    /// A step found nothing to act on.
    pub fn finds_nothing(&mut self, step: &Step) {
        self.unmet.push(format!("{step:?}"));
    }

    /// Actions outside of the object itself: on its Secrets, and on the service's lists.
    fn step_aside(&mut self, step: &Step) {
        match *step {
            Step::EditLogin(n) => self.edit_login(n),
            Step::DropLogin(n) => {
                self.oracle.dropped_login(&login_secret(n).1);
                self.kube.delete(&login_secret(n));
            }
            Step::DropConnection(n) => self.kube.delete(&connection_secret(n)),
            Step::OfferImage => self.offer_image(),
            Step::WithdrawImage => {
                let id = catalogue::example().image;
                self.cloud.catalogue_mut().withdraw_image(id);
            }
            Step::SellOut => self.at_console(Console::SellOut {
                region: catalogue::example().region.to_owned(),
            }),
            Step::Restock => self.at_console(Console::Restock {
                region: catalogue::example().region.to_owned(),
            }),
            Step::TasksFail(fail) => self.tasks_fail = fail,
            Step::Hides(hides) => self.hides = hides,
            Step::LimitToken(limit) => {
                let regions = limit.then(|| [ELSEWHERE.to_owned()].into());
                let limited = |account: &mut Account| account.regions = regions;
                self.cloud.change_account(DEFAULT_ACCOUNT, limited).unwrap();
            }
            Step::Most(most) => self
                .kube
                .edit(&(ACCOUNTS, "default".to_owned()), |account| {
                    account["spec"]["maxInstances"] = json!(most);
                }),
            Step::Imports(are_allowed) => {
                let policy = if are_allowed { "Allowed" } else { "Denied" };
                self.kube
                    .edit(&(ACCOUNTS, "default".to_owned()), |account| {
                        account["spec"]["imports"] = json!(policy);
                    });
            }
            Step::ApplyAccount => self.furnish_own_account(),
            Step::Immigrate(n) => self.immigrate(n),
            _ => {}
        }
    }

    fn others_condition(&mut self, n: u8, replaces_list: bool) {
        let next = others_condition(&self.token());
        self.kube.edit(&instance(n), |object| {
            let status = &mut object["status"];
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            let mut all: Vec<Value> = if replaces_list { Vec::new() } else { all };
            match all
                .iter_mut()
                .find(|condition| condition["type"] == OTHERS_TYPE)
            {
                Some(condition) => *condition = next,
                None => all.push(next),
            }
            status["conditions"] = json!(all);
        });
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{}", self.tokens)
    }

    fn apply(&mut self, n: u8) {
        let example = catalogue::example();
        let login = if self.setting.by_key {
            json!({"sshKey": {"id": example.key}})
        } else {
            json!({"passwordSecretRef": {"name": "login", "key": "value"}})
        };
        let mut manifest = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "metadata": {},
            "spec": {
                "accountRef": {"name": "default"},
                "region": example.region, "zone": example.zone,
                "package": {"code": example.package}, "image": {"id": example.image},
                "firewall": {"id": example.firewall}, "login": login, "powerState": "Running",
            },
        });
        for patch in &self.setting.spec {
            merge(&mut manifest["spec"], patch);
        }
        if manifest["spec"]["connectionSecret"].is_object() {
            // Each Instance has its own.
            manifest["spec"]["connectionSecret"] = json!({"name": connection_secret(n).1});
        }
        match self.setting.import {
            Some(ImportBy::Id) => manifest["spec"]["import"] = json!({"id": self.legacy}),
            Some(ImportBy::Name) => manifest["spec"]["import"] = json!({"name": LEGACY}),
            None => {}
        }
        self.create(&instance(n), manifest);
    }

    fn create(&mut self, key: &Key, manifest: Value) {
        let had = self.kube.get(key).is_some();
        self.kube.create(key, manifest);
        if let (false, Some(object)) = (had, self.kube.get(key)) {
            self.oracle.created(object);
            self.tally.saw(&key.1);
        }
    }

    fn edit_spec(&mut self, n: u8, change: impl FnOnce(&mut Value)) {
        self.kube
            .edit(&instance(n), |object| change(&mut object["spec"]));
        if let Some(object) = self.kube.get(&instance(n)) {
            self.oracle.edited(object);
        }
    }

    /// Changes to the other one of two images.
    fn edit_image(&mut self, n: u8) {
        self.edit_spec(n, |spec| {
            let example = catalogue::example();
            let is_first = spec["image"]["id"] == example.image;
            let other = [example.image, example.other_image][usize::from(is_first)];
            spec["image"] = json!({"id": other});
        });
    }

    fn edit_power(&mut self, n: u8) {
        self.edit_spec(n, |spec| {
            let is_stopped = spec["powerState"] == "Stopped";
            spec["powerState"] = json!(if is_stopped { "Running" } else { "Stopped" });
        });
    }

    /// Requests a reinstall with the current image of the spec.
    fn acknowledge_reinstall(&mut self, n: u8) {
        let token = self.token();
        self.edit_spec(n, |spec| {
            let image = spec["image"]["id"].clone();
            spec["reinstall"] = json!({"token": token, "image": image});
        });
    }

    fn label(&mut self, n: u8) {
        let token = self.token();
        self.kube.edit(&instance(n), |object| {
            object["metadata"]["labels"]["touched"] = json!(token);
        });
    }

    /// Puts the other one of two passwords into the Secret that Instances name.
    fn rotate_password(&mut self) {
        self.password = 1 - self.password;
        let value = base64(self.password());
        let key = (SECRETS, "login".to_owned());
        self.kube
            .edit(&key, |secret| secret["data"]["value"] = json!(value));
    }

    /// Ends the rotation of passwords, since a run with repeated rotations never becomes idle.
    pub(super) fn rotates_no_more(&mut self) {
        let rotates =
            |object: &Value| object["spec"]["login"]["generate"]["rotateEvery"].is_string();
        let all = self.kube.all();
        let keys: Vec<Key> = all
            .filter(|(_, object)| rotates(object))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.kube.edit(&key, |object| {
                merge(&mut object["spec"], &specs::rotates_no_more());
            });
        }
    }

    /// A user changes the current password in the login Secret.
    fn edit_login(&mut self, n: u8) {
        self.tokens += 1;
        let password = format!("Users{}pass-word", self.tokens);
        self.oracle.users_password(&password);
        let value = base64(&password);
        self.kube.edit(&login_secret(n), |secret| {
            secret["data"]["password"] = json!(value);
        });
    }

    fn offer_image(&mut self) {
        let catalogue = self.cloud.catalogue_mut();
        let Some(image) = catalogue.image(catalogue::example().image).cloned() else {
            return;
        };
        let id = "img-anotherofname".to_owned();
        if catalogue.image(&id).is_none() {
            catalogue.add_image(Image { id, ..image });
        }
    }

    fn force_finalizers(&mut self, n: u8) {
        let key = instance(n);
        if let Some(object) = self.kube.get(&key) {
            self.oracle.interferes(object);
        }
        self.kube
            .edit(&key, |object| object["metadata"]["finalizers"] = json!([]));
    }

    /// Creates an object from a stored manifest: metadata, annotations and finalizers as stored, without status.
    fn put_back(&mut self, from: u8, to: u8) {
        let Some(mut object) = self.backups.get(&from).cloned() else {
            return;
        };
        let meta = &object["metadata"];
        object["metadata"] = json!({
            "annotations": meta["annotations"].clone(),
            "finalizers": [FINALIZER],
        });
        self.create(&instance(to), object);
    }

    /// Applies the manifest under another name as well.
    fn copy(&mut self, n: u8) {
        if let Some(object) = self.kube.get(&instance(n)) {
            self.backups.insert(n, object.clone());
            self.put_back(n, n + 5);
        }
    }

    /// Restores the whole store from its snapshot, if there is one.
    fn restore_etcd(&mut self) {
        let Some(snapshot) = self.snapshot.clone() else {
            return;
        };
        for (_, object) in self.kube.all() {
            self.oracle.interferes(object);
        }
        self.kube.restore(&snapshot);
        let account = self.kube.get(&(ACCOUNTS, "default".to_owned()));
        let most = account.and_then(|account| account["spec"]["maxInstances"].as_u64());
        self.oracle.is_limited(most);
        self.oracle.went_back(&self.kube);
    }

    /// Creates the object with its record from another cluster, where it had the name that it gets here.
    fn immigrate(&mut self, n: u8) {
        let (Some(object), to) = (self.kube.get(&instance(n)), n + 5) else {
            return;
        };
        let mut object = object.clone();
        let annotation = &mut object["metadata"]["annotations"][BINDING];
        let mut record: Value =
            serde_json::from_str(annotation.as_str().unwrap_or_default()).unwrap_or_default();
        record["cluster"] = json!("another-cluster");
        record["name"] = json!(instance(to).1);
        *annotation = json!(record.to_string());
        self.backups.insert(to, object);
        self.put_back(to, to);
    }

    fn console(&mut self, step: &Step, n: u8, action: impl FnOnce(String) -> Console) {
        let recorded = self
            .kube
            .get(&instance(n))
            .and_then(crate::oracle::record)
            .and_then(|record| record.id);
        let server = recorded.and_then(|id| self.cloud.server(&id));
        let Some(server) = server.filter(|server| server.released_at.is_none()) else {
            return self.finds_nothing(step);
        };
        let action = action(server.id.clone());
        let releases = matches!(action, Console::Release { .. });
        self.oracle.at_console(&server, releases);
        self.at_console(action);
    }

    fn at_console(&mut self, action: Console) {
        // Cannot fail: its target existed a moment ago.
        let _ = self.cloud.console(action);
        self.advance();
    }
}

/// The Secret that the operator creates for `web-n`.
pub fn login_secret(n: u8) -> Key {
    (SECRETS, format!("web-{n}-login"))
}

/// The connection Secret of `web-n`.
fn connection_secret(n: u8) -> Key {
    (SECRETS, format!("web-{n}-connection"))
}

fn strip(object: &mut Value) {
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("annotations");
        meta.remove("finalizers");
    }
}
