//! Finds the row of a list that a selector matches. Pure: rows in, a choice out.

use crate::api::{ChargeMode, ImageRef, PackageRef};
use crate::cloud::{IdAndName, Offer};
use std::cmp::{Ordering, Reverse};
use std::fmt;

/// The number of candidates that a message names.
const SHOWN: usize = 4;
/// The number of characters of a name that a message repeats.
const NAME: usize = 48;

/// The result of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    One(String),
    /// No row matches; these are the closest.
    None(Candidates),
    /// Several rows match.
    Many(Candidates),
}

impl Choice {
    /// Whether the selector matches exactly one row.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }
}

/// Rows that a message names, with identifier and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    shown: Vec<String>,
    more: bool,
}

impl Candidates {
    pub fn of(all: impl IntoIterator<Item = IdAndName>) -> Self {
        let mut all = all.into_iter();
        let show = |(id, name): IdAndName| match name {
            Some(name) => format!("{id} ({})", cut(&name)),
            None => id,
        };
        let shown = all.by_ref().take(SHOWN).map(show).collect();
        Self {
            shown,
            more: all.next().is_some(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown.join(", "))?;
        f.write_str(if self.more { " and others" } else { "" })
    }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// The smallest package, by [`order`], that fits the filter; see [`is_large_enough`].
pub fn package(rows: &[Offer], wanted: &PackageRef) -> Choice {
    let large = rows.iter().filter(|row| is_large_enough(row, wanted));
    if let Some(smallest) = large.min_by(order) {
        return Choice::One(smallest.id.clone());
    }
    // No package fits the filter, so the largest are named, those with the requested charge mode first.
    let mut near: Vec<&Offer> = rows.iter().collect();
    near.sort_by(|a, b| {
        has_mode(b, wanted)
            .cmp(&has_mode(a, wanted))
            .then(order(b, a))
    });
    Choice::None(Candidates::of(
        near.into_iter().map(|row| (row.id.clone(), None)),
    ))
}

fn has_mode(row: &Offer, wanted: &PackageRef) -> bool {
    let is = |mode: ChargeMode| row.charge_mode.as_deref() == Some(mode.as_str());
    wanted.charge_mode.is_none_or(is)
}

/// Whether a package is at least as large as the filter demands, and has its charge mode. A package without a figure that the
/// filter demands does not fit; a missing data disk counts as a size of zero.
pub fn is_large_enough(row: &Offer, wanted: &PackageRef) -> bool {
    let enough = |found: Option<u64>, least: Option<i32>| {
        let least = least.map(|least| u64::try_from(least).unwrap_or(0));
        least.is_none_or(|least| found.is_some_and(|found| found >= least))
    };
    enough(row.cpu, wanted.cpu)
        && enough(row.memory, wanted.memory)
        && enough(row.system_disk, wanted.system_disk)
        && enough(row.data_disk.or(Some(0)), wanted.data_disk)
        && has_mode(row, wanted)
}

/// The order of packages, from the smallest: cpu, memory, system disk, data disk, name of the charge mode, included bandwidth or
/// traffic, code. A missing figure counts as the largest, so that the operator does not buy a large package as the smallest. A
/// missing data disk counts as none.
pub fn order(a: &&Offer, b: &&Offer) -> Ordering {
    let known = |figure: Option<u64>| figure.unwrap_or(u64::MAX);
    let key = |row: &Offer| {
        (
            known(row.cpu),
            known(row.memory),
            known(row.system_disk),
            row.data_disk.unwrap_or(0),
            row.charge_mode.clone(),
            known(row.bandwidth.or(row.free_flow)),
            row.id.clone(),
        )
    };
    key(a).cmp(&key(b))
}

/// The one matching image. If several match, one that is in `current`: a server keeps its image even if the service adds another
/// of the same name.
pub fn image(rows: &[Offer], wanted: &ImageRef, current: &[String]) -> Choice {
    let named = |row: &Offer| (row.id.clone(), image_name(row));
    let fitting = rows.iter().filter(|row| {
        wanted.fits(
            row.name.as_deref(),
            row.distribution.as_deref(),
            row.kind.as_deref(),
        )
    });
    let texts = [wanted.name.as_deref(), wanted.distribution.as_deref()];
    let all = rows.iter().map(named).collect();
    choose(fitting.map(named).collect(), all, &texts, current)
}

/// An image in a message: its name, or its distribution if it has none, and its kind unless that is `System`.
fn image_name(row: &Offer) -> Option<String> {
    let kind = row.kind.as_deref().filter(|kind| *kind != "System");
    let name = row.name.as_ref().or(row.distribution.as_ref())?;
    Some(match kind {
        Some(kind) => format!("{name}, {kind}"),
        None => name.clone(),
    })
}

/// The row with this code, or else the one with this name.
pub fn by_code_or_name(all: Vec<IdAndName>, text: &str) -> Choice {
    if all.iter().any(|(code, _)| code == text) {
        return Choice::One(text.to_owned());
    }
    by_name(all, text, &[])
}

/// The row with this name; see [`image`] for `current`.
pub(super) fn by_name(all: Vec<IdAndName>, name: &str, current: &[String]) -> Choice {
    let fitting = all.iter().filter(|(_, its)| its.as_deref() == Some(name));
    choose(fitting.cloned().collect(), all, &[Some(name)], current)
}

/// The row with exactly this identifier or code; otherwise the rows with the closest spelling.
pub fn exact(all: Vec<IdAndName>, wanted: &str) -> Choice {
    match all.iter().any(|(id, _)| id == wanted) {
        true => Choice::One(wanted.to_owned()),
        false => Choice::None(closest(all, &[Some(wanted)])),
    }
}

fn choose(
    mut fitting: Vec<IdAndName>,
    all: Vec<IdAndName>,
    wanted: &[Option<&str>],
    current: &[String],
) -> Choice {
    let mut current = current.iter();
    if let Some(id) = current.find(|id| fitting.iter().any(|(fits, _)| fits == *id)) {
        return Choice::One(id.clone());
    }
    match fitting.as_slice() {
        [] => Choice::None(closest(all, wanted)),
        [(id, _)] => Choice::One(id.clone()),
        _ => {
            fitting.sort();
            Choice::Many(Candidates::of(fitting))
        }
    }
}

/// The rows whose identifier or name is spelt most like one of these texts.
fn closest(mut all: Vec<IdAndName>, wanted: &[Option<&str>]) -> Candidates {
    let likeness = |(id, name): &IdAndName| {
        let wanted = wanted.iter().flatten();
        let found = name.as_deref().unwrap_or_default();
        let best = wanted.map(|wanted| likeness(wanted, id).max(likeness(wanted, found)));
        best.max()
    };
    all.sort_by_cached_key(|row| (Reverse(likeness(row)), row.1.clone(), row.0.clone()));
    Candidates::of(all)
}

/// The number of characters that two texts share at their start and end, regardless of case: all but one if a character is
/// mistyped.
fn likeness(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| text.to_lowercase().chars().collect::<Vec<_>>());
    let is_alike = |(a, b): &(&char, &char)| a == b;
    let first = a.iter().zip(&b).take_while(is_alike).count();
    let last = a.iter().rev().zip(b.iter().rev()).take_while(is_alike);
    (first + last.count()).min(a.len()).min(b.len())
}

#[cfg(test)]
mod tests;
