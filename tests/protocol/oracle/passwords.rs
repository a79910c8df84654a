//! Judges the Secrets that the operator creates: the password of a server is never lost, and its Secret shows it as in effect
//! once it is, not earlier.

use super::{Oracle, Rule, Verdict, bearing, is_alive, name_of, record, speaks};
use crate::apiserver::{Apiserver, INSTANCES, SECRETS, uid};
use cloud_server_operator::api::GeneratedLogin;
use cloud_server_operator::api::Marker;
use cloud_server_operator::api::names::{ROTATED_AT, SECRET_ROLE};
use cloud_server_operator::runtime::chance;
use cloud_simulator::model::{ServerInfo, World};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The rotation period of the runs.
const ROTATES_EVERY: Duration = Duration::from_secs(30);

/// The known passwords and their Secrets.
#[derive(Debug, Default)]
pub(super) struct Passwords {
    /// Passwords that users know, independently of Secrets.
    of_users: BTreeSet<String>,
    /// How often a login Secret was deleted, by name.
    dropped: BTreeMap<String, usize>,
    /// How often the operator created one, by name and by UID of the object.
    made: BTreeMap<String, BTreeMap<String, usize>>,
}

/// The passwords in a login Secret.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Password,
    Current,
    Pending,
    Previous,
}

impl Slot {
    const ALL: [Self; 4] = [Self::Password, Self::Current, Self::Pending, Self::Previous];

    fn of(self, secret: &Value) -> Option<String> {
        let key = match self {
            Self::Password => "password",
            Self::Current => "current",
            Self::Pending => "pending",
            Self::Previous => "previous",
        };
        value(secret, key)
    }
}

impl Oracle {
    /// A user knows this password.
    pub fn users_password(&mut self, password: &str) {
        self.passwords.of_users.insert(password.to_owned());
    }

    /// A user deletes a login Secret with its content.
    pub fn dropped_login(&mut self, name: &str) {
        *self.passwords.dropped.entry(name.to_owned()).or_default() += 1;
    }

    /// The operator created a Secret.
    pub fn made_secret(&mut self, now: &Value, cloud: &World, kube: &Apiserver) {
        if !is_login(now) {
            return self.judge_connection(now, cloud, kube);
        }
        let name = name_of(now);
        let has_server = owner(now, kube).is_some_and(|object| recorded(object, cloud).is_some());
        let owner = owner_uid(now);
        let made = self.passwords.made.entry(name.to_owned()).or_default();
        let made = made.entry(owner).or_default();
        *made += 1;
        let may = 1 + self.passwords.dropped.get(name).copied().unwrap_or(0);
        let why = (*made > may)
            .then(|| format!("Secret {name} was made {made} times, at most {may} may be"));
        // A moment passes between the last read of the object and the creation of its Secret; it is longer for a process that
        // is stopped.
        let is_excused = self.is_any_outcome_uncertain() || self.troubles.slow;
        self.judge(Rule::SecretMade, Verdict::of(why, is_excused));
        let [password, current, waits] =
            [Slot::Password, Slot::Current, Slot::Pending].map(|slot| slot.of(now));
        let is_whole = match &waits {
            None => password.is_some() && password == current,
            Some(_) => password.is_none() && current.is_none(),
        };
        let why = (!is_whole).then(|| format!("Secret {name} was made without a password"));
        self.judge(Rule::SecretWhole, Verdict::of(why, false));
        let why = (has_server && waits.is_none()).then(|| {
            format!("Secret {name} was made with a password as in force that the server has not")
        });
        self.judge(Rule::SecretWhole, Verdict::of(why, self.is_excused()));
        self.judge_copies(cloud, kube);
    }

