//! Divides the cluster among several processes that act at the same time.
//!
//! A shard is a set of namespaces: an Instance refers only to objects in its own namespace, so everything that must be exact
//! (the limits of an Account, its one listing, its share of requests, the copy of its token) stays within one shard. All
//! processes of an operator must agree on the number of shards: [`super::lease`] explains what happens while two of them
//! differ.

use sha2::{Digest, Sha256};
use std::fmt;

/// One of several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u16,
    count: u16,
}

impl Shard {
    /// The only shard, with every namespace.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// All shards of an operator with this number of shards.
    pub fn all(count: u16) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// The shard of the Pod with this ordinal in a StatefulSet: with more Pods than shards, several Pods share a shard.
    pub fn of_ordinal(ordinal: u16, count: u16) -> Self {
        let count = count.max(1);
        Self {
            index: ordinal % count,
            count,
        }
    }

    /// All shards of the operator to which this one belongs, itself included.
    pub fn siblings(self) -> impl Iterator<Item = Self> {
        Self::all(self.count)
    }

    /// Whether the other one belongs to an operator with the same number of shards.
    pub fn is_sibling(self, other: Self) -> bool {
        self.count == other.count
    }

    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether this namespace belongs to this shard.
    ///
    /// The hash spreads names that differ in only one digit. The hash of the apiserver's `shardRange` (FNV-1a, by its first
    /// bits) is not used: it puts most of `team-0` to `team-99` into one half.
    pub fn owns(self, namespace: &str) -> bool {
        if self.is_whole() {
            return true;
        }
        let digest = Sha256::digest(namespace.as_bytes());
        let first = digest.first_chunk().copied().unwrap_or_default();
        let number = u64::from_be_bytes(first);
        // Divides the range of all numbers into equal parts.
        (u128::from(number) * u128::from(self.count)) >> 64 == u128::from(self.index)
    }

    /// The name of this shard's Lease, if an operator without shards uses the Lease `name`.
    pub fn lease(self, name: &str) -> String {
        if self.is_whole() {
            name.to_owned()
        } else {
            format!("{name}-{self}")
        }
    }

    /// The shard of a Lease, if an operator whose Leases begin with `name` uses that Lease.
    pub fn of_lease(name: &str, lease: &str) -> Option<Self> {
        let rest = lease.strip_prefix(name)?;
        if rest.is_empty() {
            return Some(Self::WHOLE);
        }
        let (index, count) = rest.strip_prefix('-')?.split_once("-of-")?;
        let shard = Self {
            index: index.parse().ok()?,
            count: count.parse().ok()?,
        };
        // Only the canonical spelling counts.
        (shard.count > 1 && shard.index < shard.count && shard.lease(name) == lease)
            .then_some(shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_is_in_one_shard_and_similar_names_are_spread() {
        for count in [1, 2, 3, 4, 16] {
            for pattern in ["team-", "tenant-00", "prod-eu-west-"] {
                let mut sizes = vec![0; usize::from(count)];
                for number in 0..400 {
                    let namespace = format!("{pattern}{number}");
                    let owners: Vec<Shard> =
                        Shard::all(count).filter(|s| s.owns(&namespace)).collect();
                    assert_eq!(owners.len(), 1, "{namespace}: {owners:?}");
                    sizes[usize::from(owners[0].index)] += 1;
                }
                let fair = 400 / usize::from(count);
                // Five standard deviations of a fair distribution.
                let most = fair + 5 * fair.isqrt();
                assert!(
                    sizes.iter().all(|size| *size <= most),
                    "{pattern}: {sizes:?}"
                );
            }
        }
    }

    /// A change of these expectations moves namespaces between processes of different versions.
    #[test]
    fn a_namespace_stays_where_it_is() {
        let of = |namespace: &str| {
            let mut all = Shard::all(4);
            all.find(|shard| shard.owns(namespace)).map(|s| s.index)
        };
        let stays = ["default", "team-a", "team-b", "prod"].map(of);
        assert_eq!(stays, [Some(0), Some(2), Some(3), Some(1)]);
    }

    /// FNV-1a as kube-apiserver 1.36 computes it for `shardRange`.
    #[test]
    fn the_hash_of_the_apiserver_puts_similar_names_into_one_half() {
        let hash = |name: &str| {
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        };
        let upper = (0..100).filter(|n| hash(&format!("team-{n}")) >> 63 == 1);
        let upper = upper.count();
        assert!(upper.max(100 - upper) >= 85, "{upper}");
    }

    #[test]
    fn the_name_of_a_lease_contains_its_shard_and_other_names_contain_none() {
        for count in [1, 4] {
            for shard in Shard::all(count) {
                assert_eq!(Shard::of_lease("cso", &shard.lease("cso")), Some(shard));
            }
        }
        assert_eq!(Shard::WHOLE.lease("cso"), "cso");
        for other in [
            "cs",
            "cso-",
            "cso-0-of-1",
            "cso-4-of-4",
            "cso-00-of-4",
            "cso-1-of-x",
            "cso2",
            "other",
        ] {
            assert_eq!(Shard::of_lease("cso", other), None, "{other}");
        }
    }
}
