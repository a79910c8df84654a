//! Text kept compressed: a process holds one for each of ten thousand objects and reads few of them at a time.

use flate2::bufread::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress};
use std::fmt::{self, Debug, Formatter};
use std::io::{Read, Result};
use std::sync::{LazyLock, Mutex, PoisonError};

/// One compressor for all texts: its state takes a quarter of a megabyte, and to allocate that for each of thousands of texts would
/// take longer than to compress them.
static COMPRESSOR: LazyLock<Mutex<Compress>> =
    LazyLock::new(|| Mutex::new(Compress::new(Compression::default(), false)));

/// A text as raw deflate data.
#[derive(Clone)]
pub struct Compressed(Box<[u8]>);

impl Compressed {
    /// Compresses a text.
    pub fn of(text: &str) -> Self {
        let mut compressor = COMPRESSOR.lock().unwrap_or_else(PoisonError::into_inner);
        compressor.reset();
        // Data that does not shrink grows by a few bytes.
        let mut bytes = Vec::with_capacity(text.len() + text.len() / 128 + 64);
        // No cause of an error is known. If the data were incomplete, `text` would fail.
        let _ = compressor.compress_vec(text.as_bytes(), &mut bytes, FlushCompress::Finish);
        Self(bytes.into())
    }

    /// The text.
    ///
    /// # Errors
    /// The data is not that of a text.
    pub fn text(&self) -> Result<String> {
        let mut text = String::new();
        DeflateDecoder::new(&*self.0).read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Debug for Compressed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Compressed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_text_is_restored_and_is_smaller_if_it_repeats_itself() {
        let object = r#"{"name": "web-1", "labels": {"é": "\u{1F600}"}}"#;
        let mut word = 1_u32;
        let noise: String = (0..100_000)
            .map(|_| {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from_u32(word % 0xD800).unwrap()
            })
            .collect();
        for text in ["", "{}", object, &object.repeat(50), &noise] {
            let compressed = Compressed::of(text);
            assert_eq!(compressed.text().unwrap(), text);
        }
        assert!(Compressed::of(&object.repeat(50)).0.len() < object.len() * 3);
    }

    #[test]
    fn data_that_ends_too_early_is_an_error() {
        let Compressed(bytes) = Compressed::of("a text");
        assert!(Compressed(bytes[..bytes.len() - 1].into()).text().is_err());
    }
}
