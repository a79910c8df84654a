//! Whether the disk may be erased: compares the reasons for a reinstall with `spec.reinstallPolicy`.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Applied, ReinstallPolicy};
use crate::instance::observation;
use crate::instance::observation::Observation;
use crate::instance::plan::{diff, ended, policy, words};
use serde_json::{Map, Value};

/// The decision about a reinstall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reinstall {
    No,
    /// It is requested and may begin.
    Due,
    /// It is requested and waits until a user acknowledges the image.
    Unacknowledged,
    /// It is requested by a token that acknowledges another image than the spec's.
    OtherImage,
    /// It is requested and never begins.
    Forbidden,
    /// It was requested before, and nothing shows whether it was carried out.
    Undecided,
}

impl Reinstall {
    /// Whether it is requested and does not begin.
    pub(super) fn is_held(self) -> bool {
        matches!(
            self,
            Self::Unacknowledged | Self::OtherImage | Self::Forbidden | Self::Undecided
        )
    }
}

/// Decides about a reinstall: another key or image than the applied one, or a new token, requests one.
pub(super) fn reinstall(
    observed: &Observation,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Reinstall {
    let spec = diff::as_specified(observed);
    if spec.image.is_empty() {
        // The selectors of the spec are unresolved.
        return Reinstall::No;
    }
    let is_new = diff::is_new(spec.reinstall.as_ref(), applied.reinstall.as_ref());
    let differs = spec.key != applied.key || diff::is_other_image(observed, applied, &spec, detail);
    let request = observed.facts.spec.reinstall.as_ref();
    let named = request.and_then(|request| request.image.as_ref());
    let names_it = named == Some(&spec.image);
    let policy = observed.facts.spec.reinstall_policy;
    match (policy, differs, is_new) {
        // The server shows the image of an undecided one, so it happened.
        (_, false, false) if spec.image != applied.image => Reinstall::No,
        _ if ended::undecided(observed, applied).is_some() => Reinstall::Undecided,
        (_, false, false) => Reinstall::No,
        (ReinstallPolicy::Automatic, _, true) if named.is_some() && !names_it => {
            Reinstall::OtherImage
        }
        (ReinstallPolicy::Automatic, true, _) => Reinstall::Due,
        (ReinstallPolicy::Automatic, false, true) if named.is_none() || names_it => Reinstall::Due,
        (ReinstallPolicy::OnRequest, _, true) if names_it => Reinstall::Due,
        (ReinstallPolicy::OnRequest, true, _) if !is_new || named.is_none() => {
            Reinstall::Unacknowledged
        }
        (ReinstallPolicy::OnRequest, false, true) if named.is_none() => Reinstall::Unacknowledged,
        (ReinstallPolicy::Automatic, false, true) | (ReinstallPolicy::OnRequest, ..) => {
            Reinstall::OtherImage
        }
        (ReinstallPolicy::Never, ..) => Reinstall::Forbidden,
    }
}

/// The readiness of a reinstall that is requested and does not begin.
pub(super) fn held(
    observed: &Observation,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Option<Readiness> {
    let reinstall = reinstall(observed, applied, detail);
    let spec = diff::as_specified(observed);
    let what = if spec.image != applied.image {
        let shown = observation::text(detail, "imageResourceUUID").unwrap_or("another one");
        format!(
            "the spec wants image {}, the server has {shown}",
            spec.image
        )
    } else if spec.key != applied.key {
        "the spec wants another key pair, or a password instead of one".to_owned()
    } else {
        "spec.reinstall.token asks for a reinstall".to_owned()
    };
    let image = &spec.image;
    let keep = "to keep the disk, set spec.image, spec.login and spec.reinstall back";
    if reinstall.is_held() && policy::is_observed(observed) {
        return Some(policy::differs(&what));
    }
    match reinstall {
        Reinstall::No | Reinstall::Due => None,
        Reinstall::Undecided => {
            let retry = ended::undecided(observed, applied)?;
            Some(words::undecided(
                retry.message.as_deref().unwrap_or_default(),
            ))
        }
        Reinstall::Unacknowledged => Some(Readiness::stalled(
            Reason::ReinstallNeedsApproval,
            format!(
                "{what}: that takes a reinstall, which ERASES THE DISK, and waits, since spec.reinstallPolicy is OnRequest; to \
                 start it, set a new spec.reinstall.token and spec.reinstall.image to {image}; {keep}"
            ),
        )),
        Reinstall::OtherImage => {
            let named = observed.facts.spec.reinstall.as_ref();
            let named = named.and_then(|named| named.image.as_deref());
            Some(Readiness::stalled(
                Reason::ReinstallNeedsApproval,
                format!(
                    "spec.reinstall.token is new and acknowledges image {}, the spec wants {image}: nothing is started; to \
                     reinstall, which ERASES THE DISK, set spec.reinstall.image to {image}; {keep}",
                    named.unwrap_or("none")
                ),
            ))
        }
        Reinstall::Forbidden => Some(Readiness::stalled(
            Reason::ReinstallForbidden,
            format!(
                "{what}: that takes a reinstall, which ERASES THE DISK, and spec.reinstallPolicy is Never; {keep}; to \
                 erase it, set spec.reinstallPolicy to OnRequest or Automatic"
            ),
        )),
    }
}
