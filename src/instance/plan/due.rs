//! The differences between the spec and the state that the service last accepted: the operations that are due, and whether the disk
//! may be erased for them.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Applied, PowerState, PurchaseRecord, ReinstallPolicy, Verb};
use crate::cloud::ServerPower;
use crate::credentials::LoginFact;
use crate::instance::observation::{self, Observation, is_idle};
use crate::instance::plan::diff::{as_read, as_specified, target};
use crate::instance::plan::{diff, ended, policy};
use serde_json::{Map, Value};

/// A server, compared with the spec.
pub(super) struct Comparison<'a> {
    pub observed: &'a Observation,
    /// The state that the service last accepted.
    pub applied: Applied,
    /// Whether a reinstall left the server off.
    pub left_off: bool,
    pub detail: &'a Map<String, Value>,
}

/// The decision about a reinstall.
#[derive(Debug)]
pub(super) enum ReinstallDecision {
    /// The spec requests none.
    No,
    /// It is requested and may begin.
    Due,
    /// It is requested and does not begin, for this reason.
    Held(Readiness),
}

impl<'a> Comparison<'a> {
    pub(super) fn of(
        observed: &'a Observation,
        record: &PurchaseRecord,
        detail: &'a Map<String, Value>,
    ) -> Self {
        Self {
            observed,
            applied: diff::applied(observed, record),
            left_off: observed.facts.status.left_off,
            detail,
        }
    }

    /// The power state that the server must have; Unmanaged if it may have any.
    pub(super) fn power(&self) -> PowerState {
        match self.observed.facts.spec.power_state {
            PowerState::Unmanaged if self.left_off => PowerState::Running,
            specified => specified,
        }
    }

    /// Whether the server is still off because of a reinstall.
    pub(super) fn is_still_off(&self) -> bool {
        let has_run = ServerPower::of(self.detail) == Some(ServerPower::Started);
        self.left_off && !has_run && self.power() != PowerState::Stopped
    }

    /// The operations that are due, in order. If one is not possible now, the next one is tried. A server is started before its
    /// password is set, because a service may require that. A reinstall that the service refuses delays no other operation.
    pub(super) fn operations(&self) -> Vec<Verb> {
        let (observed, applied, detail) = (self.observed, &self.applied, self.detail);
        let spec = as_specified(observed);
        let other_key = match spec.image.is_empty() {
            // The image is unresolved, but the spec shows whether it asks for a key or a password.
            true => applied.key.is_some() != observed.facts.spec.login.ssh_key.is_some(),
            false => spec.key != applied.key,
        };
        let reinstall = matches!(self.reinstall(), ReinstallDecision::Due);
        // A change between key and password requires a reinstall, which sets the password.
        let (secret, former) = (&spec.password_secret, &applied.password_secret);
        let is_other = lacks_secret(observed) || is_new(secret.as_ref(), former.as_ref());
        let password = !other_key && is_other && !self.is_same_password();
        let restart = is_new(spec.restart.as_ref(), applied.restart.as_ref());
        let shown = ServerPower::of(detail);
        let is_off = shown == Some(ServerPower::Stopped);
        let is_on = shown == Some(ServerPower::Started);
        let power = self.power();
        let all = [
            (Verb::Reinstall, reinstall),
            (Verb::Start, power == PowerState::Running && is_off),
            (Verb::ModifyPassword, password),
            (Verb::Stop, power == PowerState::Stopped && is_on),
            (
                Verb::Restart,
                restart && power != PowerState::Stopped && is_on,
            ),
        ];
        let due = all.into_iter().filter(|(_, is_due)| *is_due);
        due.map(|(verb, _)| verb).collect()
    }

    /// The applied values, with those that count as applied without a call once no operation is due: for example an image that the
    /// server already has, a Secret that the operator changed without another password, a restart of a server that is off.
    pub(super) fn applied_without_call(&self) -> Applied {
        let (observed, applied, detail) = (self.observed, &self.applied, self.detail);
        let is_done = self.operations().is_empty();
        if !is_done || !is_idle(observation::pending(detail)) {
            return applied.clone();
        }
        let specified = match &observed.login {
            // The Secret that was read may be newer than the version that the watch has shown.
            LoginFact::Ready(credentials) if self.is_same_password() => {
                as_read(observed, credentials)
            }
            _ => as_specified(observed),
        };
        let is_held = matches!(self.reinstall(), ReinstallDecision::Held(_));
        let may_reinstall = !specified.image.is_empty() && !is_held;
        // Nothing is reinstalled here. The values are combined as after a reinstall: those of the spec count, and a token that was
        // removed does not undo what was applied.
        let mut accepted = target(Verb::Reinstall, applied, specified);
        if !may_reinstall {
            // The changes that only a reinstall makes are not applied while none may begin.
            if accepted.key != applied.key {
                accepted
                    .password_secret
                    .clone_from(&applied.password_secret);
            }
            accepted.image.clone_from(&applied.image);
            accepted.key.clone_from(&applied.key);
            accepted.reinstall.clone_from(&applied.reinstall);
        }
        // A missing Secret does not undo an applied password either.
        accepted.password_secret = match &accepted.key {
            Some(_) => None,
            None => (accepted.password_secret).or_else(|| applied.password_secret.clone()),
        };
        match ServerPower::of(detail) {
            Some(_) => accepted.power_state = Some(observed.facts.spec.power_state),
            // Without a power state it is unknown whether the server could have been restarted.
            None => accepted.restart.clone_from(&applied.restart),
        }
        accepted
    }