    /// The operator changed a Secret.
    pub(super) fn changed_secret(
        &mut self,
        former: &Value,
        now: &Value,
        cloud: &World,
        kube: &Apiserver,
    ) {
        if !is_login(now) {
            return self.judge_connection(now, cloud, kube);
        }
        let Some(object) = owner(now, kube) else {
            return;
        };
        let is_excused = self.is_excused();
        // The Secret may show the password of a released server until the operator knows of the release.
        let last = record(object).filter(|record| speaks(record, object));
        let last = last.and_then(|record| cloud.server(&record.id?));
        let is_unsure = last
            .as_ref()
            .is_some_and(|server| self.is_unsure(&server.id, cloud));
        let in_force = last.and_then(|server| cloud.password_of(&server.id));
        let name = name_of(now);
        for slot in [Slot::Password, Slot::Current] {
            let (was, is) = (slot.of(former), slot.of(now));
            if was == is {
                continue;
            }
            let why = (is != in_force).then(|| {
                format!("{slot:?} of Secret {name} was changed to what the server has not")
            });
            self.judge(Rule::InForce, Verdict::of(why, is_excused || is_unsure));
        }
        let is_edited = Slot::Password.of(former) != Slot::Current.of(former);
        let why = match (Slot::Pending.of(former), Slot::Pending.of(now)) {
            (Some(waits), Some(other)) if waits != other => Some("gave way to another one"),
            (Some(waits), None)
                if Slot::Password.of(now).as_ref() != Some(&waits) && !is_edited =>
            {
                Some("was dropped")
            }
            (None, Some(_)) if !is_due(object, former) => Some("was made before it was due"),
            _ => None,
        };
        let why = why.map(|why| format!("a password that waits in Secret {name} {why}"));
        self.judge(Rule::Waiting, Verdict::of(why, is_excused));
        self.judge_copies(cloud, kube);
    }

    /// Judges that the Secret contains every server's generated password, at every moment.
    pub(super) fn judge_copies(&mut self, cloud: &World, kube: &Apiserver) {
        let is_excused = self.is_excused();
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let name = format!("{}-login", key.1);
            if !object["spec"]["login"]["generate"].is_object() {
                continue;
            }
            // A deleted Secret cannot be looked up until another password is set.
            let was_dropped = self.passwords.dropped.contains_key(&name);
            let secret = kube
                .get(&(SECRETS, name))
                .filter(|s| owner_uid(s) == uid(object));
            let has = |password: &String| {
                let slots = Slot::ALL.iter();
                secret.is_some_and(|s| {
                    slots
                        .clone()
                        .any(|slot| slot.of(s).as_ref() == Some(password))
                })
            };
            let servers = match recorded(object, cloud) {
                Some(server) => vec![server],
                None => bearing(cloud, &Marker::of_uid(&uid(object))),
            };
            let of_users = &self.passwords.of_users;
            let lost = servers.into_iter().map(|server| {
                let password = cloud.password_of(&server.id);
                let is_lost = password
                    .is_some_and(|password| !has(&password) && !of_users.contains(&password));
                // A password change for a former owner that released the server is not promised, and neither is one by another
                // Instance that also imported it.
                let is_handed_on =
                    self.kept.contains(&server.id) || self.were_imported_twice.contains(&server.id);
                let why = is_lost.then(|| {
                    format!(
                        "no Secret holds the password of server {} of {}",
                        server.id, key.1
                    )
                });
                Verdict::of(why, is_excused || was_dropped || is_handed_on)
            });
            let verdicts: Vec<Verdict> = lost.collect();
            for verdict in verdicts {
                self.judge(Rule::Known, verdict);
            }
        }
    }

    /// Judges that the connection Secret shows the password in effect.
    fn judge_connection(&mut self, secret: &Value, cloud: &World, kube: &Apiserver) {
        let server = owner(secret, kube).and_then(|object| recorded(object, cloud));
        let is_unsure = server
            .as_ref()
            .is_some_and(|server| self.is_unsure(&server.id, cloud));
        let (held, has) = (
            value(secret, "password"),
            server.and_then(|server| cloud.password_of(&server.id)),
        );
        // The password of a released server misleads no client.
        if held.is_none() || has.is_none() {
            return;
        }
        let why = (held != has).then(|| {
            format!(
                "Secret {} holds another password than the server has",
                name_of(secret)
            )
        });
        let is_excused = self.is_excused() || is_unsure;
        self.judge(Rule::Connection, Verdict::of(why, is_excused));
    }

    /// When idle: the Secrets match the server, and no password is pending.
    pub(super) fn secrets_when_idle(
        &self,
        object: &Value,
        server: &ServerInfo,
        cloud: &World,
        kube: &Apiserver,
    ) -> Vec<(Rule, Verdict)> {
        let has = cloud.password_of(&server.id);
        let t = &self.troubles;
        // With two processes, the last password may be the old one, and nothing shows it (docs).
        let is_unknown = t.takeovers > 0
            || t.no_lease
            || t.restores > 0
            || self.is_forced(name_of(object))
            || t.copied
            || t.too_late
            || self.is_unsure(&server.id, cloud);
        let get = |name: String| kube.get(&(SECRETS, name));
        let login = get(format!("{}-login", name_of(object)));
        let mut found = Vec::new();
        let mut judge = |why: Option<&str>, is_excused| {
            let why = why.map(|why| format!("L1: {}: Available, {why}", name_of(object)));
            found.push((Rule::SecretsWhenIdle, Verdict::of(why, is_excused)));
        };
        if object["spec"]["login"]["generate"].is_object() {
            let why = login.map(|secret| {
                let held = [Slot::Password.of(secret), Slot::Current.of(secret)];
                let is_other = held.iter().any(|password| *password != has);
                (is_other || Slot::Pending.of(secret).is_some())
                    .then_some("and its login Secret differs")
            });
            judge(why.unwrap_or(Some("without its login Secret")), is_unknown);
        }
        let Some(connection) = object["spec"]["connectionSecret"]["name"].as_str() else {
            return found;
        };
        let Some(secret) = get(connection.to_owned()) else {
            // Its login Secret was restored to a state before its password was set, and waits for another one (docs).
            let is_put_back = t.restores > 0
                && login.is_some_and(|login| {
                    let [password, current] =
                        [Slot::Password, Slot::Current].map(|slot| slot.of(login));
                    password != current || Slot::Pending.of(login).is_some()
                });
            judge(Some("without its connection Secret"), is_put_back);
            return found;
        };
        let is_held = value(secret, "password") == has;
        let address = object["status"]["addresses"]["public"].as_str();
        let is_reached = value(secret, "host").as_deref() == address;
        let why = "and its connection Secret differs";
        // A copied object names a Secret of another owner.
        let is_excused = t.copied || (is_reached && (is_unknown || t.wiped));
        judge((!is_held || !is_reached).then_some(why), is_excused);
        found
    }

    /// The newest password change, or the reinstall that was to set it, failed or was interrupted at the console, and the
    /// service claims not to know its task: the change counts as done (docs). Or it was a call for a former owner.
    pub(super) fn is_unsure(&self, server: &str, cloud: &World) -> bool {
        let may_be_unknown = self.troubles.tasks_denied > 0 || cloud.readings().task_kept.is_some();
        self.may_be_for_a_former_owner(server)
            || (self.broken_passwords.contains(server) && may_be_unknown)
    }

    /// Cases in which promises are impossible: two processes, a late call, and changes of objects behind the operator's back.
    fn is_excused(&self) -> bool {
        self.is_any_outcome_uncertain() || self.troubles.copied || self.troubles.too_late
    }
}

