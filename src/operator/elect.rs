//! The flags of leader election, named as kube-scheduler names them.

use crate::api::valid;
use crate::program::duration;
use crate::runtime::Shard;
use crate::runtime::lease::LeaseSettings;
use clap::{ArgAction, Args};
use std::time::Duration;

/// The file in which a Pod finds the namespace of its ServiceAccount.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Each process watches the objects of all shards, so more shards than this cost the apiserver more than they bring.
const SHARDS_MAX: i64 = 64;

#[derive(Debug, Args)]
pub(super) struct ElectArgs {
    /// Act only while holding a Lease, so that there can be several replicas; --leader-elect=false for a single one.
    #[arg(long, env = "CSO_LEADER_ELECT", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    leader_elect: bool,

    /// Divide the namespaces into this number of shards, each with a Lease of its own, so that several replicas act at the same
    /// time: Pod i of a StatefulSet acts on shard i modulo the number.
    #[arg(long, env = "CSO_SHARDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=SHARDS_MAX),
          value_name = "NUMBER")]
    shards: u16,

    /// How long standbys wait, since they saw the Lease change last, before they take it.
    #[arg(long, env = "CSO_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = duration, value_name = "DURATION")]
    leader_elect_lease_duration: Duration,

    /// How long the active process continues without a successful renewal before it ends.
    #[arg(long, env = "CSO_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_parser = duration, value_name = "DURATION")]
    leader_elect_renew_deadline: Duration,

    /// Between two renewals.
    #[arg(long, env = "CSO_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_parser = duration, value_name = "DURATION")]
    leader_elect_retry_period: Duration,

    /// Name of the Lease; with shards, the Lease of the first of four has -0-of-4 behind it.
    #[arg(
        long,
        env = "CSO_LEADER_ELECT_RESOURCE_NAME",
        default_value = "cloud-server-operator",
        value_name = "NAME"
    )]
    leader_elect_resource_name: String,

    /// Namespace of the Lease; the Pod's own when absent.
    #[arg(long, env = "CSO_LEADER_ELECT_RESOURCE_NAMESPACE", value_parser = namespace, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
}

impl ElectArgs {
    /// The holder and the Lease of this process; None with --leader-elect=false.
    ///
    /// # Errors
    /// No namespace, or times that do not fit together: a sentence that names the flags.
    pub(super) fn settings(&self) -> Result<Option<LeaseSettings>, String> {
        if !self.leader_elect {
            return if self.shards == 1 {
                Ok(None)
            } else {
                Err("--shards needs Leases: leave --leader-elect=false out".to_owned())
            };
        }
        let namespace = own_namespace(self.leader_elect_resource_namespace.as_deref());
        let namespace = namespace.ok_or(
            "no namespace for the Lease: set --leader-elect-resource-namespace or POD_NAMESPACE, or \
             --leader-elect=false where this is the only replica",
        )?;
        let settings = LeaseSettings {
            name: self.leader_elect_resource_name.clone(),
            shard: shard(self.shards, std::env::var("POD_NAME").ok().as_deref())?,
            namespace,
            identity: identity(),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        settings.check()?;
        Ok(Some(settings))
    }
}

/// The shard of the Pod with this name: by its ordinal in the StatefulSet.
fn shard(count: u16, pod: Option<&str>) -> Result<Shard, String> {
    if count == 1 {
        return Ok(Shard::WHOLE);
    }
    let (_, ordinal) = pod
        .and_then(|name| name.rsplit_once('-'))
        .unwrap_or_default();
    // The names of a Deployment's Pods end with five characters, which may all be digits.
    let ordinal = ordinal.parse().ok().filter(|_| ordinal.len() < 5);
    let ordinal = ordinal.ok_or_else(|| {
        format!(
            "--shards needs a Pod of a StatefulSet, whose name ends with its ordinal; POD_NAME is {:?}",
            pod.unwrap_or_default()
        )
    })?;
    Ok(Shard::of_ordinal(ordinal, count))
}

/// The name of a namespace, or nothing.
pub(super) fn namespace(text: &str) -> Result<String, valid::InvalidName> {
    let name = text.trim();
    match name.is_empty() {
        true => Ok(String::new()),
        false => valid::namespace(name).map(|()| name.to_owned()),
    }
}

/// The namespace that a flag names, or the Pod's own, if it is in one.
pub(super) fn own_namespace(flag: Option<&str>) -> Option<String> {
    flag.map(ToOwned::to_owned)
        .or_else(|| std::env::var("POD_NAMESPACE").ok())
        .or_else(|| std::fs::read_to_string(OWN_NAMESPACE).ok())
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty())
}

