//! The edit of the spec that a verb makes, and the condition for its completion. Pure.

use super::goal::Aim;
use super::managers::reverting_applier;
use cloud_server_operator::api::{Instance, ManagementPolicy, Pause, PowerState, ReinstallPolicy};
use kube::ResourceExt;
use serde_json::{Value, json};

/// The verb, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Start,
    Stop,
    Restart,
    /// With the image that the Instance's spec names.
    Reinstall,
    /// With the time at which the pause ends.
    Pause(Option<String>),
    Resume,
    Reconcile,
}

/// The edit of one Instance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    /// A JSON patch; none if the spec has the value already.
    pub(super) patch: Option<Value>,
    /// The message once the patch is accepted, or why there is none.
    pub(super) message: &'static str,
    pub(super) aim: Aim,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl Verb {
    /// The field of the spec, its value (`Null` removes it), and the state to wait for. `token` must be unused.
    fn row(&self, live: &Instance, token: &str) -> (&'static str, Value, Aim) {
        let awaited = token.to_owned();
        match self {
            Self::Start => ("powerState", json!(PowerState::Running), Aim::Ready),
            Self::Stop => ("powerState", json!(PowerState::Stopped), Aim::Ready),
            Self::Restart => ("restart", json!({"token": token}), Aim::Restarted(awaited)),
            Self::Reinstall => {
                // The image that the question shows: if the spec selects another one when the operator decides, nothing is erased.
                let value = json!({"token": token, "image": requested_image(live)});
                ("reinstall", value, Aim::Reinstalled(awaited))
            }
            Self::Pause(until) => {
                let until = until.clone();
                ("pause", json!(Pause { until }), Aim::Paused)
            }
            Self::Resume => ("pause", Value::Null, Aim::Ready),
            Self::Reconcile => ("reconcile", json!({"token": token}), Aim::Observed(awaited)),
        }
    }

    /// The message once the edit is accepted, and the one if the field has the value already.
    fn messages(&self) -> [&'static str; 2] {
        match self {
            Self::Start => ["start requested", "spec.powerState is Running already"],
            Self::Stop => ["stop requested", "spec.powerState is Stopped already"],
            Self::Restart => ["restart requested", ""],
            Self::Reinstall => ["reinstall requested", ""],
            Self::Pause(_) => ["pause requested", "it is paused already"],
            Self::Resume => ["pause removed", "it is not paused"],
            Self::Reconcile => ["reconcile requested", ""],
        }
    }

    /// Why the edit would do nothing, or something unintended, with the remedy.
    fn refusal(&self, live: &Instance) -> Option<&'static str> {
        let (spec, status) = (&live.spec, live.status.as_ref());
        if live.metadata.deletion_timestamp.is_some() {
            return Some("it is being deleted");
        }
        if self.calls_service() && spec.management_policy == ManagementPolicy::Observe {
            return Some(
                "spec.managementPolicy is Observe, so nothing would be done: set it to Manage first",
            );
        }
        match self {
            Self::Restart if spec.power_state == PowerState::Stopped => {
                Some("spec.powerState is Stopped, so nothing would be restarted: `start` starts it")
            }
            Self::Reinstall if spec.reinstall_policy == ReinstallPolicy::Never => {
                Some("spec.reinstallPolicy is Never: set it to OnRequest first")
            }
            Self::Reinstall if status.is_none_or(|status| status.id.is_none()) => {
                Some("it has no server yet: there is nothing to reinstall")
            }
            Self::Reinstall if requested_image(live).is_none() => Some(
                "the image that spec.image selects is not known yet: wait until status.resolved.image names it",
            ),
            _ => None,
        }
    }

    fn calls_service(&self) -> bool {
        match self {
            Self::Start | Self::Stop | Self::Restart | Self::Reinstall => true,
            Self::Pause(_) | Self::Resume | Self::Reconcile => false,
        }
    }

    /// Whether each change of its token causes one operation: if a manifest reverted the token, there would be another one.
    fn is_repeated_by_a_revert(&self) -> bool {
        match self {
            Self::Restart | Self::Reinstall => true,
            Self::Start | Self::Stop | Self::Pause(_) | Self::Resume | Self::Reconcile => false,
        }
    }
}

/// The edit for this Instance, or why it is refused, with the remedy. `token` must be unused.
pub(super) fn edit(verb: &Verb, live: &Instance, token: &str) -> Result<Edit, String> {
    if let Some(why) = verb.refusal(live) {
        return Err(why.to_owned());
    }
    let (field, value, aim) = verb.row(live, token);
    let [requested, already] = verb.messages();
    let mut edit = Edit {
        patch: None,
        message: already,
        aim,
        notes: Vec::new(),
    };
    let spec = serde_json::to_value(&live.spec).unwrap_or_default();
    if spec[field] == value {
        return Ok(edit);
    }
    if let Some(writer) = reverting_applier(live, field, &value) {
        if verb.is_repeated_by_a_revert() {
            return Err(format!(
                "{writer} applies spec.{field}: when it reverts the token, the operator would carry out another {field}; put a new \
                 token into its manifest instead, or remove spec.{field} from that manifest"
            ));
        }
        edit.notes.push(format!(
            "{writer} also applies spec.{field} and will revert this change: change it there too"
        ));
    }
    if verb.calls_service() && live.spec.pause.is_some() {
        let note = "spec.pause is set, so nothing begins before the pause ends (`resume` ends it)";
        edit.notes.push(note.to_owned());
    }
    edit.message = requested;
    edit.patch = Some(patch(verb, live, field, &value));
    Ok(edit)
}

/// The patch. It fails if the object was replaced by another of the same name, and for a reinstall if the spec was edited since it
/// was read for the question.
fn patch(verb: &Verb, live: &Instance, field: &str, value: &Value) -> Value {
    let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
    let mut operations = vec![test("/metadata/uid", json!(live.uid()))];
    if *verb == Verb::Reinstall {
        let generation = json!(live.metadata.generation);
        operations.push(test("/metadata/generation", generation));
    }
    let path = format!("/spec/{field}");
    operations.push(match value {
        Value::Null => json!({"op": "remove", "path": path}),
        value => json!({"op": "add", "path": path, "value": value}),
    });
    Value::Array(operations)
}

/// The identifier of the spec's image, if known.
pub(super) fn requested_image(live: &Instance) -> Option<&str> {
    let given = live.spec.image.id.as_deref();
    given.or_else(|| {
        let resolved = live.status.as_ref()?.resolved.as_ref()?;
        resolved.image.as_ref().map(|pin| pin.id.as_str())
    })
}
