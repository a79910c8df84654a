//! Numbers and identifiers that look random and are functions of (seed, purpose, counter).
//!
//! The simulator has no random number generator: every "draw" is this mix of the seed and a counter in its state. A clone, a
//! restart and a replay therefore draw the same values, and a draw for one purpose never shifts the draws of another.

/// The alphabet of the suffixes of identifiers: 32 letters and digits, without those that are easily confused.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Spreads (seed, purpose, counter) over 64 bits, with the finaliser of the SplitMix64 generator.
#[must_use]
pub fn mix(seed: u64, purpose: &str, counter: u64) -> u64 {
    let named = purpose
        .bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let mut z = finalise(named).wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = finalise(z);
    finalise(z.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A suffix of twelve characters, as in the identifiers of the service.
#[must_use]
pub fn suffix(seed: u64, purpose: &str, counter: u64) -> String {
    let bits = mix(seed, purpose, counter);
    (0..12u32)
        .map(|place| char::from(ALPHABET[usize::try_from((bits >> (place * 5)) & 31).unwrap_or(0)]))
        .collect()
}

/// True for the fraction `probability` of all draws.
#[must_use]
pub fn chance(seed: u64, purpose: &str, counter: u64, probability: f64) -> bool {
    // The 32 bits of a u32 convert to f64 without loss.
    let draw = u32::try_from(mix(seed, purpose, counter) >> 32).unwrap_or(u32::MAX);
    f64::from(draw) / (f64::from(u32::MAX) + 1.0) < probability
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn suffixes_differ_by_counter_purpose_and_seed() {
        let many: BTreeSet<_> = (0..20_000).map(|n| suffix(1, "server", n)).collect();
        assert_eq!(many.len(), 20_000);
        assert_ne!(suffix(1, "server", 3), suffix(1, "task", 3));
        assert_ne!(suffix(1, "server", 3), suffix(2, "server", 3));
    }

    #[test]
    fn a_chance_is_about_as_large_as_asked() {
        let hits = (0..10_000).filter(|n| chance(9, "rule", *n, 0.3)).count();
        assert!((2_700..3_300).contains(&hits), "{hits}");
        assert_eq!((0..1_000).filter(|n| chance(9, "rule", *n, 0.0)).count(), 0);
        assert_eq!(
            (0..1_000).filter(|n| chance(9, "rule", *n, 1.0)).count(),
            1_000
        );
    }
}