/// The Pod, or the machine, and a number: a container that is started again has the same name and is another process.
fn identity() -> String {
    let host = std::env::var("POD_NAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .unwrap_or_default();
    format!("{}_{:016x}", host.trim(), rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        elect: ElectArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<LeaseSettings>, String> {
        let flags = [
            &["run", "--leader-elect-resource-namespace=ours"][..],
            flags,
        ]
        .concat();
        Line::try_parse_from(flags)
            .map_err(|error| error.to_string())?
            .elect
            .settings()
    }

    #[test]
    fn leader_election_is_on_by_default() {
        let on = settings(&[]).unwrap().unwrap();
        assert_eq!(on.lease_duration, Duration::from_secs(15));
        assert_eq!(
            (on.name.as_str(), on.namespace.as_str()),
            ("cloud-server-operator", "ours")
        );
        assert!(settings(&["--leader-elect"]).unwrap().is_some());
        assert_eq!(settings(&["--leader-elect=false"]), Ok(None));
        assert_eq!(on.shard, Shard::WHOLE);
        let why = settings(&["--shards=4", "--leader-elect=false"]).unwrap_err();
        assert!(why.contains("--leader-elect"), "{why}");
        assert!(settings(&["--shards=0"]).is_err());
    }

    #[test]
    fn the_ordinal_of_a_pod_gives_its_shard() {
        let of = |pod| shard(4, Some(pod)).map(|shard| shard.to_string());
        assert_eq!(of("cso-0").as_deref(), Ok("0-of-4"));
        assert_eq!(of("cso-7").as_deref(), Ok("3-of-4"));
        for other in ["cso-7d9f8-24589", "cso-x", "cso", ""] {
            let why = of(other).unwrap_err();
            assert!(why.contains("StatefulSet"), "{other}: {why}");
        }
        assert!(shard(4, None).is_err());
        assert_eq!(shard(1, None), Ok(Shard::WHOLE));
    }

    #[test]
    fn durations_are_those_of_go_and_may_be_shorter_than_a_second() {
        let short = settings(&[
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=500ms",
        ]);
        assert_eq!(
            short.unwrap().unwrap().retry_period,
            Duration::from_millis(500)
        );
        assert!(settings(&["--leader-elect-retry-period=-1s"]).is_err());
        assert!(settings(&["--leader-elect-retry-period=2"]).is_err());
    }

    #[test]
    fn times_that_do_not_fit_together_are_refused_by_the_names_of_their_flags() {
        let refused = |flag: &str, named: [&str; 2]| {
            let why = settings(&[flag]).unwrap_err();
            assert!(named.iter().all(|name| why.contains(name)), "{why}");
        };
        let (duration, deadline, period) = (
            "--leader-elect-lease-duration",
            "--leader-elect-renew-deadline",
            "--leader-elect-retry-period",
        );
        refused("--leader-elect-lease-duration=10s", [duration, deadline]);
        refused("--leader-elect-renew-deadline=2400ms", [deadline, period]);
        refused("--leader-elect-retry-period=0s", [period, period]);
    }

    #[test]
    fn two_processes_of_one_name_are_two() {
        assert_ne!(identity(), identity());
    }
}
