//! The other teams of a process, each in its own namespace and with its own services. They are not judged: they exist to show
//! that the judged team makes no more calls, and waits no longer, than without them.

use super::{Universe, base64};
use crate::apiserver::{ACCOUNTS, INSTANCES, NAMESPACE, SECRETS, name_in};
use crate::fault::Kind;
use crate::link::kind_of;
use crate::tenants::is_ready;
use cloud_server_operator::runtime::Shard;
use cloud_simulator::Readings;
use cloud_simulator::catalogue;
use cloud_simulator::model::{Config, Durations, Effect, World};
use cloud_simulator::wire::{RawRequest, Unserved, parse, render, render_refusal, unmodelled};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The behaviour of a team's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// They work normally.
    Well,
    /// They work normally, and every other Instance requests a package that is not on sale.
    Careless,
    /// No connection opens.
    Dead,
    /// They accept every request and never answer.
    Silent,
    /// Every answer takes twenty seconds.
    Slow,
    /// They answer every read at once, and never a mutating call, which therefore holds its slot until its deadline.
    Lure,
    /// They refuse everything with 429.
    Busy,
    /// They answer with text that is not JSON.
    Garbage,
    /// They answer with half a million brackets.
    Flood,
}

impl Manner {
    /// Every behaviour that causes trouble.
    pub const BAD: [Self; 7] = [
        Self::Lure,
        Self::Dead,
        Self::Silent,
        Self::Slow,
        Self::Busy,
        Self::Garbage,
        Self::Flood,
    ];
}

/// A team.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// The behaviour of its services.
    pub manner: Manner,
    /// Number of its Accounts, each at its own service.
    pub accounts: u16,
    /// Number of Instances of each Account.
    pub instances: u16,
}

/// A small team. The first two such teams are in different shards of two.
pub const OTHERS: Neighbour = Neighbour {
    manner: Manner::Well,
    accounts: 1,
    instances: 2,
};

/// The reaction of a neighbour's service to a call.
pub enum Fate {
    /// No connection opens.
    NotSent,
    /// The call is never answered.
    Never,
    /// The answer: a delay, a status and a body.
    Answer(Duration, u16, Vec<u8>),
}

/// Their services, by host.
#[derive(Default)]
pub struct Neighbours {
    services: BTreeMap<String, (Manner, World)>,
    /// The work for them so far.
    pub done: Done,
}

/// The work for neighbours, and its result.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Number of calls to their services, by kind.
    pub calls: BTreeMap<Kind, usize>,
    /// Number of those calls by processes that do not act on the judged team.
    pub calls_of_others: usize,
    /// Number of patches of their Instances and Accounts and of their status, including refused ones.
    pub writes: usize,
    /// Servers that were bought for them.
    pub bought: usize,
    /// When the last of these was bought, from the beginning of the run.
    pub last_bought: Duration,
    /// When the first of their Instances became Ready, from the beginning of the run.
    pub first_ready: Option<Duration>,
    /// Number of their Instances that are Ready.
    pub ready: usize,
}

impl Done {
    /// Total number of calls to their services.
    pub fn all_calls(&self) -> usize {
        self.calls.values().sum()
    }
}

const TOKEN: &str = "token-of-a-neighbour";
const SLOW: Duration = Duration::from_secs(20);
const BRACKETS: usize = 500_000;

impl Neighbours {
    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.services.is_empty()
    }

    /// Whether this is the host of one of their services.
    pub fn serve(&self, host: &str) -> bool {
        self.services.contains_key(host)
    }
}

