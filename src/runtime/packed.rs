//! Texts that have much in common, packed against one of them.
//!
//! The JSON of two Instances differs in some names, identifiers and times: all else is found in the other one. So each text is
//! deflated with a text that was packed before as the dictionary, and takes a fifth of what it takes by itself.

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::{Compress, Compression, Decompress};
use std::io::{Error, Read, Write};
use std::sync::Arc;

/// Deflate looks no further back.
const LONGEST_SAMPLE: usize = 32 * 1024;

/// The text that others are packed against; all that were packed against it hold it.
type Sample = Arc<[u8]>;

/// A packed text; cheap to clone.
#[derive(Clone, Debug)]
pub struct Packed {
    bytes: Arc<[u8]>,
    sample: Sample,
}

/// Packs texts.
#[derive(Debug, Default)]
pub struct Packer {
    sample: Sample,
}

impl Packer {
    /// Packs a text.
    ///
    /// # Errors
    /// None that is known: the library gives a result.
    pub fn pack(&mut self, text: &[u8]) -> Result<Packed, Error> {
        let mut compress = Compress::new(Compression::default(), false);
        if !self.sample.is_empty() {
            compress.set_dictionary(&self.sample)?;
        }
        let mut encoder = ZlibEncoder::new_with_compress(Vec::new(), compress);
        encoder.write_all(text)?;
        let packed = Packed {
            bytes: encoder.finish()?.into(),
            sample: self.sample.clone(),
        };
        // Of an object that is whole more is in common than of one that began. Each sample is longer than the last by a fourth:
        // there will be few.
        let is_longer = text.len() > self.sample.len() + self.sample.len() / 4;
        if is_longer && text.len() <= LONGEST_SAMPLE {
            self.sample = text.into();
        }
        Ok(packed)
    }
}

impl Packed {
    /// The text.
    ///
    /// # Errors
    /// None that is known: the library gives a result.
    pub fn unpack(&self) -> Result<Vec<u8>, Error> {
        let mut decompress = Decompress::new(false);
        if !self.sample.is_empty() {
            decompress.set_dictionary(&self.sample)?;
        }
        let mut text = Vec::new();
        ZlibDecoder::new_with_decompress(&*self.bytes, decompress).read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: usize) -> String {
        let fields = (0..60).map(|n| format!("\"field number {n}\": \"value {}\"", n * n));
        let fields: Vec<_> = fields.collect();
        format!("{{{}, \"name\": \"web-{of}\"}}", fields.join(", "))
    }

    #[test]
    fn each_text_comes_back_and_what_resembles_another_takes_little() {
        let mut packer = Packer::default();
        let texts = ["", "{}", "{\"a\": 1}"].map(ToOwned::to_owned);
        let texts = texts.into_iter().chain((0..10).map(text));
        let packed: Vec<_> = texts
            .map(|text| (packer.pack(text.as_bytes()).unwrap(), text))
            .collect();
        for (packed, text) in &packed {
            assert_eq!(packed.unpack().unwrap(), text.as_bytes());
        }
        let sizes: Vec<_> = packed
            .iter()
            .map(|(packed, _)| packed.bytes.len())
            .collect();
        assert!(
            sizes[4..].iter().all(|size| size * 10 < sizes[3]),
            "{sizes:?}"
        );
    }

    #[test]
    fn texts_without_end_change_the_sample_a_few_times_and_long_ones_never() {
        let mut packer = Packer::default();
        let mut samples = 0;
        for length in (1..2_000_u32).step_by(9) {
            let before = packer.sample.clone();
            // Nothing in it repeats, in itself or from one to the next.
            let noise: Vec<u8> = (0..length * 40)
                .map(|n| (n ^ length).wrapping_mul(0x9E37_79B9).to_le_bytes()[3])
                .collect();
            let packed = packer.pack(&noise).unwrap();
            assert_eq!(packed.unpack().unwrap(), noise);
            samples += usize::from(!Arc::ptr_eq(&before, &packer.sample));
        }
        assert!((1..40).contains(&samples), "{samples}");
        assert!(packer.sample.len() <= LONGEST_SAMPLE);
    }
}
