//! Texts in the form in which they cross the border, and what models and the chunker make of them.
//!
//! ```text
//! texts   repeated: u32 bytes | UTF-8
//! vectors repeated: dimension × f32
//! chunks  repeated: u32 first byte, u32 byte behind | u32 first character, u32 one behind | hash
//! ```
//!
//! All numbers are little-endian; the hash has 16 bytes.

use std::path::PathBuf;

use vstream_embed::{ChunkSettings, Chunker, EmbedError, EmbedErrorKind, Model, ModelSettings};

use crate::failure::{Failure, Kind, Poison};

/// A model that Java holds.
pub(crate) struct Embedder {
    poison: Poison,
    model: Model,
}

impl Embedder {
    /// Opens the model at `path`; a `runtime` without a character stands for none.
    pub(crate) fn open(
        path: &str,
        runtime: &str,
        tokens_max: i32,
        threads: i32,
    ) -> Result<Embedder, Failure> {
        let count = |name: &str, value: i32| {
            usize::try_from(value)
                .map_err(|_| Failure::invalid(format!("{name} is {value}; give 0 or more.")))
        };
        let settings = ModelSettings {
            runtime: (!runtime.is_empty()).then(|| PathBuf::from(runtime)),
            tokens_max: count("The largest number of tokens", tokens_max)?,
            threads: count("The number of threads", threads)?,
        };
        Ok(Embedder { poison: Poison::default(), model: Model::open(path.as_ref(), &settings)? })
    }

    /// Numbers per vector.
    pub(crate) fn dimension(&self) -> usize {
        self.model.dimension()
    }

    /// The vectors of some texts.
    pub(crate) fn embed(&self, texts: &[u8]) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            let mut vectors = Vec::new();
            self.model.embed(&read(texts)?, &mut vectors)?;
            Ok(vectors.iter().flat_map(|number| number.to_le_bytes()).collect())
        })
    }
}

/// The chunks of a text.
pub(crate) fn split(text: &[u8], size: i32, overlap: i32) -> Result<Vec<u8>, Failure> {
    let count = |value: i32| usize::try_from(value).unwrap_or(usize::MAX);
    let settings = ChunkSettings { size: count(size), overlap: count(overlap) };
    let chunks = Chunker::new(settings)?.chunks(utf8(text)?)?;
    let mut out = Vec::with_capacity(chunks.len() * 32);
    for chunk in chunks {
        let (bytes, chars) = (chunk.bytes, chunk.chars);
        for place in [bytes.start, bytes.end, chars.start, chars.end] {
            // A document is shorter than 2^32 bytes.
            out.extend_from_slice(&(place as u32).to_le_bytes());
        }
        out.extend_from_slice(&chunk.hash.0);
    }
    Ok(out)
}

fn read(mut texts: &[u8]) -> Result<Vec<&str>, Failure> {
    let mut read = Vec::new();
    while let Some((length, rest)) = texts.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let text = rest
            .get(..length)
            .ok_or_else(|| Failure::invalid("The texts end within one; write all of its bytes."))?;
        read.push(utf8(text)?);
        texts = &rest[length..];
    }
    if !texts.is_empty() {
        return Err(Failure::invalid("The texts end within a length; write four bytes."));
    }
    Ok(read)
}

fn utf8(text: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(text).map_err(|_| Failure::invalid("A text is no UTF-8."))
}

impl From<EmbedError> for Failure {
    fn from(error: EmbedError) -> Failure {
        let kind = match error.kind() {
            EmbedErrorKind::Invalid => Kind::Invalid,
            EmbedErrorKind::Unsupported => Kind::Unsupported,
            EmbedErrorKind::Corrupt => Kind::Corrupt,
            EmbedErrorKind::Io => Kind::Io,
            EmbedErrorKind::Internal => Kind::Internal,
        };
        Failure::new(kind, error.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_cut_are_refused() {
        let whole = [2, 0, 0, 0, b'a', b'b', 1, 0, 0, 0, b'c'];
        assert_eq!(read(&whole).unwrap(), ["ab", "c"]);
        for cut in [1, 4, 5, 8, 10] {
            assert_eq!(read(&whole[..cut]).unwrap_err().kind, Kind::Invalid, "{cut}");
        }
        assert_eq!(read(&[1, 0, 0, 0, 0xff]).unwrap_err().kind, Kind::Invalid);
    }

    #[test]
    fn chunks_have_places_in_bytes_and_characters() {
        let chunks = split("é. ab.".as_bytes(), 100, 0).unwrap();
        let place = |at: usize| u32::from_le_bytes(chunks[at * 4..][..4].try_into().unwrap());
        assert_eq!([place(0), place(1), place(2), place(3)], [0, 7, 0, 6]);
        assert_eq!(chunks.len(), 32);
        assert_eq!(split(b"a", -1, 0).unwrap_err().kind, Kind::Invalid);
    }
}