impl Universe {
    /// Creates the neighbours' objects, which exist when the first process starts.
    pub(super) fn furnish_neighbours(&mut self) {
        for (number, neighbour) in self.setting.neighbours.clone().iter().enumerate() {
            let namespace = format!("team-{}", number + 2);
            let token = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "cloudserver.dev/token",
                "data": {"value": base64(TOKEN)},
            });
            let secret = (SECRETS, name_in(&namespace, "cloud-token"));
            self.kube.create(&secret, token);
            for account in 1..=neighbour.accounts {
                self.furnish_account(&namespace, account, neighbour);
            }
        }
        self.kube.take_changes();
    }

    fn furnish_account(&mut self, namespace: &str, number: u16, neighbour: &Neighbour) {
        let host = format!("{namespace}-{number}.example");
        let account = format!("account-{number}");
        let manifest = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {},
            "spec": {
                "endpoint": format!("https://{host}/api"),
                "tokenSecretRef": {"name": "cloud-token", "key": "value"},
                "settleSeconds": self.setting.settle,
            },
        });
        self.kube
            .create(&(ACCOUNTS, name_in(namespace, &account)), manifest);
        let example = catalogue::example();
        for instance in 1..=neighbour.instances {
            let is_wrong = neighbour.manner == Manner::Careless && instance % 2 == 0;
            let package = if is_wrong { "none" } else { example.package };
            let manifest = json!({
                "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "metadata": {},
                "spec": {
                    "accountRef": {"name": account},
                    "region": example.region, "zone": example.zone,
                    "package": {"code": package}, "image": {"id": example.image},
                    "firewall": {"id": example.firewall}, "login": {"sshKey": {"id": example.key}},
                    "powerState": "Running",
                },
            });
            let name = name_in(namespace, &format!("web-{number}-{instance}"));
            self.kube.create(&(INSTANCES, name), manifest);
        }
        let world = World::new(Config {
            seed: self.setting.seed.wrapping_add(u64::from(number)),
            durations: Durations::all(self.setting.tasks),
            readings: Readings::default(),
            token: TOKEN.into(),
        });
        self.neighbours
            .services
            .insert(host, (neighbour.manner, world));
    }

    /// The work for them, and how many of their Instances are Ready.
    pub fn done_for_neighbours(&self) -> Done {
        let all = self.kube.all_of_neighbours();
        Done {
            ready: all
                .filter(|(key, object)| key.0 == INSTANCES && is_ready(object))
                .count(),
            ..self.neighbours.done.clone()
        }
    }

    /// A call of a neighbour's service.
    pub fn call_neighbour(&mut self, host: &str, raw: &RawRequest, shard: Shard) -> Fate {
        let now = self.timestamp();
        let done = &mut self.neighbours.done;
        *done.calls.entry(kind_of(&raw.path)).or_default() += 1;
        done.calls_of_others += usize::from(!shard.owns(NAMESPACE));
        // team-2-1.example
        let team = host.rsplit_once('-').map_or(host, |(team, _)| team);
        if !shard.owns(team) {
            let violation = format!("{host} was called by who acts on shard {shard}");
            self.oracle.violations.push(violation);
        }
        let Some((manner, world)) = self.neighbours.services.get_mut(host) else {
            return Fate::NotSent;
        };
        let after = match manner {
            Manner::Dead => return Fate::NotSent,
            Manner::Silent => return Fate::Never,
            Manner::Busy => {
                let body = json!({"code": "Request.Limit", "httpStatus": 429, "message": "slower"});
                return Fate::Answer(Duration::ZERO, 429, body.to_string().into_bytes());
            }
            Manner::Garbage => return Fate::Answer(Duration::ZERO, 200, vec![b'\xff', b'{', 0]),
            Manner::Flood => {
                return Fate::Answer(Duration::ZERO, 200, vec![b'['; BRACKETS]);
            }
            Manner::Lure if kind_of(&raw.path).is_mutating_call() => return Fate::Never,
            Manner::Well | Manner::Careless | Manner::Lure => Duration::ZERO,
            Manner::Slow => SLOW,
        };
        world.advance(now);
        let readings = world.readings().clone();
        let reply = match parse(raw) {
            Ok((endpoint, request)) => {
                let reply = world.call(now, Some(TOKEN), &request);
                let is_bought = matches!(reply.effect, Effect::Created { .. });
                if is_bought {
                    self.neighbours.done.bought += 1;
                    self.neighbours.done.last_bought = self.began.elapsed();
                }
                render(endpoint, &readings, &reply.outcome)
            }
            Err(Unserved::Refused(refusal)) => render_refusal(&readings, &refusal),
            Err(Unserved::Unmodelled) => unmodelled(&raw.method, &raw.path),
        };
        Fate::Answer(after, reply.status, reply.body.to_string().into_bytes())
    }
}
