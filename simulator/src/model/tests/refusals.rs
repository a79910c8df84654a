//! The reasons for which a create is refused.

use super::*;

#[test]
fn each_invalid_create_has_an_error_code() {
    type Spoil = fn(&mut CreateRequest);
    let table: [(Spoil, &str); 17] = [
        (|c| c.package_code = None, "InvalidPackageCode.NotNull"),
        (
            |c| c.package_code = Some("none".into()),
            "InvalidPackageCode.NotFound",
        ),
        (
            |c| c.package_code = Some("ru-moscow-1-b-c1m2-s40-t1000".into()),
            "InvalidPackageCode.NotFound",
        ),
        (|c| c.region_code = None, "InvalidRegionCode.NotNull"),
        (
            |c| c.region_code = Some("xx-none-1".into()),
            "InvalidRegionCode.NotFound",
        ),
        (
            |c| c.zone_code = Some(String::new()),
            "InvalidZoneCode.NotNull",
        ),
        (
            |c| c.zone_code = Some("cn-taiwan-2-a".into()),
            "InvalidZoneCode.NotFound",
        ),
        (|c| c.instance_name = None, "InvalidInstanceName.NotNull"),
        (
            |c| c.instance_name = Some("a_b".into()),
            "InvalidInstanceName.Malformed",
        ),
        (|c| c.image = None, "InvalidImageResourceUUID.NotNull"),
        (
            |c| c.image = Some("img-none".into()),
            "InvalidImageResourceUUID.NotFound",
        ),
        (|c| c.firewall = None, "InvalidFirewallUUID.NotNull"),
        (
            |c| c.firewall = Some("fw-none".into()),
            "InvalidFirewallUUID.NotFound",
        ),
        (|c| c.password = None, "InvalidPassword.NotNull"),
        (
            |c| c.password = Some("short".into()),
            "InvalidPassword.Malformed",
        ),
        (
            |c| c.key = Some("key-none".into()),
            "InvalidSshKeyUUID.NotFound",
        ),
        (
            |c| {
                c.key = Some(example().key.into());
                c.image = Some(example().windows_image.into());
            },
            "InvalidSshKeyUUID.NotSupported",
        ),
    ];
    for (spoil, code) in table {
        let mut world = world(Readings::default());
        let mut body = create("web");
        spoil(&mut body);
        assert_eq!(refused(call(&mut world, 0, Request::Create(body))), code);
        assert!(world.servers().is_empty());
    }
}

#[test]
fn a_key_login_needs_no_password() {
    let mut world = world(Readings::default());
    let body = CreateRequest {
        key: Some(example().key.to_owned()),
        password: None,
        ..create("web")
    };
    let (_, server) = accepted(call(&mut world, 0, Request::Create(body)));
    assert_eq!(
        world.server(&server).unwrap().key.as_deref(),
        Some(example().key)
    );
    assert_eq!(world.password_of(&server), None);
}

#[test]
fn only_an_account_in_good_standing_and_within_its_quota_creates() {
    let mut world = world(Readings::default());
    world
        .change_account(DEFAULT_ACCOUNT, |account| {
            account.status = AccountStatus::Arrears;
        })
        .unwrap();
    assert_eq!(
        refused(call(&mut world, 0, Request::Create(create("web")))),
        "AccountStatus.Abnormal"
    );
    world
        .change_account(DEFAULT_ACCOUNT, |account| {
            account.status = AccountStatus::Normal;
            account.quota = Some(1);
        })
        .unwrap();
    let _ = accepted(call(&mut world, 0, Request::Create(create("web"))));
    assert_eq!(
        refused(call(&mut world, 0, Request::Create(create("web")))),
        "QuotaExceeded.Instance"
    );
}