/// Whether a new password is due, by the annotations of the Secret.
fn is_due(object: &Value, secret: &Value) -> bool {
    let login = object["spec"]["login"]["generate"].clone();
    let login: GeneratedLogin = serde_json::from_value(login).unwrap_or_default();
    let stamp = secret["metadata"]["annotations"][ROTATED_AT].as_str();
    let stamp: Option<Timestamp> = stamp.and_then(|text| text.parse().ok());
    let Some(stamp) = stamp else { return false };
    // A rotation that is removed from the spec while it is in progress is completed.
    let every = login.rotates_every().unwrap_or(ROTATES_EVERY);
    let age = chance::time_of_day().duration_since(stamp);
    u64::try_from(age.as_secs()).is_ok_and(|age| age >= every.as_secs())
}

/// The recorded server of an object, if it exists.
fn recorded(object: &Value, cloud: &World) -> Option<ServerInfo> {
    let record = record(object).filter(|record| speaks(record, object))?;
    cloud.server(&record.id?).filter(is_alive)
}

fn is_login(secret: &Value) -> bool {
    secret["metadata"]["labels"][SECRET_ROLE] == "login"
}

fn owner_uid(secret: &Value) -> String {
    let owner = &secret["metadata"]["ownerReferences"][0]["uid"];
    owner.as_str().unwrap_or_default().to_owned()
}

fn owner<'a>(secret: &Value, kube: &'a Apiserver) -> Option<&'a Value> {
    let owner = owner_uid(secret);
    let mut all = kube.all().filter(|(key, _)| key.0 == INSTANCES);
    all.find_map(|(_, object)| (uid(object) == owner).then_some(object))
}

fn value(secret: &Value, key: &str) -> Option<String> {
    let text = secret["data"][key].as_str()?;
    let bytes = data_encoding::BASE64.decode(text.as_bytes()).ok()?;
    String::from_utf8(bytes).ok()
}
