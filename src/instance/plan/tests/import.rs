use super::*;
use crate::api::{Import, PackageRef, ResolvedReference};
use crate::cloud::{List, Offer};
use crate::instance::pins::LookUpScope;

/// An Instance with this import, and a listing that shows these servers.
fn scene(import: Import, servers: &[(&str, &str)]) -> Scene {
    let mut instance = instance();
    instance.spec.import = Some(import);
    Scene::of(&instance, true).listed(Duration::ZERO, servers)
}

fn by_id(id: &str) -> Import {
    Import {
        id: Some(id.into()),
        ..Import::default()
    }
}

fn by_name(name: &str) -> Import {
    Import {
        name: Some(name.into()),
        ..Import::default()
    }
}

fn by_address(address: &str) -> Import {
    Import {
        address: Some(address.into()),
        ..Import::default()
    }
}

/// The detail of the server that a user created by hand.
fn shows(fields: &[(&str, &str)]) -> impl FnOnce(&mut Observation) {
    let mut shown = detail(&[("instanceName", "by-hand")]);
    for (field, value) in fields {
        shown.fields.insert((*field).to_owned(), json!(value));
    }
    move |observed| observed.candidate = Fact::Known(shown)
}

const BY_HAND: &[(&str, &str)] = &[(ID, "by-hand")];

fn reported(plan: &Plan) -> (Reason, State, &str) {
    assert!(matches!(plan.step, Step::Rest), "{plan:?}");
    let readiness = plan.why.as_ref().unwrap();
    (readiness.reason, readiness.state, &readiness.message)
}

#[test]
fn an_import_reads_listing_and_detail_and_checks_for_an_owner_before_it_records_the_server() {
    for import in [by_id(ID), by_name("by-hand")] {
        let fresh = scene(import.clone(), &[]).with(|observed| {
            observed.listing = Some(ZoneViews::of(here(), testing::view(None, None)));
        });
        let plan = fresh.plan();
        assert_eq!(reported(&plan).0, Reason::Importing);
        assert!(plan.wants.pass_after.is_some());

        let listed = scene(import, BY_HAND);
        assert_eq!(listed.plan().needs, Some(NeededRead::Candidate(ID.into())));
        let read = listed.with(shows(&[]));
        assert!(read.plan().begins());
        let plan = read
            .with(|observed| observed.conflicting_owner = ConflictingOwner::None)
            .plan();
        let importing = Some((State::Reconciling, Reason::Importing));
        assert_eq!(reason(&plan), importing, "an import creates nothing");
        let Step::Record { record } = plan.step else {
            panic!("{plan:?}");
        };
        assert_eq!(record.id.as_deref(), Some(ID));
        assert_eq!(record.imported.as_deref(), Some("by-hand"));
        assert_eq!((record.lost, record.attempt, record.task), (0, 1, None));
        assert_eq!(record.target.image, "img-1");
    }
}

#[test]
fn an_imported_server_that_cannot_be_read_is_not_reported_as_being_created() {
    let recorded = |imported: Option<&str>| {
        let scene = Scene::recorded(Some(ID), |record| {
            record.imported = imported.map(ToOwned::to_owned);
        });
        scene.with(|observed| {
            observed.detail = Fact::Unknown("503".into());
            observed.memory.observations.look.is_unreadable = true;
        })
    };
    let plan = recorded(Some("by-hand")).plan();
    let (why, _, message) = reported(&plan);
    assert_eq!(why, Reason::Importing);
    assert!(
        message.contains("503") && !message.contains("creating"),
        "{message}"
    );
    assert_eq!(reported(&recorded(None).plan()).0, Reason::Creating);
}

#[test]
fn an_import_that_matches_no_server_or_several_buys_none() {
    let none = scene(by_id("ecs-other"), BY_HAND).plan();
    let (reason, state, message) = reported(&none);
    assert_eq!((reason, state), (Reason::ImportNotFound, State::Stalled));
    assert!(message.contains("ecs-other") && message.contains("spec.import"));
    let none = scene(by_name("other"), BY_HAND).plan();
    assert_eq!(reported(&none).0, Reason::ImportNotFound);
    let two = [(ID, "by-hand"), ("ecs-2", "by-hand")];
    let plan = scene(by_name("by-hand"), &two).plan();
    let (reason, _, message) = reported(&plan);
    assert_eq!(reason, Reason::ImportAmbiguous);
    assert!(
        message.contains(ID) && message.contains("ecs-2"),
        "{message}"
    );
    // The identifier is unambiguous.
    let plan = scene(by_id(ID), &two).plan();
    assert_eq!(plan.needs, Some(NeededRead::Candidate(ID.into())));
}

