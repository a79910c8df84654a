//! What a verb makes of an Instance: the edit of its spec, and what tells that it is done. Pure.

use super::goal::Aim;
use super::managers::{Declared, declared, is_declared_as};
use crate::api::{Instance, ManagementPolicy, Pause, PowerState, ReinstallPolicy};
use kube::ResourceExt;
use serde_json::{Value, json};

/// What is wanted of an Instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Start,
    Stop,
    Restart,
    /// With the image that its spec names.
    Reinstall,
    /// With the time at which it ends by itself.
    Pause(Option<String>),
    Resume,
    Reconcile,
}

/// What has to be done for a wish.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edit {
    /// This JSON patch is sent.
    Write(Write),
    /// The spec says it already.
    Nothing(String, Aim),
    /// It would do nothing, or something else than was meant: why, and what to do.
    Refused(String),
}

/// An edit that is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) operations: Value,
    pub(super) aim: Aim,
    /// What the user should know of it.
    pub(super) notes: Vec<String>,
}

impl Wish {
    /// What is said once the edit is accepted.
    pub(super) fn accepted(&self) -> &'static str {
        match self {
            Self::Start => "start asked for",
            Self::Stop => "stop asked for",
            Self::Restart => "restart asked for",
            Self::Reinstall => "reinstall asked for",
            Self::Pause(_) => "pause asked for",
            Self::Resume => "pause taken out",
            Self::Reconcile => "reconcile asked for",
        }
    }

    /// It calls for something at the service.
    fn acts(&self) -> bool {
        match self {
            Self::Start | Self::Stop | Self::Restart | Self::Reinstall => true,
            Self::Pause(_) | Self::Resume | Self::Reconcile => false,
        }
    }
}

/// What the wish means for this Instance. `token` is one that was never used before.
pub(super) fn edit(wish: &Wish, live: &Instance, token: &str) -> Edit {
    if live.metadata.deletion_timestamp.is_some() {
        return Edit::Refused("it is being deleted".to_owned());
    }
    if wish.acts() && live.spec.management_policy == ManagementPolicy::Observe {
        return Edit::Refused(
            "spec.managementPolicy is Observe, so nothing would be done: set it to Manage first"
                .to_owned(),
        );
    }
    let edit = match wish {
        Wish::Start => power(live, PowerState::Running),
        Wish::Stop => power(live, PowerState::Stopped),
        Wish::Restart => restart(live, token),
        Wish::Reinstall => reinstall(live, token),
        Wish::Pause(until) => pause(live, until.as_deref()),
        Wish::Resume => resume(live),
        Wish::Reconcile => {
            let value = json!({"token": token});
            let aim = Aim::Looked(token.to_owned());
            set(live, "reconcile", &value, aim)
        }
    };
    match edit {
        Edit::Write(mut write) if wish.acts() && live.spec.pause.is_some() => {
            let note = "it is paused, so nothing begins before that ends (`resume` ends it)";
            write.notes.push(note.to_owned());
            Edit::Write(write)
        }
        other => other,
    }
}

/// The image that the spec wants, as far as it is known.
pub(super) fn wanted_image(live: &Instance) -> Option<&str> {
    let given = live.spec.image.id.as_deref();
    given.or_else(|| {
        let resolved = live.status.as_ref()?.resolved.as_ref()?;
        resolved.image.as_ref().map(|pin| pin.id.as_str())
    })
}

fn power(live: &Instance, wanted: PowerState) -> Edit {
    if live.spec.power_state == wanted {
        return Edit::Nothing(format!("spec.powerState is {wanted:?} already"), Aim::Ready);
    }
    let value = json!(wanted);
    set(live, "powerState", &value, Aim::Ready)
}

fn restart(live: &Instance, token: &str) -> Edit {
    if live.spec.power_state == PowerState::Stopped {
        return Edit::Refused(
            "spec.powerState is Stopped, so nothing would be restarted: `start` starts it"
                .to_owned(),
        );
    }
    let aim = Aim::Restarted(token.to_owned());
    request(live, "restart", &json!({"token": token}), aim)
}

fn reinstall(live: &Instance, token: &str) -> Edit {
    if live.spec.reinstall_policy == ReinstallPolicy::Never {
        return Edit::Refused(
            "spec.reinstallPolicy is Never: set it to OnRequest first".to_owned(),
        );
    }
    if live
        .status
        .as_ref()
        .is_none_or(|status| status.id.is_none())
    {
        return Edit::Refused("it has no server yet: there is nothing to reinstall".to_owned());
    }
    let Some(image) = wanted_image(live) else {
        return Edit::Refused(
            "which image spec.image means is not known yet: wait until status.resolved.image tells"
                .to_owned(),
        );
    };
    // What was shown is what is acknowledged: with another image in the spec by then, nothing is erased.
    let value = json!({"token": token, "image": image});
    let aim = Aim::Reinstalled(token.to_owned());
    match request(live, "reinstall", &value, aim) {
        Edit::Write(mut write) => {
            let same = json!({"op": "test", "path": "/metadata/generation", "value": live.metadata.generation});
            if let Value::Array(operations) = &mut write.operations {
                operations.insert(0, same);
            }
            Edit::Write(write)
        }
        other => other,
    }
}

fn pause(live: &Instance, until: Option<&str>) -> Edit {
    let wanted = Pause {
        until: until.map(ToOwned::to_owned),
    };
    if live.spec.pause.as_ref() == Some(&wanted) {
        return Edit::Nothing("it is paused already".to_owned(), Aim::Paused);
    }
    set(live, "pause", &json!(wanted), Aim::Paused)
}

fn resume(live: &Instance) -> Edit {
    if live.spec.pause.is_none() {
        return Edit::Nothing("it is not paused".to_owned(), Aim::Ready);
    }
    let mut notes = Vec::new();
    if let Some(declared) = declared(live, "pause") {
        notes.push(set_back(&declared, "pause"));
    }
    Edit::Write(Write {
        operations: json!([same_object(live), {"op": "remove", "path": "/spec/pause"}]),
        aim: Aim::Ready,
        notes,
    })
}

/// A field that says how things are to be. Where a manifest has it too, the next apply sets it back.
fn set(live: &Instance, field: &str, value: &Value, aim: Aim) -> Edit {
    let declared = declared(live, field).filter(|declared| {
        !matches!(declared, Declared::ClientSide) || !is_declared_as(live, field, value)
    });
    let notes = declared.map(|declared| set_back(&declared, field));
    Edit::Write(Write {
        operations: json!([same_object(live), add(field, value)]),
        aim,
        notes: notes.into_iter().collect(),
    })
}

fn set_back(declared: &Declared, field: &str) -> String {
    format!(
        "spec.{field} stands in what {declared} applies, which will set it back: change it there too"
    )
}

/// A field each change of which does something once: set back by a manifest, it would be done a second time.
fn request(live: &Instance, field: &str, value: &Value, aim: Aim) -> Edit {
    if let Some(declared) = declared(live, field) {
        return Edit::Refused(format!(
            "spec.{field} stands in what {declared} applies: set back by it, the token would ask for another {field}; put a new \
             token there instead, or take spec.{field} out of it"
        ));
    }
    Edit::Write(Write {
        operations: json!([same_object(live), add(field, value)]),
        aim,
        notes: Vec::new(),
    })
}

/// A namesake that was made meanwhile is none of this edit's business.
fn same_object(live: &Instance) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": live.uid()})
}

fn add(field: &str, value: &Value) -> Value {
    json!({"op": "add", "path": format!("/spec/{field}"), "value": value})
}
