//! Texts that have much in common, packed against one of them.
//!
//! The JSON of two Instances differs in some names, identifiers and times: all else is found in the other one. So each text is
//! deflated with a text that was packed before as the dictionary (the sample), and takes a fifth of what it takes by itself. Objects
//! in the same state are about as long: each length has a sample of its own, so that those that are bought do not serve as the
//! sample of those that are Ready.
//!
//! The types of the library are called after zlib, whose header is left out: they are the ones that take a dictionary.

use flate2::bufread::ZlibDecoder;
use flate2::{Compress, Compression, Decompress, FlushCompress, Status};
use std::fmt::{self, Debug, Formatter};
use std::io::{Error, Read};
use std::sync::Arc;

/// What a text that resembles the sample takes: this part of itself, or so many bytes where it is short.
const WELL_PACKED: usize = 6;
const WELL_PACKED_SHORT: usize = 160;

/// After so many texts that did not resemble it, another sample is taken: as many, at least, share each. Whoever makes odd objects
/// so changes the sample for others, and others change it back.
const SAMPLE_TRIED: usize = 16;

/// Deflate looks no further back.
const LONGEST_SAMPLE: usize = 32 * 1024;

/// What others are packed against; all that were packed against it hold it.
type Sample = Arc<[u8]>;

/// A packed text; cheap to clone.
#[derive(Clone)]
pub struct Packed {
    bytes: Arc<[u8]>,
    /// Without one it is the text itself.
    sample: Option<Sample>,
}

#[derive(Default)]
pub struct Packer {
    classes: [Class; CLASSES],
    /// What packs: a quarter of a megabyte, and to take and give that back for each of thousands of texts would take longer than to
    /// pack them.
    compress: Option<Compress>,
    is_rush: bool,
}

/// Lengths between two powers of two, from below a kibibyte to [`LONGEST_SAMPLE`] and beyond.
const CLASSES: usize = 6;
const SHORTEST: u32 = 10;

/// Texts of about one length.
#[derive(Default)]
struct Class {
    sample: Sample,
    /// Texts so far that did not resemble the sample.
    unlike: usize,
}

impl Packer {
    /// Packs a text. Should the library report an error (none is known), the text stays as it is.
    pub fn pack(&mut self, text: &[u8]) -> Packed {
        let plain = |_| Packed {
            bytes: text.into(),
            sample: None,
        };
        self.try_pack(text).unwrap_or_else(plain)
    }

    fn try_pack(&mut self, text: &[u8]) -> Result<Packed, Error> {
        let former = self.compress.take();
        let mut compress = former.unwrap_or_else(|| Compress::new(Compression::default(), false));
        compress.reset();
        let class = self.class(text.len());
        if !class.sample.is_empty() {
            compress.set_dictionary(&class.sample)?;
        }
        // What cannot be packed at all takes some bytes more.
        let mut bytes = Vec::with_capacity(text.len() + text.len() / 128 + 64);
        let status = compress.compress_vec(text, &mut bytes, FlushCompress::Finish)?;
        if status != Status::StreamEnd {
            return Err(Error::other("a text was not packed to its end"));
        }
        let packed = Packed {
            bytes: bytes.into(),
            sample: Some(class.sample.clone()),
        };
        class.try_sample(text, packed.bytes.len());
        self.compress = self.is_rush.then_some(compress);
        Ok(packed)
    }

    /// Whether many texts are about to come, one after another.
    pub fn rush(&mut self, is_rush: bool) {
        self.is_rush = is_rush;
        self.compress.take_if(|_| !is_rush);
    }

    /// Whether a text of this length, packed so already, is to be left as it is: well packed, or against the sample of now.
    pub fn would_keep(&mut self, packed: &Packed, length: usize) -> bool {
        is_well(packed.bytes.len(), length)
            || (packed.sample.as_ref())
                .is_some_and(|sample| Arc::ptr_eq(sample, &self.class(length).sample))
    }

    fn class(&mut self, length: usize) -> &mut Class {
        let power = length.checked_ilog2().unwrap_or_default();
        let number = power.saturating_sub(SHORTEST - 1) as usize;
        &mut self.classes[number.min(CLASSES - 1)]
    }
}

impl Class {
    fn try_sample(&mut self, text: &[u8], packed: usize) {
        if is_well(packed, text.len()) || text.len() > LONGEST_SAMPLE {
            return;
        }
        self.unlike += 1;
        if self.sample.is_empty() || self.unlike == SAMPLE_TRIED {
            self.sample = text.into();
            self.unlike = 0;
        }
    }
}

/// Whether this is little for a text of that length.
fn is_well(packed: usize, length: usize) -> bool {
    packed <= WELL_PACKED_SHORT.max(length / WELL_PACKED)
}

