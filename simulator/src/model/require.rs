//! The preconditions of calls: required fields are present, named things exist, the server is idle.

use super::World;
use super::account::AccountStatus;
use super::reply::Refusal;
use super::rules;
use super::server::Power;
use crate::readings::UnseenRegion;
use crate::secret::Secret;

/// How users log in to a server: by key pair, by password, or by either.
pub(super) struct Login {
    pub(super) key: Option<String>,
    pub(super) password: Option<Secret>,
}

/// The field, or a refusal that it is missing. Empty text counts as missing.
pub(super) fn required<'a>(value: Option<&'a str>, field: &str) -> Result<&'a str, Refusal> {
    value
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Refusal::missing(field))
}

impl World {
    pub(super) fn require_standing(&self, account: usize) -> Result<(), Refusal> {
        if self.accounts[account].status == AccountStatus::Normal {
            return Ok(());
        }
        Err(Refusal::new(
            403,
            "AccountStatus.Abnormal",
            "The account status does not allow this operation",
        ))
    }

    pub(super) fn require_quota(&self, account: usize) -> Result<(), Refusal> {
        let account = &self.accounts[account];
        let held = (self.places.range((account.name.clone(), String::new())..))
            .take_while(|((owner, _), _)| *owner == account.name)
            .map(|(_, numbers)| numbers.len())
            .sum::<usize>();
        if account.quota.is_some_and(|quota| held >= quota) {
            return Err(Refusal::new(
                403,
                "QuotaExceeded.Instance",
                "The instance quota is used up",
            ));
        }
        Ok(())
    }

    /// Requires that region and zone exist and that the zone belongs to the region.
    pub(super) fn require_zone(
        &self,
        region: Option<&str>,
        zone: Option<&str>,
    ) -> Result<(String, String), Refusal> {
        let region = required(region, "RegionCode")?;
        let zone = required(zone, "ZoneCode")?;
        self.catalogue
            .region(region)
            .ok_or_else(|| Refusal::unknown("RegionCode"))?;
        self.catalogue
            .zone(region, zone)
            .filter(|_| self.has_zone(region, zone))
            .ok_or_else(|| Refusal::unknown("ZoneCode"))?;
        Ok((region.to_owned(), zone.to_owned()))
    }

    /// Whether the zone exists in its region under the readings, which allow all zones or only the first.
    pub(super) fn has_zone(&self, region: &str, zone: &str) -> bool {
        let first = self.catalogue.region(region);
        let first = first.and_then(|region| region.zones.first());
        !self.readings.one_zone || first.is_some_and(|first| first.code == zone)
    }

    /// Requires a package that is sold in exactly this zone.
    pub(super) fn require_package(
        &self,
        package: &str,
        region: &str,
        zone: &str,
    ) -> Result<(), Refusal> {
        let sold = self
            .catalogue
            .package(package)
            .ok_or_else(|| Refusal::unknown("PackageCode"))?;
        if (sold.region.as_str(), sold.zone.as_str()) != (region, zone) {
            return Err(Refusal::unknown("PackageCode"));
        }
        Ok(())
    }

    /// Requires a security group of exactly this region. `None` if the readings make it optional and it is absent.
    pub(super) fn require_firewall(
        &self,
        firewall: Option<&str>,
        region: &str,
    ) -> Result<String, Refusal> {
        let given = firewall.is_some_and(|firewall| !firewall.is_empty());
        if !given && self.readings.firewall_optional {
            return Ok(String::new());
        }
        let firewall = required(firewall, "FirewallUUID")?;
        if self
            .catalogue
            .firewall(firewall)
            .is_none_or(|each| each.region != region)
        {
            return Err(Refusal::unknown("FirewallUUID"));
        }
        Ok(firewall.to_owned())
    }

    pub(super) fn require_stock(&self, region: &str) -> Result<(), Refusal> {
        if self.sold_out.contains(region) {
            return Err(Refusal::new(
                409,
                "OperationDenied.SoldOut",
                "The package is sold out in this region",
            ));
        }
        Ok(())
    }