#[test]
fn a_server_that_differs_from_the_spec_or_cannot_be_read_is_not_imported() {
    let listed = || scene(by_id(ID), BY_HAND);
    let differs = listed()
        .with(shows(&[("imageResourceUUID", "img-2")]))
        .plan();
    let (reason, _, message) = reported(&differs);
    assert_eq!(reason, Reason::ImportDiffers);
    let words = "has img-2, and the spec requests img-1: set spec.image.id to what the server has";
    assert!(message.contains(words), "{message}");
    for (field, value) in [("zoneCode", "elsewhere"), ("regionCode", "elsewhere")] {
        let plan = listed().with(shows(&[(field, value)])).plan();
        assert_eq!(reported(&plan).0, Reason::ImportDiffers);
    }
    let nameless = listed().with(shows(&[("instanceName", "")])).plan();
    assert_eq!(reported(&nameless).0, Reason::ImportDiffers);
    let busy = listed()
        .with(shows(&[("ecsPendingStatus", "REBOOTING")]))
        .plan();
    assert_eq!(reported(&busy).0, Reason::Importing);
    for fact in [Fact::Absent, Fact::Unknown("500".to_owned())] {
        let plan = listed().with(|observed| observed.candidate = fact).plan();
        assert_eq!(reported(&plan).0, Reason::Importing);
    }
}

/// The package as the service sells it.
fn sells(cpu: u64) -> Fact<Offer> {
    let row = json!({"packageCode": "p", "cpu": cpu, "memory": 2});
    let packages = List::Packages {
        region: "r".to_owned(),
        zone: None,
    };
    Fact::Known(Offer::read(&packages, row.as_object().unwrap()).unwrap())
}

/// A server with one CPU, whose package is sold like this.
fn small(on_sale: Fact<Offer>) -> Scene {
    scene(by_id(ID), BY_HAND).with(|observed| {
        let mut shown = detail(&[("instanceName", "by-hand")]);
        shown.fields.insert("cpu".to_owned(), json!(1));
        shown.fields.insert("memory".to_owned(), json!(2));
        observed.candidate = Fact::Known(shown);
        observed.found.on_sale = on_sale;
    })
}

