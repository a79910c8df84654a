//! Tests of selectors: which look-ups happen when, which steps follow, and which never follow.

use super::*;
use crate::api::{
    FirewallRef, ImageRef, InstanceSpec, PackageRef, Reference, Resolved, ResolvedReference,
    SshKeyRef,
};
use crate::cloud::Place;
use crate::instance::pins::LookUps;

const IMAGE: &str = r#"name "Ubuntu" in r"#;
const PACKAGE: &str = "cpu 2 in r/z";

fn pin(id: &str, from: &str) -> ResolvedReference {
    ResolvedReference {
        id: id.into(),
        from: from.into(),
    }
}

fn named(name: &str) -> ImageRef {
    ImageRef {
        name: Some(name.into()),
        ..ImageRef::default()
    }
}

fn change(observed: &mut Observation, change: impl FnOnce(&mut InstanceSpec)) {
    let mut spec = InstanceSpec::clone(&observed.facts.spec);
    change(&mut spec);
    observed.facts.spec = spec.into();
}

/// A spec that gives package, image and security group by their properties.
fn by_name(scene: Scene) -> Scene {
    scene.with(|observed| {
        change(observed, |spec| {
            spec.package = PackageRef {
                cpu: Some(2),
                ..PackageRef::default()
            };
            spec.image = named("Ubuntu");
            spec.firewall = Some(FirewallRef {
                name: Some("web".into()),
                ..FirewallRef::default()
            });
        });
    })
}

/// A converged server whose image is given by name; the server shows that name.
fn converged(recorded: Option<ResolvedReference>, status: Option<ResolvedReference>) -> Scene {
    let resolved = |image: Option<ResolvedReference>| {
        Resolved {
            image,
            ..Resolved::default()
        }
        .if_any()
    };
    let mut scene = Scene::converged();
    let mut record = scene.0.facts.purchase().unwrap().clone();
    record.resolved = resolved(recorded);
    scene.0.facts.record = Record::Speaks(Box::new(record));
    let mut known = InstanceStatus::clone(&scene.0.facts.status);
    known.resolved = resolved(status);
    known.applied = Some(scene.0.facts.purchase().unwrap().target.clone());
    known.detail.insert("imageName".into(), json!("Ubuntu"));
    scene.0.facts.status = known.into();
    scene.with(|observed| change(observed, |spec| spec.image = named("Ubuntu")))
}

/// This reconcile read the server's detail, which shows an image with this name.
fn shown(scene: Scene, name: &str) -> Scene {
    scene.with(|observed| observed.detail = Fact::Known(detail(&[("imageName", name)])))
}

fn found(scene: Scene, scope: LookUpScope, fill: impl FnOnce(&mut LookUps)) -> Scene {
    scene.with(|observed| {
        observed.found.scope = scope;
        fill(&mut observed.found);
    })
}

