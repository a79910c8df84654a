//! `catalog`: what the service offers, as tables for people and as JSON or YAML for programs.

use super::completion::values;
use super::output::{Column, Output, note, print, render};
use super::progress::Progress;
use super::servers::no_region;
use super::service::ServiceArgs;
use super::{asked, chain, unreadable};
use crate::api::{ChargeMode, ImageKind, PackageRef};
use crate::catalog::{self, Candidates, Catalog, Choice, Listing, Looked};
use crate::cloud::{CallPriority, Offer, Region};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;

/// Flags of `catalog`.
#[derive(Debug, Args)]
pub(super) struct CatalogArgs {
    #[command(flatten)]
    service: ServiceArgs,

    /// How it is printed.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    output: Output,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Regions and their zones. One that is sold out may be missing.
    Regions(Named),
    /// Packages, the smallest first: the first that fits is the one that a filter in spec.package means.
    Packages(Packages),
    /// Images.
    Images(Images),
    /// Security groups.
    Firewalls(InRegion),
    /// Key pairs.
    Keys(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Only those with this in their name.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct InRegion {
    /// Only this region, by code or name.
    #[arg(long, value_name = "REGION", add = values::regions())]
    region: Option<String>,

    #[command(flatten)]
    named: Named,
}

#[derive(Debug, Args)]
struct Images {
    #[command(flatten)]
    within: InRegion,

    /// Only images of this type.
    #[arg(long = "type", value_enum, ignore_case = true, value_name = "TYPE")]
    kind: Option<ImageType>,

    /// Only images of this distribution (osDistroVersion).
    #[arg(long, value_name = "TEXT")]
    distribution: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ImageType {
    #[value(name = "System")]
    System,
    #[value(name = "Self")]
    Own,
    #[value(name = "Application")]
    Application,
}

#[derive(Debug, Args)]
struct Packages {
    /// Only this region, by code or name.
    #[arg(long, value_name = "REGION", add = values::regions())]
    region: Option<String>,

    /// Only this zone, by code or name.
    #[arg(long, value_name = "ZONE", add = values::zones())]
    zone: Option<String>,

    /// At least so many CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    cpu: Option<i32>,

    /// At least so much memory, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    memory: Option<i32>,

    /// At least so large a system disk, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    system_disk: Option<i32>,

    /// At least so large a data disk, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    data_disk: Option<i32>,

    /// Only packages that are paid like this.
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE")]
    charge_mode: Option<Mode>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    #[value(name = "PayByTraffic")]
    Traffic,
    #[value(name = "PayByBandwidth")]
    Bandwidth,
}

const REGIONS: [Column; 4] = [
    Column::text("REGION", "regionCode"),
    Column::text("NAME", "regionName"),
    Column::text("ZONE", "zoneCode"),
    Column::text("ZONE NAME", "zoneName"),
];

const PACKAGES: [Column; 10] = [
    Column::text("CODE", "packageCode"),
    Column::number("CPU", "cpu"),
    Column::number("MEMORY", "memory"),
    Column::number("SYSTEM DISK", "systemDiskSize"),
    Column::number("DATA DISK", "dataDiskSize"),
    Column::text("CHARGE MODE", "publicIpChargeMode"),
    Column::number("BANDWIDTH", "bandwidth").wide(),
    Column::number("FREE FLOW", "freeFlow").wide(),
    Column::text("REGION", "regionCode").telling(),
    Column::text("ZONE", "zoneCode").telling(),
];

const IMAGES: [Column; 9] = [
    Column::text("ID", "imageResourceUUID"),
    Column::text("NAME", "imageName"),
    Column::text("TYPE", "imageType"),
    Column::text("DISTRIBUTION", "osDistroVersion"),
    Column::text("REGION", "regionCode"),
    Column::text("VERSION", "osVersion").wide(),
    Column::number("SIZE", "imageSize").wide(),
    Column::text("ACCOUNT", "imageAccount").wide(),
    Column::text("SSH", "supportSsh").wide(),
];

const FIREWALLS: [Column; 7] = [
    Column::text("ID", "firewallUUID"),
    Column::text("NAME", "firewallName"),
    Column::text("REGION", "regionCode"),
    Column::number("RULES", "ruleNumber"),
    Column::number("SERVERS", "ecsNumber"),
    Column::text("STATUS", "firewallStatus").wide(),
    Column::text("DESCRIPTION", "description").wide(),
];

const KEYS: [Column; 3] = [
    Column::text("ID", "sshKeyUUID"),
    Column::text("NAME", "sshKeyName"),
    Column::text("CREATED", "createTime"),
];

/// Prints what was asked for.
pub(super) fn catalog(args: &CatalogArgs) -> ExitCode {
    asked(show(args), |text| print(&text))
}

async fn show(args: &CatalogArgs) -> Result<String, String> {
    let progress = Progress::begin("asking the service");
    let client = args
        .service
        .connect()
        .await
        .map_err(|error| chain(&error))?;
    let view = View {
        catalog: Catalog::new(client.clone()),
        client,
        progress: &progress,
    };
    let output = args.output;
    let (columns, rows): (&[Column], Vec<Value>) = match &args.what {
        What::Regions(named) => {
            let rows = view.regions(named).await?;
            let is_table = matches!(output, Output::Table | Output::Wide);
            (&REGIONS, if is_table { by_zone(&rows) } else { rows })
        }
        What::Packages(wanted) => (&PACKAGES, view.packages(wanted).await?),
        What::Images(wanted) => (&IMAGES, view.images(wanted).await?),
        What::Firewalls(wanted) => (&FIREWALLS, view.firewalls(wanted).await?),
        What::Keys(named) => (&KEYS, view.keys(named).await?),
    };
    drop(progress);
    if rows.is_empty() {
        note("the service lists nothing that fits: try without some of the filters");
    }
    render(output, columns, &rows)
}

/// What a service offers.
struct View<'a> {
    client: crate::cloud::Client,
    catalog: Catalog,
    progress: &'a Progress,
}

impl View<'_> {
    /// A list that was read; what it may lack is told on stderr, so that what programs read stays whole.
    fn read<T>(&self, what: &str, listed: Looked<T>) -> Result<Arc<Listing<T>>, String> {
        let listing = listed.map_err(|unread| unreadable(&self.client, what, unread))?;
        self.warn(what, listing.doubt());
        Ok(listing)
    }

    fn warn(&self, what: &str, doubt: Option<&str>) {
        if let Some(doubt) = doubt {
            let progress = self.progress;
            progress.note(&format!(
                "warning: the list of {what} may lack some: {doubt}"
            ));
        }
    }

    async fn all_regions(&self) -> Result<Arc<Listing<Region>>, String> {
        let listed = self.catalog.regions(|_| true).await;
        self.read("regions", listed)
    }

    /// The regions to look at: the one that is named, or all.
    async fn chosen(&self, wanted: Option<&String>) -> Result<Vec<Region>, String> {
        let Some(text) = wanted else {
            return Ok(self.all_regions().await?.rows.clone());
        };
        let all = self.all_regions().await?;
        let code = match catalog::region(&all.rows, text) {
            Choice::One(code) => code,
            Choice::Many(several) => {
                return Err(format!(
                    "several regions are called {text}: {several}: name one by its code with --region"
                ));
            }
            Choice::None(near) => {
                return Err(no_region(text, &near));
            }
        };
        let chosen = all.rows.iter().filter(|row| row.code == code);
        Ok(chosen.cloned().collect())
    }

    async fn regions(&self, named: &Named) -> Result<Vec<Value>, String> {
        let all = self.all_regions().await?;
        let rows = all.rows.iter();
        let fitting =
            rows.filter(|row| named.fits(row.name.as_deref()) || named.fits(Some(&row.code)));
        Ok(fitting.map(|row| served(row, None)).collect())
    }

    async fn packages(&self, wanted: &Packages) -> Result<Vec<Value>, String> {
        let filter = wanted.filter();
        let mut found = Vec::new();
        for region in self.chosen(wanted.region.as_ref()).await? {
            let zone = match &wanted.zone {
                None => None,
                Some(text) => match catalog::zone(&region.zones, text) {
                    Choice::One(code) => Some(code),
                    // It may be one of another region.
                    _ if wanted.region.is_none() => continue,
                    Choice::Many(near) => {
                        return Err(format!(
                            "region {} has several zones {text}: {near}: name one of these with --zone",
                            region.code
                        ));
                    }
                    Choice::None(near) => {
                        return Err(no_zone(&region.code, text, &near));
                    }
                },
            };
            let listed = self
                .client
                .packages(CallPriority::Urgent, &region.code, zone.as_deref());
            let listed = listed.await;
            let listed = listed.map_err(|error| unreadable(&self.client, "packages", error))?;
            self.warn("packages", catalog::doubt(true, listed.unreadable == 0));
            found.extend(
                listed
                    .rows
                    .into_iter()
                    .map(|row| (region.code.clone(), row)),
            );
        }
        found.retain(|(_, row)| catalog::is_large_enough(row, &filter));
        found.sort_by(|(_, a), (_, b)| catalog::order(&a, &b));
        let rows = found.iter().map(|(region, row)| served(row, Some(region)));
        Ok(rows.collect())
    }

    async fn images(&self, wanted: &Images) -> Result<Vec<Value>, String> {
        let kind = wanted.kind.map(|kind| match kind {
            ImageType::System => ImageKind::System.as_str(),
            ImageType::Own => ImageKind::Own.as_str(),
            ImageType::Application => ImageKind::Application.as_str(),
        });
        let mut rows = Vec::new();
        for region in self.chosen(wanted.within.region.as_ref()).await? {
            let listed = self.catalog.images(&region.code, |_| true).await;
            let listed = self.read("images", listed)?;
            let fitting = listed.rows.iter().filter(|row| {
                wanted.within.named.fits(row.name.as_deref())
                    && kind.is_none_or(|kind| row.kind.as_deref() == Some(kind))
                    && contains(wanted.distribution.as_deref(), row.distribution.as_deref())
            });
            rows.extend(fitting.map(|row| served(row, Some(&region.code))));
        }
        Ok(rows)
    }

    async fn firewalls(&self, wanted: &InRegion) -> Result<Vec<Value>, String> {
        let mut rows = Vec::new();
        for region in self.chosen(wanted.region.as_ref()).await? {
            let listed = self.catalog.firewalls(&region.code, |_| true).await;
            let listed = self.read("security groups", listed)?;
            let fitting = listed
                .rows
                .iter()
                .filter(|row| wanted.named.fits(row.name.as_deref()));
            rows.extend(fitting.map(|row| served(row, Some(&region.code))));
        }
        Ok(rows)
    }

    async fn keys(&self, named: &Named) -> Result<Vec<Value>, String> {
        let listed = self.catalog.keys(|_| true).await;
        let listed = self.read("key pairs", listed)?;
        let fitting = listed
            .rows
            .iter()
            .filter(|row| named.fits(row.name.as_deref()));
        Ok(fitting.map(|row| served(row, None)).collect())
    }
}

impl Named {
    fn fits(&self, name: Option<&str>) -> bool {
        contains(self.name.as_deref(), name)
    }
}

impl Packages {
    fn filter(&self) -> PackageRef {
        PackageRef {
            code: None,
            cpu: self.cpu,
            memory: self.memory,
            system_disk: self.system_disk,
            data_disk: self.data_disk,
            charge_mode: self.charge_mode.map(|mode| match mode {
                Mode::Traffic => ChargeMode::PayByTraffic,
                Mode::Bandwidth => ChargeMode::PayByBandwidth,
            }),
        }
    }
}

/// Whether a text has this in it, upper and lower case alike.
fn contains(part: Option<&str>, text: Option<&str>) -> bool {
    part.is_none_or(|part| {
        text.is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
    })
}

/// A row under the service's own field names, with its region where the service leaves that out.
fn served(row: &impl Offer, region: Option<&String>) -> Value {
    let mut fields = row.fields().clone();
    if let Some(region) = region {
        let field = fields.entry("regionCode");
        field.or_insert_with(|| Value::from(region.as_str()));
    }
    Value::Object(fields)
}

/// A line for each zone; one for a region without any.
fn by_zone(regions: &[Value]) -> Vec<Value> {
    let lines = |region: &Value| {
        let zones = region.get("zones").and_then(Value::as_array);
        let zones = zones.filter(|zones| !zones.is_empty());
        let Some(zones) = zones else {
            return vec![region.clone()];
        };
        let line = |zone: &Value| {
            let mut line = region.clone();
            for field in ["zoneCode", "zoneName"] {
                line[field] = zone.get(field).cloned().unwrap_or_default();
            }
            line
        };
        zones.iter().map(line).collect()
    };
    regions.iter().flat_map(lines).collect()
}

/// A region has no such zone; these come nearest.
fn no_zone(region: &str, text: &str, near: &Candidates) -> String {
    let there = match near.is_empty() {
        true => "the service lists none there: leave --zone out, or name another region".to_owned(),
        false => format!("it has {near}: name one of these with --zone"),
    };
    format!("region {region} has no zone {text}; {there}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_without_zones_is_told_as_such() {
        let near = Candidates::of([("r-1-a".to_owned(), Some("A".to_owned()))]);
        assert_eq!(
            no_zone("r-1", "x", &near),
            "region r-1 has no zone x; it has r-1-a (A): name one of these with --zone"
        );
        assert_eq!(
            no_zone("r-1", "x", &Candidates::default()),
            "region r-1 has no zone x; the service lists none there: leave --zone out, or name another region"
        );
    }
}
