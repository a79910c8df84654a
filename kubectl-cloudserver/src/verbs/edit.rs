//! The edit of the spec that a verb makes, and the condition for its completion. Pure.

use super::goal::Aim;
use super::managers::{Declared, declared, is_declared_as};
use cloud_server_operator::api::{Instance, ManagementPolicy, Pause, PowerState, ReinstallPolicy};
use kube::ResourceExt;
use serde_json::{Value, json};

/// The verb, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Start,
    Stop,
    Restart,
    /// With the image that its spec names.
    Reinstall,
    /// With the time at which the pause ends.
    Pause(Option<String>),
    Resume,
    Reconcile,
}

/// The result of a verb for one Instance.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edit {
    /// Send this JSON patch.
    Write(Write),
    /// The spec has this value already.
    Nothing(String, Aim),
    /// The edit would do nothing, or something unintended: the cause, and the remedy.
    Refused(String),
}

/// An edit to send.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) operations: Value,
    pub(super) aim: Aim,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl Wish {
    /// The message after the edit was accepted.
    pub(super) fn accepted(&self) -> &'static str {
        match self {
            Self::Start => "start requested",
            Self::Stop => "stop requested",
            Self::Restart => "restart requested",
            Self::Reinstall => "reinstall requested",
            Self::Pause(_) => "pause requested",
            Self::Resume => "pause removed",
            Self::Reconcile => "reconcile requested",
        }
    }

    /// Whether it causes a call to the service.
    fn acts(&self) -> bool {
        match self {
            Self::Start | Self::Stop | Self::Restart | Self::Reinstall => true,
            Self::Pause(_) | Self::Resume | Self::Reconcile => false,
        }
    }
}

/// The edit for this Instance. `token` must be unused.
pub(super) fn edit(wish: &Wish, live: &Instance, token: &str) -> Edit {
    if live.metadata.deletion_timestamp.is_some() {
        return refused("it is being deleted");
    }
    if wish.acts() && live.spec.management_policy == ManagementPolicy::Observe {
        return refused(
            "spec.managementPolicy is Observe, so nothing would be done: set it to Manage first",
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

/// The identifier of the spec's image, if known.
pub(super) fn wanted_image(live: &Instance) -> Option<&str> {
    let given = live.spec.image.id.as_deref();
    given.or_else(|| {
        let resolved = live.status.as_ref()?.resolved.as_ref()?;
        resolved.image.as_ref().map(|pin| pin.id.as_str())
    })
}

fn refused(why: &str) -> Edit {
    Edit::Refused(why.to_owned())
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
        return refused(
            "spec.powerState is Stopped, so nothing would be restarted: `start` starts it",
        );
    }
    let aim = Aim::Restarted(token.to_owned());
    request(live, "restart", &json!({"token": token}), aim)
}

fn reinstall(live: &Instance, token: &str) -> Edit {
    if live.spec.reinstall_policy == ReinstallPolicy::Never {
        return refused("spec.reinstallPolicy is Never: set it to OnRequest first");
    }
    let status = live.status.as_ref();
    if status.is_none_or(|status| status.id.is_none()) {
        return refused("it has no server yet: there is nothing to reinstall");
    }
    let Some(image) = wanted_image(live) else {
        return refused(
            "the image that spec.image selects is not known yet: wait until status.resolved.image names it",
        );
    };
    // The user confirmed the displayed image: if the spec has another one meanwhile, nothing is erased.
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

/// Sets a field with a desired state. If a manifest contains the field, the next apply reverts it.
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
    format!("{declared} also applies spec.{field} and will revert this change: change it there too")
}

/// Sets a field each change of which causes one action. If a manifest reverted it, the action would happen twice.
fn request(live: &Instance, field: &str, value: &Value, aim: Aim) -> Edit {
    if let Some(declared) = declared(live, field) {
        return Edit::Refused(format!(
            "{declared} applies spec.{field}: when it reverts the token, the operator would carry out another {field}; put a new \
             token there instead, or remove spec.{field} from it"
        ));
    }
    Edit::Write(Write {
        operations: json!([same_object(live), add(field, value)]),
        aim,
        notes: Vec::new(),
    })
}

/// Fails the edit if the object was replaced by another of the same name.
fn same_object(live: &Instance) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": live.uid()})
}

fn add(field: &str, value: &Value) -> Value {
    json!({"op": "add", "path": format!("/spec/{field}"), "value": value})
}
