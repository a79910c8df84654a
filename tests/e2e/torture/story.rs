//! The user's part in a run, and the expected state of the world at its end.

use super::operation::Operation;
use crate::login::{age, hourly, read};
use crate::support::{
    Mark, World, console, counts, ended, eventually, instance, is_ready, mark, new_password,
    other_image, outline, password_of, stopped, token, with,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::model::Console;
use kube::ResourceExt;
use serde_json::json;

/// The Instance of the run.
const WEB: &str = "web";
/// The Secret that the operator makes for it.
const LOGIN: &str = "web-login";
/// The verbs for an existing server.
const VERBS: [Verb; 5] = [
    Verb::Reinstall,
    Verb::ModifyPassword,
    Verb::Stop,
    Verb::Start,
    Verb::Restart,
];

/// An operation that a user requests.
pub struct Story {
    pub operation: Operation,
    /// Whether the Instance must be gone at the end.
    pub is_deletion: bool,
    /// The state of the world before the operation.
    before: Mark,
    /// For each verb, the numbers of accepted and of carried out calls before the operation.
    taken_before: Vec<(Verb, (usize, usize))>,
}

impl Story {
    /// Prepares the world for the operation.
    pub async fn prepare(world: &mut World, operation: Operation) -> Self {
        let mut story = Self {
            operation,
            is_deletion: operation == Operation::Delete,
            before: Mark::default(),
            taken_before: Vec::new(),
        };
        let (manifest, power) = match operation {
            Operation::Create | Operation::LongCreate => return story,
            Operation::Import => {
                world.add_unowned_servers(World::TOKEN, 1);
                return story;
            }
            Operation::Rotation => (hourly(WEB), "STARTED"),
            Operation::Recreate => (recreated(None), "STARTED"),
            Operation::Start => (stopped(WEB), "STOPPED"),
            _ => (instance(WEB), "STARTED"),
        };
        world.apply(&manifest).await;
        eventually("it is as the run begins", async || {
            world.revive().await;
            let web = world.get(WEB).await;
            let status = web.status.as_ref();
            let state = status.and_then(|status| status.detail.get("ecsStatus"));
            match state.is_some_and(|state| is_ready(&web) && state == power) {
                true => Ok(()),
                false => Err(outline(&web)),
            }
        })
        .await;
        story.before = mark(world, WEB).await;
        story.taken_before = VERBS.map(|verb| (verb, counts(world, verb, None))).to_vec();
        story
    }

    /// Requests it.
    pub async fn ask(&self, world: &World) {
        let manifest = match self.operation {
            Operation::Delete => return self.delete(world).await,
            Operation::Password => return new_password(world).await,
            Operation::Rotation => return age(world, LOGIN, 2).await,
            Operation::Recreate => {
                let server = world.only_server(&world.get(WEB).await).id;
                console(world, Console::Release { server });
                // The listing of an idle fleet is too rare to wait for.
                recreated(Some("look"))
            }
            Operation::Import => with(WEB, |spec| spec["import"] = json!({"name": "stranger-0"})),
            Operation::Reinstall | Operation::StoppingReinstall => other_image(WEB),
            Operation::Stop => stopped(WEB),
            Operation::Restart => token(WEB, "one"),
            Operation::Create | Operation::LongCreate | Operation::Start => instance(WEB),
        };
        world.apply(&manifest).await;
    }

    /// How many calls of a verb the service has accepted since, and how many it carried out.
    pub fn taken(&self, world: &World, verb: Verb) -> (usize, usize) {
        let before = self.taken_before.iter().find(|(each, _)| *each == verb);
        let (accepted, completed) = before.map_or((0, 0), |(_, before)| *before);
        let now = counts(world, verb, None);
        (now.0 - accepted, now.1 - completed)
    }

    /// How many attempts of the operation the history contains.
    pub async fn attempts(&self, world: &World) -> usize {
        let web = world.get(WEB).await;
        let newer = web.status.is_some().then(|| ended(&web, &self.before));
        let newer = newer.into_iter().flatten();
        newer
            .filter(|entry| entry.verb == self.operation.verb())
            .count()
    }

    /// The current version of the Instance, if it exists.
    pub async fn version(&self, world: &World) -> Option<String> {
        let web = world.instances().get_opt(WEB).await.ok().flatten();
        web.and_then(|web| web.resource_version())
    }

    /// Deletes the Instance.
    pub async fn delete(&self, world: &World) {
        world.delete(WEB).await;
    }

    /// Checks whether the requested state is reached.
    ///
    /// # Errors
    /// The first difference.
    pub async fn is_done(&self, world: &World) -> Result<(), String> {
        let web = world.instances().get_opt(WEB).await;
        match (self.is_deletion, web.map_err(|error| error.to_string())?) {
            (true, Some(web)) => Err(format!("it is there: {}", outline(&web))),
            (true, None) => match world.sim.live_servers() {
                live if live.is_empty() => Ok(()),
                live => Err(format!("servers without an Instance: {live:?}")),
            },
            (false, None) => Err("the Instance is gone".to_owned()),
            (false, Some(web)) => {
                let password = self.password(world).await;
                self.is_kept(world, &web, password.as_deref())
            }
        }
    }

    /// The password that the server must have; none if it logs in by key, or while a password still waits.
    async fn password(&self, world: &World) -> Option<String> {
        match self.operation {
            Operation::Import => None,
            Operation::Rotation => {
                let mut held = read(world, LOGIN).await;
                let is_settled = !held.contains_key("pending");
                held.remove("password").filter(|_| is_settled)
            }
            Operation::Password => Some(World::NEW_PASSWORD.to_owned()),
            _ => Some(World::PASSWORD.to_owned()),
        }
    }

    /// The Instance is Ready, and its one server matches its status.
    fn is_kept(&self, world: &World, web: &Instance, password: Option<&str>) -> Result<(), String> {
        let verb = self.operation.verb();
        let has_ended = verb == Verb::Create || {
            let newer = web.status.is_some().then(|| ended(web, &self.before));
            let mut newer = newer.into_iter().flatten();
            newer.any(|entry| entry.verb == verb && entry.succeeded)
        };
        if !is_ready(web) || !has_ended {
            return Err(outline(web));
        }
        let live = world.sim.live_servers();
        let [server] = live.as_slice() else {
            return Err(format!("live servers: {live:?}"));
        };
        let id = web.status.as_ref().and_then(|status| status.id.as_deref());
        let power = match verb {
            Verb::Stop => "STOPPED",
            _ => "STARTED",
        };
        // An imported server keeps its former name.
        let bearing = usize::from(self.operation != Operation::Import);
        let wrong = [
            ("the recorded id", id != Some(&server.id)),
            ("the marker", world.live(web).len() != bearing),
            (
                "the image",
                Some(&server.image) != web.spec.image.id.as_ref(),
            ),
            (
                "the power state",
                (server.status, server.pending) != (power, "NONE"),
            ),
            (
                "the password",
                password_of(world, &server.id).as_deref() != password,
            ),
        ];
        match wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            None => Ok(()),
            Some((what, _)) => Err(format!("{what} of {}: {server:?}", web.name_any())),
        }
    }
}

/// An Instance whose server is replaced after it is released externally; a token requests a check now.
fn recreated(look: Option<&str>) -> serde_json::Value {
    with(WEB, |spec| {
        spec["onExternalDeletion"] = json!("Recreate");
        if let Some(token) = look {
            spec["reconcile"] = json!({"token": token});
        }
    })
}