    /// Decides about a reinstall: another key or image than the applied one, or a new token, requests one.
    pub(super) fn reinstall(&self) -> ReinstallDecision {
        let (observed, applied, detail) = (self.observed, &self.applied, self.detail);
        let spec = as_specified(observed);
        let is_new = is_new(spec.reinstall.as_ref(), applied.reinstall.as_ref());
        let differs = spec.key != applied.key || self.is_other_image(&spec);
        let undecided = ended::undecided(observed, applied);
        let is_requested = differs
        || is_new
        // An undecided reinstall stays requested, unless the spec has the key of that reinstall and a new image, which the server
        // shows: then it happened.
        || undecided.is_some_and(|it| spec.image == applied.image || spec.key != it.target.key);
        if spec.image.is_empty() || !is_requested {
            // An empty image means that the selectors of the spec are unresolved.
            return ReinstallDecision::No;
        }
        let request = observed.facts.spec.reinstall.as_ref();
        let named = request.and_then(|request| request.image.as_deref());
        let named = named.filter(|_| is_new);
        let shown = observation::text(detail, "imageResourceUUID").unwrap_or("another one");
        let image = &spec.image;
        let what = match named {
            Some(named) if named != image => {
                format!("spec.reinstall has a new token, but image {named}; the spec wants {image}")
            }
            _ if spec.image != applied.image => {
                format!("the spec wants image {image}, the server has {shown}")
            }
            _ if spec.key != applied.key => {
                "the spec wants another key pair, or a password instead of one".to_owned()
            }
            _ => "spec.reinstall.token asks for a reinstall".to_owned(),
        };
        let policy = observed.facts.spec.reinstall_policy;
        let is_approved = match (policy, named) {
            (ReinstallPolicy::Never, _) => false,
            (ReinstallPolicy::Automatic | ReinstallPolicy::OnRequest, Some(named)) => {
                named == image
            }
            (policy, None) => policy == ReinstallPolicy::Automatic,
        };
        let held = match undecided {
            Some(retry) => ended::why(retry),
            None if is_approved => return ReinstallDecision::Due,
            None => {
                let (reason, remedy) = match policy {
                    ReinstallPolicy::Never => (
                        Reason::ReinstallForbidden,
                        "use spec.reinstallPolicy OnRequest (asks first) or Automatic".to_owned(),
                    ),
                    ReinstallPolicy::Automatic | ReinstallPolicy::OnRequest => (
                        Reason::ReinstallNeedsApproval,
                        format!(
                            "set spec.reinstall.image to {image}, and a new spec.reinstall.token"
                        ),
                    ),
                };
                let message = format!(
                    "{what}: that takes a reinstall, which ERASES THE DISK, and spec.reinstallPolicy is {policy:?}; to start it, \
                     {remedy}; to keep the disk, set spec.image, spec.login and spec.reinstall back"
                );
                Readiness::stalled(reason, message)
            }
        };
        ReinstallDecision::Held(match policy::is_observed(observed) && undecided.is_none() {
            true => policy::differs(&what),
            false => held,
        })
    }

    /// Whether the spec has another image than the applied one. If the server already shows the image of the spec, the spec accepts
    /// an external change, unless a reinstall that failed left that image.
    fn is_other_image(&self, spec: &Applied) -> bool {
        let shown = observation::text(self.detail, "imageResourceUUID");
        let unfinished = self.observed.facts.status.unfinished_image.as_ref();
        let is_accepted = shown == Some(&spec.image) && unfinished != Some(&spec.image);
        spec.image != self.applied.image && !is_accepted
    }

    /// Whether the password that was read is the applied one: it is from the applied version, or from one that the operator settled
    /// from that version. A password that is pending in a later version does not count: only the next operation that sets it lets
    /// the Secret show it as set.
    fn is_same_password(&self) -> bool {
        let in_force = self.applied.password_secret.as_ref();
        let (LoginFact::Ready(login), true) = (&self.observed.login, in_force.is_some()) else {
            return false;
        };
        let generated = login.generated.as_ref();
        login.secret.as_ref() == in_force
            || generated.is_some_and(|it| it.is_settled && it.settled_from.as_ref() == in_force)
    }
}

/// Whether the generated Secret is missing, for instance because a user deleted it to get another password.
pub(super) fn lacks_secret(observed: &Observation) -> bool {
    observed.facts.spec.login.generate.is_some() && observed.secret_version.is_none()
}

/// Whether the spec has a new token or a new version of the Secret. One that was removed requests nothing.
fn is_new(specified: Option<&String>, applied: Option<&String>) -> bool {
    specified.is_some() && specified != applied
}