#[test]
fn a_server_of_another_size_than_the_package_is_not_imported() {
    let plan = small(sells(8)).plan();
    let (reason, state, message) = reported(&plan);
    assert_eq!((reason, state), (Reason::ImportDiffers, State::Stalled));
    for word in ["1 CPU", "8 CPU", "package p", "spec.package.code"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert!(small(sells(1)).plan().begins());
    // A matching server is imported, and the Event names the properties that were not compared.
    let alike =
        small(sells(1)).with(|observed| observed.conflicting_owner = ConflictingOwner::None);
    let written = format!("{:?}", alike.plan().events);
    let words = "does not report package, firewall or login, so the values in the spec are assumed";
    assert!(written.contains(words), "{written}");
    // A package that could not be read is no difference.
    let unread = small(Fact::Unknown("503".to_owned())).plan();
    assert_eq!(reported(&unread).0, Reason::Importing);
    assert!(reported(&unread).2.contains("503"), "{unread:?}");
    // A package that is no longer sold cannot be compared.
    let gone = small(Fact::Absent)
        .with(|observed| observed.conflicting_owner = ConflictingOwner::None)
        .plan();
    assert!(matches!(gone.step, Step::Record { .. }), "{gone:?}");
}

#[test]
fn a_server_of_another_size_than_the_filter_is_not_imported() {
    let filtered = |cpu: i32| {
        let scene = small(Fact::NotRead).with(|observed| {
            let mut spec = (*observed.facts.spec).clone();
            spec.package = PackageRef {
                cpu: Some(cpu),
                ..PackageRef::default()
            };
            observed.facts.spec = spec.into();
            observed.found.scope = LookUpScope::Purchase;
            observed.found.answers.insert(
                crate::api::Reference::Package,
                Ok(ResolvedReference {
                    id: "p".to_owned(),
                    from: format!(
                        "{} in {}",
                        observed.facts.spec.package.selector().unwrap(),
                        here()
                    ),
                }),
            );
        });
        scene.plan()
    };
    assert_eq!(reported(&filtered(2)).0, Reason::ImportDiffers);
    assert!(reported(&filtered(2)).2.contains("at least 2 CPU"));
    assert!(filtered(1).begins());
}

#[test]
fn a_server_of_another_instance_is_left_alone() {
    let owner = ObjectKey::new("team-b", "theirs");
    let claimed = scene(by_id(ID), BY_HAND).with(shows(&[]));
    let plan = claimed
        .with(|observed| observed.conflicting_owner = ConflictingOwner::Instance(owner.clone()))
        .plan();
    let (reason, state, message) = reported(&plan);
    assert_eq!((reason, state), (Reason::ImportConflict, State::Stalled));
    assert!(message.contains("team-b/theirs"));
    assert!(!plan.changes.forget_server);

    // Status shows the server, and its record went back with the store: the owner must not find the server in two statuses.
    let still_in_status = scene(by_id(ID), BY_HAND).with(shows(&[])).with(|observed| {
        std::sync::Arc::make_mut(&mut observed.facts.status).id = Some(ID.to_owned());
        observed.conflicting_owner = ConflictingOwner::Instance(owner.clone());
    });
    assert!(still_in_status.plan().changes.forget_server);

    // The server is on record nevertheless: nothing is done to it, and it is not released.
    let imported = || {
        Scene::recorded(Some(ID), |b| b.imported = Some("by-hand".into()))
            .listed(SETTLE, BY_HAND)
            .with(|observed| observed.conflicting_owner = ConflictingOwner::Instance(owner.clone()))
    };
    assert_eq!(reported(&imported().plan()).0, Reason::ImportConflict);
    let leaving = imported().deleting().plan();
    assert!(!matches!(leaving.step, Step::Release { .. }), "{leaving:?}");
    let ours = imported()
        .deleting()
        .with(|observed| observed.conflicting_owner = ConflictingOwner::None)
        .plan();
    assert!(
        matches!(&ours.step, Step::Release { id, .. } if id.as_str() == ID),
        "{ours:?}"
    );
}

#[test]
fn an_imported_server_is_recognized_by_identifier_and_name() {
    let scene = Scene::recorded(Some(ID), |b| b.imported = Some("by-hand".into()));
    let facts = &scene.0.facts;
    assert!(facts.is_own_name(&ID.into(), "by-hand"));
    assert!(facts.is_own_name(&"ecs-2".into(), &ours()));
    assert!(!facts.is_own_name(&"ecs-2".into(), "by-hand"));
    assert!(!facts.is_own_name(&ID.into(), "another"));
    assert_eq!(facts.server_name(), "by-hand");
}

#[test]
fn a_lost_record_is_restored_by_the_same_import() {
    let scene = scene(by_id(ID), BY_HAND).with(shows(&[])).with(|observed| {
        let status = InstanceStatus {
            id: Some(ID.into()),
            ..InstanceStatus::default()
        };
        observed.facts.status = status.into();
        observed.conflicting_owner = ConflictingOwner::None;
    });
    let plan = scene.plan();
    assert!(
        matches!(&plan.step, Step::Record { record } if record.imported.is_some()),
        "{plan:?}"
    );
}

/// The same with a listing that also shows addresses: identifier, name, public address.
fn addressed(import: Import, servers: &[(&str, Option<&str>, Option<&str>)]) -> Scene {
    let rows = servers.iter().map(|(id, name, address)| {
        let row = json!({"ecsResourceUUID": id, "instanceName": name, "publicIpAddress": address});
        row.as_object().cloned().unwrap()
    });
    let rows: Vec<_> = rows.collect();
    scene(import, &[]).with(|observed| {
        let began = observed.now;
        let pass = testing::pass(began, rows, u64::try_from(servers.len()).ok());
        observed.listing = Some(ZoneViews::of(here(), testing::view(None, Some(pass))));
        observed.now = began + Duration::from_secs(2);
    })
}

const FLEET: &[(&str, Option<&str>, Option<&str>)] = &[
    (ID, Some("web"), Some("203.0.113.1")),
    ("ecs-2", Some("web"), Some("203.0.113.2")),
    ("ecs-3", Some("db"), Some("203.0.113.3")),
];

#[test]
fn an_import_filter_selects_the_one_server_that_matches_all_of_it() {
    let both = |name: &str, address: &str| Import {
        address: Some(address.into()),
        ..by_name(name)
    };
    for (import, id) in [
        (by_address("203.0.113.3"), "ecs-3"),
        (by_name("db"), "ecs-3"),
        (both("web", "203.0.113.2"), "ecs-2"),
    ] {
        let plan = addressed(import, FLEET).plan();
        assert_eq!(
            plan.needs,
            Some(NeededRead::Candidate(id.into())),
            "{plan:?}"
        );
    }
    for import in [both("web", "203.0.113.3"), by_address("999.1.1.1")] {
        assert_eq!(
            reported(&addressed(import, FLEET).plan()).0,
            Reason::ImportNotFound
        );
    }
    // The detail must match.
    let listed = || addressed(by_address("203.0.113.1"), FLEET);
    let moved = listed().with(shows(&[("publicIpAddress", "203.0.113.9")]));
    assert_eq!(reported(&moved.plan()).0, Reason::ImportNotFound);
    let agrees = listed().with(shows(&[("internalIpAddress", "203.0.113.1")]));
    assert!(agrees.plan().begins());
}

#[test]
fn a_message_about_no_match_or_several_lists_the_servers() {
    let plan = addressed(by_name("web"), FLEET).plan();
    let (reason, _, message) = reported(&plan);
    assert_eq!(reason, Reason::ImportAmbiguous);
    assert!(message.contains("ecs-1 (web), ecs-2 (web)"), "{message}");
    let import = Import {
        address: Some("203.0.113.3".into()),
        ..by_name("api")
    };
    let of_another = format!("other-{}", Marker::of_uid("another"));
    let mut fleet = FLEET.to_vec();
    fleet.push(("ecs-0", Some(&of_another), None));
    let plan = addressed(import, &fleet[..3]).plan();
    let (reason, _, message) = reported(&plan);
    assert_eq!(reason, Reason::ImportNotFound);
    assert!(
        message.contains("it lists ecs-1 (web), ecs-2 (web), ecs-3 (db)"),
        "{message}"
    );
    let plan = addressed(by_id("ecs-9"), &fleet).plan();
    let message = reported(&plan).2;
    assert!(
        !message.contains("ecs-0"),
        "another Instance owns it: {message}"
    );
}

#[test]
fn a_listing_that_omits_the_filtered_fields_imports_nothing() {
    let web = (ID, Some("web"), Some("203.0.113.1"));
    let omitting = [web, ("ecs-2", None, None)];
    for import in [by_name("web"), by_address("203.0.113.1")] {
        let plan = addressed(import, &omitting).plan();
        let (reason, state, message) = reported(&plan);
        assert_eq!((reason, state), (Reason::ImportAmbiguous, State::Stalled));
        assert!(message.contains("spec.import.id"), "{message}");
        assert!(message.contains("ecs-2"), "{message}");
    }
    let plan = addressed(by_id(ID), &omitting).plan();
    assert_eq!(plan.needs, Some(NeededRead::Candidate(ID.into())));
    // A server that certainly does not match need not show the other fields.
    let import = || Import {
        address: Some("203.0.113.1".into()),
        ..by_name("web")
    };
    let plan = addressed(import(), &[web, ("ecs-2", Some("db"), None)]).plan();
    assert_eq!(plan.needs, Some(NeededRead::Candidate(ID.into())));
    // The rows show too little, so the detail of the remaining server decides.
    let minimal = || {
        addressed(
            import(),
            &[(ID, Some("web"), None), ("ecs-2", Some("db"), None)],
        )
    };
    assert_eq!(
        minimal().plan().needs,
        Some(NeededRead::Candidate(ID.into()))
    );
    let named = ("instanceName", "web");
    let is_it = minimal().with(shows(&[named, ("publicIpAddress", "203.0.113.1")]));
    assert!(is_it.plan().begins());
    let other = minimal().with(shows(&[named, ("publicIpAddress", "203.0.113.9")]));
    assert_eq!(reported(&other.plan()).0, Reason::ImportNotFound);
    let omitting = minimal().with(shows(&[named]));
    assert_eq!(reported(&omitting.plan()).0, Reason::ImportNotFound);
}

#[test]
fn an_account_that_denies_imports_imports_nothing() {
    let denied = |scene: Scene| {
        scene.with(|observed| {
            let AccountFact::AccountSession(session) = &mut observed.account else {
                panic!("no session");
            };
            session.imports = Imports::Denied;
        })
    };
    for import in [by_id(ID), by_name("by-hand"), by_address("203.0.113.7")] {
        let plan = denied(scene(import.clone(), BY_HAND)).plan();
        let (reason, state, message) = reported(&plan);
        assert_eq!((reason, state), (Reason::ImportDenied, State::Stalled));
        assert!(message.contains("imports: Allowed"), "{message}");
        assert!(message.contains(&import.description()), "{message}");
        assert_eq!(plan.needs, None, "no read is needed");
        assert!(plan.wants.pass_after.is_none());
    }
    // A server that this Instance already had, and whose record was lost, is no import.
    let had = |id: &'static str| {
        let scene = denied(scene(by_name("by-hand"), BY_HAND));
        scene.with(move |observed| {
            let mut status = (*observed.facts.status).clone();
            status.id = Some(id.to_owned());
            observed.facts.status = status.into();
        })
    };
    assert_eq!(had(ID).plan().needs, Some(NeededRead::Candidate(ID.into())));
    let another = had("ecs-other").plan();
    assert_eq!(reported(&another).0, Reason::ImportDenied, "{another:?}");
    // A recorded server stays, even if the Account no longer allows imports.
    let recorded = Scene::converged().with(|observed| {
        let mut spec = (*observed.facts.spec).clone();
        spec.import = Some(by_id(ID));
        observed.facts.spec = spec.into();
    });
    let plan = denied(recorded.with(|observed| observed.detail = Fact::Known(detail(&[])))).plan();
    let readiness = plan.why.as_ref();
    assert!(
        readiness.is_none_or(|readiness| readiness.reason != Reason::ImportDenied),
        "{plan:?}"
    );
}
