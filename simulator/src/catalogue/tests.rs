use std::collections::BTreeSet;

use super::*;

#[test]
fn the_catalogue_is_worth_browsing() {
    let catalogue = Catalogue::shared();
    assert!(catalogue.regions().len() >= 5);
    assert!(catalogue.packages().len() >= 60);
    assert!(catalogue.keys().len() >= 55);
    for region in catalogue.regions() {
        let images: Vec<_> = catalogue
            .images()
            .iter()
            .filter(|image| image.region == region.code)
            .collect();
        assert!(
            images.len() >= 60,
            "{} has {} images",
            region.code,
            images.len()
        );
        for kind in [ImageKind::System, ImageKind::Own, ImageKind::Application] {
            assert!(images.iter().filter(|image| image.kind == kind).count() > 10);
        }
        let groups = catalogue
            .firewalls()
            .iter()
            .filter(|each| each.region == region.code);
        assert!(groups.count() >= 55);
    }
}

#[test]
fn packages_come_with_both_charge_modes_and_with_and_without_a_data_disk() {
    let packages = Catalogue::shared();
    for by_traffic in [true, false] {
        for with_disk in [true, false] {
            assert!(packages.packages().iter().any(|package| {
                matches!(package.charge, Charge::Traffic { .. }) == by_traffic
                    && package.data_disk.is_some() == with_disk
            }));
        }
    }
}

#[test]
fn no_identifier_is_used_twice() {
    let catalogue = Catalogue::shared();
    let ids: Vec<&String> = (catalogue.images().iter().map(|image| &image.id))
        .chain(catalogue.firewalls().iter().map(|firewall| &firewall.id))
        .chain(catalogue.keys().iter().map(|key| &key.id))
        .chain(catalogue.packages().iter().map(|package| &package.code))
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn the_codes_for_examples_belong_together() {
    let catalogue = Catalogue::shared();
    let known = example();
    assert!(catalogue.zone(known.region, known.zone).is_some());
    assert!(catalogue.zone(known.region, known.other_zone).is_some());
    for code in [known.package, known.other_package] {
        let package = catalogue
            .package(code)
            .unwrap_or_else(|| panic!("no package {code}"));
        assert_eq!(package.zone, known.zone);
    }
    let package = catalogue.package(known.package).unwrap();
    assert_eq!(
        (package.cpu, package.memory, package.data_disk),
        (1, 2, None)
    );
    let names = [known.image, known.other_image, known.windows_image]
        .map(|id| catalogue.image(id).map(|image| image.name.as_str()));
    assert_eq!(
        names,
        [
            Some("Ubuntu 24.04 LTS"),
            Some("Debian 12"),
            Some("Windows Server 2022 Datacenter")
        ]
    );
    assert_eq!(
        catalogue.firewall(known.firewall).unwrap().region,
        known.region
    );
    assert!(catalogue.key(known.key).is_some());
}

#[test]
fn keys_are_listed_newest_first() {
    assert!(
        Catalogue::shared()
            .keys()
            .is_sorted_by(|a, b| a.created_at > b.created_at)
    );
}
