//! The queries: detail, task, and the listings with their paging.

use std::collections::BTreeSet;

use super::World;
use super::reply::{Answer, Effect, Page, Refusal};
use super::request::ListRequest;
use super::require::{no_such_instance, not_authorized, required};
use super::server::ServerView;
use crate::catalogue::{ImageKind, Region};
use crate::readings::{ListOrder, UnseenRegion};

type Answered = Result<(Answer, Effect), Refusal>;

/// Rows of a page if the caller does not choose a page size.
const DEFAULT_PAGE_SIZE: usize = 10;

/// The largest page.
const MAX_PAGE_SIZE: usize = 50;

impl World {
    pub(super) fn detail(&mut self, account: usize, id: Option<&str>) -> Answered {
        let number = self.require_server(account, id)?;
        let hidden = self.readings.detail_late && self.servers[&number].visible_at > self.now;
        if hidden {
            return Err(no_such_instance());
        }
        let view = self.look_at(number);
        Ok((Answer::Instance(Box::new(view)), Effect::None))
    }

    pub(super) fn task_result(&mut self, account: usize, id: Option<&str>) -> Answered {
        let id = required(id, "AsyncTaskUUID")?;
        let owner = &self.accounts[account].name;
        let kept = self.readings.task_kept;
        let now = self.now;
        let number = self.task_by_id.get(id).copied();
        let task = number.and_then(|number| self.tasks.get_mut(&number));
        let report = task
            .filter(|task| task.account == *owner)
            .filter(|task| match (kept, task.ended_at) {
                (Some(kept), Some(ended)) => now < ended.plus(kept),
                _ => true,
            })
            .and_then(super::task::Task::report);
        let report = report.ok_or_else(|| Refusal::unknown("AsyncTaskUUID"))?;
        Ok((Answer::Task(report), Effect::None))
    }

    /// The account's servers in one zone, in the order of the readings.
    pub(super) fn list_instances(&mut self, account: usize, query: &ListRequest) -> Answered {
        let (region, zone) = self.require_zone(query.region.as_deref(), query.zone.as_deref())?;
        let paging = Paging::of(query)?;
        if !self.accounts[account].sees(&region) {
            return match self.readings.unseen_region {
                UnseenRegion::Empty => Ok((Answer::Instances(Page::empty()), Effect::None)),
                UnseenRegion::Refused => Err(not_authorized()),
            };
        }
        let place = (self.accounts[account].name.clone(), zone);
        let numbers = self.places.get(&place).into_iter().flatten().copied();
        let newest_first = self.readings.list_order == ListOrder::NewestFirst;
        // Nearly always every server is visible. Then the total is known, and none of the perhaps ten thousand servers has to
        // be checked.
        let page = if self.all_visible_from <= self.now {
            let total = self.places.get(&place).map_or(0, BTreeSet::len);
            if newest_first {
                paging.cut_of(numbers.rev(), total)
            } else {
                paging.cut_of(numbers, total)
            }
        } else {
            let visible = numbers.filter(|number| self.servers[number].visible_at <= self.now);
            if newest_first {
                paging.cut(visible.rev())
            } else {
                paging.cut(visible)
            }
        };
        let rows = page
            .rows
            .into_iter()
            .map(|number| self.look_at(number))
            .collect();
        Ok((
            Answer::Instances(Page {
                rows,
                total: page.total,
            }),
            Effect::None,
        ))
    }

    pub(super) fn list_firewalls(&self, account: usize, query: &ListRequest) -> Answered {
        let region = self.require_region(query)?;
        let paging = Paging::of(query)?;
        let all = self
            .catalogue
            .firewalls()
            .iter()
            .filter(|each| each.region == region.code);
        let page = paging.cut(all);
        let row = |firewall: &crate::catalogue::Firewall| {
            let members = self.members_of(account, &firewall.id);
            (firewall.clone(), members, region.name.clone())
        };
        let rows = page.rows.into_iter().map(row).collect();
        Ok((
            Answer::Firewalls(Page {
                rows,
                total: page.total,
            }),
            Effect::None,
        ))
    }

    pub(super) fn list_images(&self, query: &ListRequest) -> Answered {
        let region = self.require_region(query)?;
        let paging = Paging::of(query)?;
        let word = query.image_kind.as_deref().filter(|word| !word.is_empty());
        let kind = match word.map(ImageKind::from_word) {
            None => None,
            Some(Some(kind)) => Some(kind),
            Some(None) => {
                return Err(Refusal::malformed(
                    "ImageType",
                    "The image type must be System, Self or Application",
                ));
            }
        };
        let all = self.catalogue.images().iter();
        let all = all.filter(|image| {
            image.region == region.code
                && kind.is_none_or(|kind| kind == image.kind)
                && self.catalogue.is_listed(image)
        });
        let page = paging.cut(all);
        let rows = page.rows.into_iter().cloned().collect();
        Ok((
            Answer::Images(Page {
                rows,
                total: page.total,
            }),
            Effect::None,
        ))
    }

