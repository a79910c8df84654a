//! Which row of a list a selector means. Pure: rows in, a choice out.

use crate::api::{ImageRef, PackageRef};
use crate::cloud::{Firewall, Image, Key, Package, Region, Zone};
use std::cmp::{Ordering, Reverse};
use std::fmt;

/// Candidates that a message names.
const SHOWN: usize = 4;
/// Characters of a name that a message repeats.
const NAME: usize = 48;

/// What a selector means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Exactly this.
    One(String),
    /// Nothing; what comes nearest.
    None(Candidates),
    /// Any of these.
    Many(Candidates),
}

impl Choice {
    /// Whether the selector means exactly one thing.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }
}

/// Rows that a message names, identifier and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    shown: Vec<String>,
    more: bool,
}

impl Candidates {
    /// The first of these.
    pub fn of(all: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let mut all = all.into_iter();
        let say = |(id, name): (String, Option<String>)| match name {
            Some(name) => format!("{id} ({})", cut(&name)),
            None => id,
        };
        let shown = all.by_ref().take(SHOWN).map(say).collect();
        Self {
            shown,
            more: all.next().is_some(),
        }
    }

    /// Whether there are none.
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

/// The smallest package that is at least as large as the filter says, by [`order`].
pub fn package(rows: &[Package], wanted: &PackageRef) -> Choice {
    let large = rows.iter().filter(|row| is_large_enough(row, wanted));
    if let Some(smallest) = large.min_by(order) {
        return Choice::One(smallest.code.clone());
    }
    // What is asked for is larger than anything there is: the largest come nearest.
    let mode = |row: &Package| {
        wanted
            .charge_mode
            .is_none_or(|mode| pays(row, mode.as_str()))
    };
    let mut near: Vec<&Package> = rows.iter().collect();
    near.sort_by(|a, b| mode(b).cmp(&mode(a)).then(order(b, a)));
    Choice::None(Candidates::of(
        near.into_iter().map(|row| (row.code.clone(), None)),
    ))
}

fn pays(row: &Package, mode: &str) -> bool {
    row.charge_mode.as_deref() == Some(mode)
}

/// Whether a package is at least as large as the filter says. A figure that the service does not tell is not enough, but for a
/// data disk, which some packages do not have.
pub fn is_large_enough(row: &Package, wanted: &PackageRef) -> bool {
    let enough = |found: Option<u64>, least: Option<i32>| {
        let least = least.map(|least| u64::try_from(least).unwrap_or(0));
        least.is_none_or(|least| found.is_some_and(|found| found >= least))
    };
    enough(row.cpu, wanted.cpu)
        && enough(row.memory, wanted.memory)
        && enough(row.system_disk, wanted.system_disk)
        && enough(row.data_disk.or(Some(0)), wanted.data_disk)
        && wanted
            .charge_mode
            .is_none_or(|mode| pays(row, mode.as_str()))
}

/// The order of packages, from the smallest: cpu, memory, system disk, data disk, charge mode by its name, what of bandwidth
/// or free traffic comes with it, code. A figure that is not told counts as the largest, so that nothing is bought for
/// small that may be large.
pub fn order(a: &&Package, b: &&Package) -> Ordering {
    let told = |figure: Option<u64>| figure.unwrap_or(u64::MAX);
    let key = |row: &Package| {
        (
            told(row.cpu),
            told(row.memory),
            told(row.system_disk),
            row.data_disk.unwrap_or(0),
            row.charge_mode.clone(),
            told(row.bandwidth.or(row.free_flow)),
            row.code.clone(),
        )
    };
    key(a).cmp(&key(b))
}

/// The one image that fits. Where several do, one of `standing` that is among them: what a server has already stays, also
/// when the service adds another of the same name.
pub fn image(rows: &[Image], wanted: &ImageRef, standing: &[&str]) -> Choice {
    let fitting = rows.iter().filter(|row| {
        wanted.fits(
            row.name.as_deref(),
            row.distribution.as_deref(),
            row.kind.as_deref(),
        )
    });
    let words = [wanted.name.as_deref(), wanted.distribution.as_deref()];
    let near = |row: &Image| {
        let of =
            |word: Option<&str>, text: Option<&str>| word.map_or(FAR, |word| distance(word, text));
        of(words[0], row.name.as_deref()).min(of(words[1], row.distribution.as_deref()))
    };
    choose(
        fitting
            .map(|row| (row.id.clone(), image_name(row)))
            .collect(),
        rows.iter()
            .map(|row| (near(row), row.id.clone(), image_name(row)))
            .collect(),
        standing,
    )
}

/// An image in a message: its name, and where it has none its distribution.
fn image_name(row: &Image) -> Option<String> {
    let kind = row.kind.as_deref().filter(|kind| *kind != "System");
    let name = row.name.as_ref().or(row.distribution.as_ref())?;
    Some(match kind {
        Some(kind) => format!("{name}, {kind}"),
        None => name.clone(),
    })
}

/// The one security group of that name.
pub fn firewall(rows: &[Firewall], name: &str) -> Choice {
    by_name(rows, name, &[], |row| (row.id.clone(), row.name.clone()))
}

/// The one key pair of that name; see [`image`] for `standing`.
pub fn key(rows: &[Key], name: &str, standing: &[&str]) -> Choice {
    by_name(rows, name, standing, |row| {
        (row.id.clone(), row.name.clone())
    })
}

/// The region of that code, else the one of that name.
pub fn region(rows: &[Region], text: &str) -> Choice {
    if rows.iter().any(|row| row.code == text) {
        return Choice::One(text.to_owned());
    }
    by_name(rows, text, &[], |row| (row.code.clone(), row.name.clone()))
}

/// The zone of that code, else the one of that name.
pub fn zone(rows: &[Zone], text: &str) -> Choice {
    if rows.iter().any(|row| row.code == text) {
        return Choice::One(text.to_owned());
    }
    by_name(rows, text, &[], |row| (row.code.clone(), row.name.clone()))
}

/// The one of these, by identifier or code and name, that is called exactly so; else those whose spelling comes nearest.
pub fn exact(all: impl IntoIterator<Item = (String, Option<String>)>, wanted: &str) -> Choice {
    let mut all: Vec<_> = all.into_iter().collect();
    if all.iter().any(|(id, _)| id == wanted) {
        return Choice::One(wanted.to_owned());
    }
    all.sort_by_cached_key(|(id, name)| {
        let far = distance(wanted, Some(id)).min(distance(wanted, name.as_deref()));
        (far, Reverse(shared(wanted, id)), id.clone())
    });
    Choice::None(Candidates::of(all))
}

/// Characters that two codes have in common at their beginning and at their end: all but one where one is mistyped.
fn shared(a: &str, b: &str) -> usize {
    let alike = |(a, b): &(char, char)| a == b;
    let first = a.chars().zip(b.chars()).take_while(alike).count();
    let last = a.chars().rev().zip(b.chars().rev());
    let last = last.take_while(alike).count();
    let shorter = a.chars().count().min(b.chars().count());
    (first + last).min(shorter)
}

fn by_name<T>(
    rows: &[T],
    name: &str,
    standing: &[&str],
    named: impl Fn(&T) -> (String, Option<String>),
) -> Choice {
    let all: Vec<(String, Option<String>)> = rows.iter().map(named).collect();
    let fitting = all.iter().filter(|(_, its)| its.as_deref() == Some(name));
    let fitting = fitting.cloned().collect();
    let near = |(id, its): (String, Option<String>)| {
        let far = distance(name, its.as_deref()).min(distance(name, Some(&id)));
        (far, id, its)
    };
    choose(fitting, all.into_iter().map(near).collect(), standing)
}

fn choose(
    mut fitting: Vec<(String, Option<String>)>,
    mut near: Vec<(u8, String, Option<String>)>,
    standing: &[&str],
) -> Choice {
    if let Some(id) = standing
        .iter()
        .find(|id| fitting.iter().any(|(fits, _)| fits == *id))
    {
        return Choice::One((*id).to_owned());
    }
    match fitting.as_slice() {
        [] => {
            near.sort_by(|a, b| (a.0, &a.2, &a.1).cmp(&(b.0, &b.2, &b.1)));
            let near = near.into_iter().map(|(_, id, name)| (id, name));
            Choice::None(Candidates::of(near))
        }
        [(id, _)] => Choice::One(id.clone()),
        _ => {
            fitting.sort();
            Choice::Many(Candidates::of(fitting))
        }
    }
}

/// What has nothing in common with what was asked for.
const FAR: u8 = 4;

/// How far a name is from what was asked for: the same but for case, the beginning of it, a part of it, the same first
/// word, or something else.
fn distance(wanted: &str, found: Option<&str>) -> u8 {
    let Some(found) = found else { return FAR };
    let (wanted, found) = (wanted.to_lowercase(), found.to_lowercase());
    let first = |text: &str| text.split_whitespace().next().map(ToOwned::to_owned);
    if wanted == found {
        0
    } else if found.starts_with(&wanted) || wanted.starts_with(&found) {
        1
    } else if found.contains(&wanted) || wanted.contains(&found) {
        2
    } else if first(&wanted) == first(&found) {
        3
    } else {
        FAR
    }
}

#[cfg(test)]
mod tests;