    pub(super) fn require_image(
        &self,
        image: Option<&str>,
        region: &str,
    ) -> Result<String, Refusal> {
        let id = required(image, "ImageResourceUUID")?;
        let image = self
            .catalogue
            .image(id)
            .filter(|image| image.region == region);
        image
            .map(|image| image.id.clone())
            .ok_or_else(|| Refusal::unknown("ImageResourceUUID"))
    }

    /// A key pair, a password, or both.
    pub(super) fn require_login(
        &self,
        key: Option<&str>,
        password: Option<&Secret>,
        image: &str,
    ) -> Result<Login, Refusal> {
        let password = password.filter(|password| !password.reveal().is_empty());
        if let Some(password) = password {
            rules::password(password.reveal(), self.readings.password_specials)?;
        }
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            let password = password
                .cloned()
                .ok_or_else(|| Refusal::missing("Password"))?;
            return Ok(Login {
                key: None,
                password: Some(password),
            });
        };
        self.catalogue
            .key(key)
            .ok_or_else(|| Refusal::unknown("SshKeyUUID"))?;
        if !self.catalogue.image(image).is_some_and(|image| image.ssh) {
            return Err(Refusal::new(
                400,
                "InvalidSshKeyUUID.NotSupported",
                "The image does not support key pairs",
            ));
        }
        if password.is_none() && self.readings.key_needs_password {
            return Err(Refusal::missing("Password"));
        }
        Ok(Login {
            key: Some(key.to_owned()),
            password: password.cloned(),
        })
    }

    /// The number of a live server of this account. Servers of other accounts count as not existing.
    pub(super) fn require_server(&self, account: usize, id: Option<&str>) -> Result<u64, Refusal> {
        let id = required(id, "EcsResourceUUID")?;
        let owner = &self.accounts[account].name;
        let server = self
            .record(id)
            .filter(|server| server.is_live() && server.account == *owner);
        let server = server.ok_or_else(no_such_instance)?;
        if !self.accounts[account].sees(&server.region) {
            return Err(match self.readings.unseen_region {
                UnseenRegion::Empty => no_such_instance(),
                UnseenRegion::Refused => not_authorized(),
            });
        }
        Ok(server.number)
    }

    pub(super) fn require_region_of(
        &self,
        number: u64,
        region: Option<&str>,
    ) -> Result<(), Refusal> {
        let region = required(region, "RegionCode")?;
        if self.servers[&number].region == region {
            Ok(())
        } else {
            Err(Refusal::unknown("RegionCode"))
        }
    }

    /// Requires that no operation runs on the server.
    pub(super) fn require_idle(&self, number: u64) -> Result<(), Refusal> {
        match self.servers[&number].pending {
            None => Ok(()),
            Some(verb) => Err(Refusal::new(
                409,
                "OperationConflict.InProgress",
                format!("Another operation is in progress: {}", verb.pending()),
            )),
        }
    }

    pub(super) fn require_power(
        &self,
        number: u64,
        power: Power,
        code: &str,
    ) -> Result<(), Refusal> {
        let found = self.servers[&number].power;
        if found == power {
            return Ok(());
        }
        let message = format!(
            "The instance status {} does not allow this operation",
            found.word()
        );
        Err(Refusal::new(
            409,
            format!("InvalidEcsStatus.{code}"),
            message,
        ))
    }

    /// Requires that the deployment did not fail: a broken server can only be released.
    pub(super) fn require_whole(&self, number: u64) -> Result<(), Refusal> {
        if self.servers[&number].power != Power::Broken {
            return Ok(());
        }
        Err(Refusal::new(
            409,
            "InvalidEcsStatus.Error",
            "The deployment of the instance failed",
        ))
    }
}

/// The token may not see this region.
pub(super) fn not_authorized() -> Refusal {
    Refusal::new(
        403,
        "Authorized.Error",
        "The token is not authorized for this region",
    )
}

pub(super) fn no_such_instance() -> Refusal {
    Refusal::new(
        404,
        "InvalidInstance.NotFound",
        "The specified instance does not exist",
    )
}
