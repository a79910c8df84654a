//! Whether the disk may be erased: compares the reasons for a reinstall with `spec.reinstallPolicy`.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Applied, ReinstallPolicy};
use crate::instance::observation;
use crate::instance::observation::Observation;
use crate::instance::plan::{diff, ended, policy, words};
use serde_json::{Map, Value};

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

/// Decides about a reinstall: another key or image than the applied one, or a new token, requests one.
pub(super) fn reinstall(
    observed: &Observation,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> ReinstallDecision {
    let spec = diff::as_specified(observed);
    let is_new = diff::is_new(spec.reinstall.as_ref(), applied.reinstall.as_ref());
    let differs = spec.key != applied.key || diff::is_other_image(observed, applied, &spec, detail);
    let undecided = ended::undecided(observed, applied);
    let is_requested = differs
        || is_new
        // Unless the server shows the image of an undecided reinstall: then it happened.
        || (undecided.is_some() && spec.image == applied.image);
    if spec.image.is_empty() || !is_requested {
        // An empty image means that the selectors of the spec are unresolved.
        return ReinstallDecision::No;
    }
    let request = observed.facts.spec.reinstall.as_ref();
    let named = request.and_then(|request| request.image.as_deref());
    let names_it = is_new && named == Some(spec.image.as_str());
    let names_another = is_new && named.is_some() && !names_it;
    let shown = observation::text(detail, "imageResourceUUID").unwrap_or("another one");
    let image = &spec.image;
    let what = if spec.image != applied.image {
        format!("the spec wants image {image}, the server has {shown}")
    } else if spec.key != applied.key {
        "the spec wants another key pair, or a password instead of one".to_owned()
    } else {
        "spec.reinstall.token asks for a reinstall".to_owned()
    };
    let keep = "to keep the disk, set spec.image, spec.login and spec.reinstall back";
    let approval = |message| Readiness::stalled(Reason::ReinstallNeedsApproval, message);
    let held = match (undecided, observed.facts.spec.reinstall_policy) {
        (Some(retry), _) => words::undecided(retry.message.as_deref().unwrap_or_default()),
        (None, ReinstallPolicy::Never) => Readiness::stalled(
            Reason::ReinstallForbidden,
            format!(
                "{what}: that takes a reinstall, which ERASES THE DISK, and spec.reinstallPolicy is Never; {keep}; to \
                 erase it, set spec.reinstallPolicy to OnRequest or Automatic"
            ),
        ),
        (None, ReinstallPolicy::Automatic | ReinstallPolicy::OnRequest) if names_another => {
            approval(format!(
                "spec.reinstall.token is new and acknowledges image {}, the spec wants {image}: nothing is started; to \
                 reinstall, which ERASES THE DISK, set spec.reinstall.image to {image}; {keep}",
                named.unwrap_or_default()
            ))
        }
        (None, ReinstallPolicy::OnRequest) if !names_it => approval(format!(
            "{what}: that takes a reinstall, which ERASES THE DISK, and waits, since spec.reinstallPolicy is OnRequest; to \
                 start it, set a new spec.reinstall.token and spec.reinstall.image to {image}; {keep}"
        )),
        (None, ReinstallPolicy::Automatic | ReinstallPolicy::OnRequest) => {
            return ReinstallDecision::Due;
        }
    };
    ReinstallDecision::Held(match policy::is_observed(observed) {
        true => policy::differs(&what),
        false => held,
    })
}
