//! Text kept compressed: a process holds one for each of ten thousand objects and reads few of them at a time.

use flate2::Compression;
use flate2::bufread::{DeflateDecoder, DeflateEncoder};
use std::fmt::{self, Debug, Formatter};
use std::io::{Read, Result};

/// A text as raw deflate data.
#[derive(Clone)]
pub struct Compressed(Box<[u8]>);

impl Compressed {
    /// Compresses a text.
    pub fn of(text: &str) -> Self {
        let mut bytes = Vec::new();
        // Reading from a slice cannot fail. Data that ends too early would be an error of `text`.
        let _ = DeflateEncoder::new(text.as_bytes(), Compression::default()).read_to_end(&mut bytes);
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
    fn a_text_comes_back_and_takes_less_room_where_it_repeats_itself() {
        let object = r#"{"name": "web-1", "labels": {"é": "\u{1F600}"}}"#;
        for text in ["", "{}", object, &object.repeat(50)] {
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