impl Packed {
    /// The text.
    ///
    /// # Errors
    /// The library reports one; none is known.
    pub fn unpack(&self) -> Result<Vec<u8>, Error> {
        let Some(sample) = &self.sample else {
            return Ok(self.bytes.to_vec());
        };
        let mut decompress = Decompress::new(false);
        if !sample.is_empty() {
            decompress.set_dictionary(sample)?;
        }
        let mut text = Vec::new();
        ZlibDecoder::new_with_decompress(&*self.bytes, decompress).read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
impl Packed {
    /// Whether both are the same bytes in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }
}

/// Says how long it is: its sample may be an object of somebody else.
impl Debug for Packed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of so many bytes in which nothing repeats, always the same for the same seed.
    fn noise(length: u32, seed: u32) -> Vec<u8> {
        let bytes = (0..length).map(|n| {
            (n ^ (seed << 20))
                .wrapping_mul(0x9E37_79B9)
                .rotate_left(seed)
        });
        bytes
            .map(|word| (word ^ (word >> 15)).to_le_bytes()[1])
            .collect()
    }

    /// Like each other but for a name.
    fn object(seed: u32, length: u32, name: usize) -> Vec<u8> {
        [noise(length, seed), format!("web-{name}").into_bytes()].concat()
    }

    fn sizes(packer: &mut Packer, texts: impl Iterator<Item = Vec<u8>>) -> Vec<usize> {
        let packed = texts.map(|text| {
            let packed = packer.pack(&text);
            assert_eq!(packed.unpack().unwrap(), text);
            packed.bytes.len()
        });
        packed.collect()
    }

    #[test]
    fn each_text_comes_back_and_what_resembles_another_takes_little() {
        let mut packer = Packer::default();
        let short = ["", "{}", "{\"a\": 1}"].map(|text| text.as_bytes().to_vec());
        sizes(&mut packer, short.into_iter());
        let alike = (0..10).map(|name| object(1, 4_000, name));
        let sizes = sizes(&mut packer, alike);
        assert!(sizes[0] > 2_000, "{sizes:?}");
        assert!(sizes[1..].iter().all(|size| *size < 200), "{sizes:?}");
    }

    #[test]
    fn objects_that_grow_or_change_their_kind_soon_have_a_sample_that_resembles_them() {
        let mut packer = Packer::default();
        for (seed, length) in [(1, 2_100), (1, 4_000), (2, 3_900), (3, 30_000), (4, 20_000)] {
            let alike = (0..100).map(|name| object(seed, length, name));
            let sizes = sizes(&mut packer, alike);
            let later = &sizes[SAMPLE_TRIED..];
            assert!(
                later.iter().all(|size| *size * 10 < length as usize),
                "{sizes:?}"
            );
        }
    }

    /// A fleet that is bought: each object is shown in several states, and those of all others come in between.
    #[test]
    fn objects_in_different_states_do_not_serve_as_samples_of_each_other() {
        let mut packer = Packer::default();
        let states =
            (0..400).map(|number| object(1 + number % 2, [900, 3_000][number as usize % 2], 7));
        let sizes = sizes(&mut packer, states);
        assert!(sizes[2..].iter().all(|size| *size < 200), "{sizes:?}");
    }

    #[test]
    fn odd_objects_among_others_cost_the_others_a_share_of_what_is_saved() {
        let mut packer = Packer::default();
        let mixed = (0..1_000).map(|name| match name % 10 {
            0 => noise(3_000, u32::try_from(name % 31).unwrap()),
            _ => object(1, 4_000, name),
        });
        let sizes = sizes(&mut packer, mixed);
        let others = sizes.iter().enumerate().filter(|(name, _)| name % 10 != 0);
        let well = others
            .filter(|(_, size)| **size < WELL_PACKED_SHORT)
            .count();
        assert!(well > 500, "{well} of 900");
    }

    #[test]
    fn in_a_rush_texts_are_packed_the_same_and_what_packs_is_given_back_after_it() {
        let (mut hurried, mut calm) = (Packer::default(), Packer::default());
        hurried.rush(true);
        for name in 0..50 {
            let text = object(name % 3, [0, 700, 4_000, 50_000][name as usize % 4], 1);
            let packed = hurried.pack(&text);
            assert_eq!(packed.bytes, calm.pack(&text).bytes);
            assert_eq!(packed.unpack().unwrap(), text);
        }
        assert!(hurried.compress.is_some() && calm.compress.is_none());
        hurried.rush(false);
        assert!(hurried.compress.is_none());
    }

    #[test]
    fn a_text_that_the_library_did_not_pack_stays_as_it_is() {
        let mut packer = Packer::default();
        let text = noise(1_000, 1);
        let plain = Packed {
            bytes: text.as_slice().into(),
            sample: None,
        };
        assert_eq!(plain.unpack().unwrap(), text);
        assert!(!packer.would_keep(&plain, text.len()), "tried again");
    }

    #[test]
    fn what_is_longer_than_the_library_looks_back_is_no_sample() {
        let mut packer = Packer::default();
        sizes(&mut packer, (0..40).map(|name| object(1, 40_000, name)));
        assert!(packer.classes.iter().all(|class| class.sample.is_empty()));
    }
}