    pub(super) fn list_keys(&self, query: &ListRequest) -> Answered {
        let page = Paging::of(query)?.cut(self.catalogue.keys().iter());
        let rows = page.rows.into_iter().cloned().collect();
        Ok((
            Answer::Keys(Page {
                rows,
                total: page.total,
            }),
            Effect::None,
        ))
    }

    /// The packages of a region, filtered by zone and code if given. Not paged, since the specification defines no page here.
    pub(super) fn list_packages(&self, query: &ListRequest) -> Answered {
        let region = self.require_region(query)?;
        let zone = query.zone.as_deref().filter(|zone| !zone.is_empty());
        if let Some(zone) = zone {
            self.catalogue
                .zone(&region.code, zone)
                .filter(|_| self.has_zone(&region.code, zone))
                .ok_or_else(|| Refusal::unknown("ZoneCode"))?;
        }
        let code = query.package.as_deref().filter(|code| !code.is_empty());
        let on_sale = !self.sold_out.contains(&region.code);
        let packages = self.catalogue.packages().iter().filter(|package| {
            on_sale
                && package.region == region.code
                && self.has_zone(&package.region, &package.zone)
                && zone.is_none_or(|zone| zone == package.zone)
                && code.is_none_or(|code| code == package.code)
        });
        Ok((Answer::Packages(packages.cloned().collect()), Effect::None))
    }

    pub(super) fn regions_on_sale(&self) -> Vec<Region> {
        let regions = self.catalogue.regions().iter();
        regions
            .filter(|region| !self.sold_out.contains(&region.code))
            .map(|region| {
                let mut region = region.clone();
                if self.readings.one_zone {
                    region.zones.truncate(1);
                }
                region
            })
            .collect()
    }

    fn require_region(&self, query: &ListRequest) -> Result<&Region, Refusal> {
        let code = required(query.region.as_deref(), "RegionCode")?;
        self.catalogue
            .region(code)
            .ok_or_else(|| Refusal::unknown("RegionCode"))
    }

    /// How many servers of the account are in a security group. Counted only if the group has servers at all.
    fn members_of(&self, account: usize, firewall: &str) -> usize {
        if self
            .members
            .get(firewall)
            .is_none_or(|members| *members == 0)
        {
            return 0;
        }
        let owner = &self.accounts[account].name;
        let members = self.servers.values().filter(|server| {
            server.is_live() && server.firewall == firewall && server.account == *owner
        });
        members.count()
    }

    /// The detail object. Counts the read if the readings require that.
    fn look_at(&mut self, number: u64) -> ServerView {
        if self.readings.used_flow_grows {
            self.update(number, |server| {
                server.reads = server.reads.saturating_add(1);
            });
        }
        ServerView::of(
            &self.servers[&number],
            &self.catalogue,
            self.seed,
            &self.readings,
            self.now,
        )
    }
}

/// The requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paging {
    page: usize,
    size: usize,
}

impl Paging {
    fn of(query: &ListRequest) -> Result<Self, Refusal> {
        let page = number(query.page.as_deref(), "Page", 1)?;
        let size = number(query.page_size.as_deref(), "PageSize", DEFAULT_PAGE_SIZE)?;
        if page == 0 {
            return Err(Refusal::new(
                400,
                "InvalidPage.OutOfRange",
                "The page must be 1 or more",
            ));
        }
        if !(1..=MAX_PAGE_SIZE).contains(&size) {
            return Err(Refusal::new(
                400,
                "InvalidPageSize.OutOfRange",
                "The page size must be 1 to 50",
            ));
        }
        Ok(Self { page, size })
    }

    fn cut<T>(self, all: impl Iterator<Item = T> + Clone) -> Page<T> {
        let total = all.clone().count();
        self.cut_of(all, total)
    }

    /// Selects the page from rows whose total is already known.
    fn cut_of<T>(self, all: impl Iterator<Item = T>, total: usize) -> Page<T> {
        let rows = all
            .skip((self.page - 1).saturating_mul(self.size))
            .take(self.size)
            .collect();
        Page { rows, total }
    }
}

fn number(text: Option<&str>, field: &str, default: usize) -> Result<usize, Refusal> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| Refusal::malformed(field, &format!("{field} must be a whole number"))),
    }
}