fn all_found(scene: Scene) -> Scene {
    found(scene, LookUpScope::Purchase, |found| {
        found
            .answers
            .insert(Reference::Package, Ok(pin("p-2", PACKAGE)));
        found
            .answers
            .insert(Reference::Image, Ok(pin("img-9", IMAGE)));
        found
            .answers
            .insert(Reference::Firewall, Ok(pin("fw-9", r#"name "web" in r"#)));
    })
}

#[test]
fn selectors_are_looked_up_before_the_intent_which_records_the_results() {
    let unresolved = by_name(Scene::fresh()).plan();
    assert!(rests(&unresolved));
    assert_eq!(
        unresolved.needs,
        Some(NeededRead::References(LookUpScope::Purchase))
    );

    let plan = all_found(by_name(Scene::fresh())).plan();
    let record = announced(&plan).expect("an announcement");
    assert_eq!(
        (record.package.as_str(), record.firewall.as_deref()),
        ("p-2", Some("fw-9"))
    );
    assert_eq!(record.target.image, "img-9");
    let pins = record.resolved.clone().expect("pins");
    assert_eq!(pins.package, Some(pin("p-2", PACKAGE)));
    assert_eq!(pins.image, Some(pin("img-9", IMAGE)));
}

#[test]
fn a_selector_without_a_match_is_reported_and_nothing_is_called() {
    let readiness = Readiness::stalled(Reason::ReferenceNotFound, "none");
    let scene = found(by_name(Scene::fresh()), LookUpScope::Purchase, |found| {
        found.answers.insert(Reference::Package, Err(readiness));
    });
    let plan = scene.plan();
    assert!(rests(&plan) && plan.needs.is_none());
    assert_eq!(
        reason(&plan),
        Some((State::Stalled, Reason::ReferenceNotFound))
    );
    assert!(
        plan.again <= Duration::from_secs(30),
        "it is looked up again"
    );
}

#[test]
fn a_zone_selector_is_looked_up_before_any_listing() {
    let nowhere = |scene: Scene| {
        scene.with(|observed| {
            observed.facts.here = None;
            observed.facts.places.clear();
            observed.listing = Some(ZoneViews::of(here(), testing::view(None, None)));
        })
    };
    let fresh = nowhere(Scene::fresh()).plan();
    assert!(rests(&fresh) && reason(&fresh).is_some());
    let deleting = nowhere(Scene::fresh()).deleting().with(|observed| {
        observed.facts.finalizers = vec![crate::api::names::FINALIZER.into()];
    });
    assert!(
        rests(&deleting.plan()),
        "an unknown place proves no absence"
    );
    let found = Scene::fresh().with(|observed| observed.facts.here = Some(Place::new("r", "z")));
    assert!(announced(&found.plan()).is_some());
}

#[test]
fn a_looked_up_identifier_stays_as_long_as_its_selector() {
    for (record, status) in [
        (None, Some(pin("img-1", IMAGE))),
        (Some(pin("img-1", IMAGE)), None),
        (
            Some(pin("img-0", "name \"Old\" in r")),
            Some(pin("img-1", IMAGE)),
        ),
    ] {
        let scene = shown(converged(record, status), "something else");
        let scene = found(scene, LookUpScope::Installation, |found| {
            found
                .answers
                .insert(Reference::Image, Ok(pin("img-9", IMAGE)));
        });
        let plan = scene.plan();
        assert!(rests(&plan), "{:?}", plan.step);
        assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    }
}

#[test]
fn without_a_looked_up_identifier_the_name_that_the_server_shows_counts() {
    let plan = shown(converged(None, None), "Ubuntu").plan();
    assert!(rests(&plan) && plan.needs.is_none());
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
}

#[test]
fn an_edited_selector_is_looked_up_and_another_image_is_reinstalled() {
    let other = || {
        let scene = converged(None, Some(pin("img-1", IMAGE)));
        let scene = scene.with(|observed| change(observed, |spec| spec.image = named("Debian")));
        shown(scene, "Ubuntu")
    };
    assert_eq!(
        other().plan().needs,
        Some(NeededRead::References(LookUpScope::Installation))
    );
    let debian = pin("img-9", r#"name "Debian" in r"#);
    let found_it = found(other(), LookUpScope::Installation, |found| {
        found.answers.insert(Reference::Image, Ok(debian.clone()));
    });
    let plan = found_it.plan();
    let reinstall = begun(&plan).expect("a reinstall");
    assert_eq!(reinstall.verb, Verb::Reinstall);
    assert_eq!(reinstall.target.image, "img-9");
    let pins = found_it.written().0.facts.status.resolved.clone();
    assert_eq!(pins.unwrap().image, Some(debian));

    let missing = found(other(), LookUpScope::Installation, |found| {
        found.answers.insert(
            Reference::Image,
            Err(Readiness::stalled(Reason::ReferenceNotFound, "none")),
        );
    });
    let plan = missing.plan();
    assert!(rests(&plan), "a selector without a match erases nothing");
    assert_eq!(
        reason(&plan),
        Some((State::Stalled, Reason::ReferenceNotFound))
    );
    assert!(plan.again <= Duration::from_secs(30));
}

#[test]
fn a_failed_lookup_delays_nothing_else_and_counts_nothing_as_applied() {
    let off = || {
        let scene = converged(None, Some(pin("img-1", IMAGE))).with(|observed| {
            change(observed, |spec| {
                spec.login.ssh_key = Some(SshKeyRef {
                    name: Some("laptop".into()),
                    ..SshKeyRef::default()
                });
                spec.login.password_secret_ref = None;
            });
            observed.secret_version = None;
        });
        found(scene, LookUpScope::Installation, |found| {
            found.answers.insert(
                Reference::SshKey,
                Err(Readiness::reconciling(
                    Reason::ReferenceLookupFailed,
                    "down",
                )),
            );
        })
    };
    let stopped = off().with(|observed| {
        observed.detail = Fact::Known(detail(&[("ecsStatus", "STOPPED"), ("imageName", "Ubuntu")]));
    });
    assert_eq!(begins(&stopped), Some(Verb::Start));
    let plan = shown(off(), "Ubuntu").plan();
    assert_eq!(
        reason(&plan),
        Some((State::Reconciling, Reason::ReferenceLookupFailed))
    );
    let applied = plan.changes.applied.expect("what is applied");
    assert_eq!((applied.image.as_str(), applied.key), ("img-1", None));
}

#[test]
fn a_record_without_an_installation_erases_nothing() {
    let scene = shown(converged(None, None), "Something else")
        .record(|record| record.target = Applied::default())
        .status(|status| status.applied = None)
        .with(|observed| observed.task = Fact::Known(TaskState::Succeeded));
    let scene = found(scene, LookUpScope::Installation, |found| {
        found
            .answers
            .insert(Reference::Image, Ok(pin("img-9", IMAGE)));
    });
    let plan = scene.plan();
    assert!(rests(&plan), "{:?}", plan.step);
    assert_eq!(reason(&plan), Some((State::Drifted, Reason::ImageDiffers)));
}

#[test]
fn a_create_names_no_security_group_if_the_spec_names_none() {
    let scene = Scene::fresh().with(|observed| change(observed, |spec| spec.firewall = None));
    let plan = scene.plan();
    assert_eq!(announced(&plan).expect("an announcement").firewall, None);
}

#[test]
fn a_security_group_that_was_set_or_removed_after_the_purchase_is_reported() {
    let id = |id: &str| {
        Some(FirewallRef {
            id: Some(id.into()),
            ..FirewallRef::default()
        })
    };
    let name = Some(FirewallRef {
        name: Some("web".into()),
        ..FirewallRef::default()
    });
    for (bought, specified, differs) in [
        (Some("fw-1"), id("fw-1"), None),
        (None, None, None),
        (
            Some("fw-1"),
            None,
            Some("firewall fw-1, the spec has (none)"),
        ),
        (None, id("fw-1"), Some("firewall (none), the spec has fw-1")),
        (
            None,
            name,
            Some(r#"firewall (none), the spec has name "web""#),
        ),
    ] {
        let mut scene = Scene::converged();
        change(&mut scene.0, |spec| spec.firewall = specified);
        let mut record = scene.0.facts.purchase().unwrap().clone();
        record.firewall = bought.map(str::to_owned);
        scene.0.facts.record = Record::Speaks(Box::new(record));
        scene.0.detail = Fact::Known(detail(&[]));
        let plan = scene.plan();
        let readiness = plan
            .why
            .as_ref()
            .unwrap_or_else(|| panic!("{bought:?}: no readiness"));
        match differs {
            None => assert_eq!(readiness.reason, Reason::Available),
            Some(words) => {
                assert_eq!(readiness.reason, Reason::SpecChangedAfterPurchase);
                assert!(readiness.message.contains(words), "{}", readiness.message);
            }
        }
    }
}

#[test]
fn a_filter_that_was_edited_after_the_purchase_is_reported() {
    let scene = |filter: &str| {
        let mut scene = by_name(Scene::converged());
        let mut record = scene.0.facts.purchase().unwrap().clone();
        record.resolved = Some(Resolved {
            package: Some(pin("p", filter)),
            image: Some(pin("img-1", IMAGE)),
            firewall: Some(pin("fw-1", r#"name "web" in r"#)),
            ..Resolved::default()
        });
        scene.0.facts.record = Record::Speaks(Box::new(record));
        shown(scene, "Ubuntu")
    };
    assert_eq!(
        reason(&scene(PACKAGE).plan()),
        Some((State::Ready, Reason::Available))
    );
    assert_eq!(
        reason(&scene("cpu 1 in r/z").plan()),
        Some((State::Drifted, Reason::SpecChangedAfterPurchase))
    );
    // A record from before filters existed: what was bought is the filter's result.
    let mut old = scene(PACKAGE);
    let mut record = old.0.facts.purchase().unwrap().clone();
    record.resolved = None;
    old.0.facts.record = Record::Speaks(Box::new(record));
    assert_eq!(reason(&old.plan()), Some((State::Ready, Reason::Available)));
}

#[test]
fn a_filter_with_another_result_makes_another_attempt() {
    let refused = || {
        let refusal = CallState::Refused {
            message: "sold out".into(),
            reason: Reason::CreateRefused,
        };
        let scene = Scene::recorded(None, |record| {
            record.package = "p-1".into();
            record.firewall = Some("fw-9".into());
            record.target.image = "img-9".into();
            record.resolved = Some(Resolved {
                package: Some(pin("p-1", PACKAGE)),
                ..Resolved::default()
            });
        });
        all_found(by_name(scene.call_state(refusal)))
    };
    let plan = refused().plan();
    let record = announced(&plan).expect("an announcement");
    assert_eq!((record.attempt, record.package.as_str()), (2, "p-2"));
    let same = refused().with(|observed| {
        observed
            .found
            .answers
            .insert(Reference::Package, Ok(pin("p-1", PACKAGE)));
    });
    let plan = same.plan();
    assert!(
        matches!(
            plan.step,
            Step::Buy {
                announce: false,
                ..
            }
        ),
        "the recorded attempt is called again: {:?}",
        plan.step
    );
}
