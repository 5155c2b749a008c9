//! Cuts a document into chunks.
//!
//! 1. The text is cut into sentences (Unicode Standard Annex 29). A sentence that is longer than a
//!    chunk is cut between words, and a word that is longer between characters.
//! 2. Sentences fill a chunk up to its size. A chunk that is at least half full also ends with a
//!    paragraph, or behind a sentence whose hash says so (one in four): so the cuts behind a change
//!    of the document fall where they fell before, after a few chunks, and those keep their hashes.
//! 3. The next chunk begins with the last sentences of the one before, as far as the overlap allows.

use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};
use unicode_segmentation::UnicodeSegmentation;

use crate::error::EmbedError;

/// Most characters of a chunk.
pub const CHUNK_CHARS_MAX: usize = 8_000;

/// Longest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Bytes of the hash that are kept: chunks of one document do not meet by chance.
const HASH_BYTES: usize = 16;

/// How documents are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSettings {
    /// Most characters of a chunk, 16 to [`CHUNK_CHARS_MAX`].
    pub size: usize,
    /// Most characters that a chunk repeats of the one before it; at most half of the size.
    pub overlap: usize,
}

impl Default for ChunkSettings {
    fn default() -> ChunkSettings {
        ChunkSettings { size: 500, overlap: 100 }
    }
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Place in the document, in bytes.
    pub bytes: Range<usize>,
    /// Place in the document, in characters (Unicode scalar values).
    pub chars: Range<usize>,
    /// Hash of the text.
    pub hash: ChunkHash,
}

/// The first 128 bits of the SHA-256 of a chunk's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkHash(pub [u8; HASH_BYTES]);

impl ChunkHash {
    /// The hash of a text.
    pub fn new(text: &str) -> ChunkHash {
        let digest = Sha256::digest(text.as_bytes());
        ChunkHash(std::array::from_fn(|i| digest[i]))
    }
}

impl fmt::Display for ChunkHash {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The sentences of a text, by their places in characters; space at their ends belongs to none.
///
/// Cost: O(bytes).
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut chars = 0;
    for sentence in text.split_sentence_bounds() {
        let start = chars + sentence.chars().take_while(|c| c.is_whitespace()).count();
        let length = sentence.trim().chars().count();
        if length > 0 {
            sentences.push(start..start + length);
        }
        chars += sentence.chars().count();
    }
    sentences
}

/// Cuts documents into chunks.
#[derive(Clone, Debug)]
pub struct Chunker {
    settings: ChunkSettings,
}

/// A stretch of text that is never cut: a sentence, or a part of one that is too long.
#[derive(Clone, Copy)]
struct Piece {
    /// First byte.
    start: usize,
    /// Byte behind the last one.
    end: usize,
    /// Number of characters.
    chars: usize,
    /// Whether a chunk that is half full ends here.
    ends_chunk: bool,
}

impl Chunker {
    /// A chunker. Errors: `Invalid` if a setting is out of range.
    pub fn new(settings: ChunkSettings) -> Result<Chunker, EmbedError> {
        let ChunkSettings { size, overlap } = settings;
        if !(16..=CHUNK_CHARS_MAX).contains(&size) {
            return Err(EmbedError::invalid(format!(
                "A chunk has {size} characters; give it 16 to {CHUNK_CHARS_MAX}."
            )));
        }
        if overlap > size / 2 {
            return Err(EmbedError::invalid(format!(
                "Chunks of {size} characters overlap by {overlap}; give half of the size at most."
            )));
        }
        Ok(Chunker { settings })
    }

    /// Cuts a document. Chunks are in the order of the text and none is blank; space at their ends
    /// belongs to none of them.
    ///
    /// Cost: O(bytes). Errors: `Invalid` if the document is longer than [`DOCUMENT_BYTES_MAX`].
    pub fn chunks(&self, text: &str) -> Result<Vec<Chunk>, EmbedError> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(EmbedError::invalid(format!(
                "A document has {} bytes; cut it into parts of {DOCUMENT_BYTES_MAX} at most.",
                text.len()
            )));
        }
        let pieces = self.pieces(text);
        let mut chunks = Vec::new();
        // Characters before the byte at which the last chunk began.
        let (mut byte, mut chars) = (0, 0);
        let mut covered = 0;
        for range in self.pack(&pieces) {
            let whole = &text[pieces[range.start].start..pieces[range.end - 1].end];
            let trimmed = whole.trim();
            let skipped = whole.len() - whole.trim_start().len();
            let start = pieces[range.start].start + skipped;
            let end = start + trimmed.len();
            // What is new in it may be blank: then it only repeats the chunk before.
            if trimmed.is_empty() || end <= covered {
                continue;
            }
            covered = end;
            chars += text[byte..start].chars().count();
            byte = start;
            chunks.push(Chunk {
                bytes: start..end,
                chars: chars..chars + trimmed.chars().count(),
                hash: ChunkHash::new(trimmed),
            });
        }
        Ok(chunks)
    }

    /// Chooses the pieces of each chunk.
    fn pack(&self, pieces: &[Piece]) -> Vec<Range<usize>> {
        let mut packed: Vec<Range<usize>> = Vec::new();
        let (mut first, mut length, mut taken) = (0, 0, 0);
        for (at, piece) in pieces.iter().enumerate() {
            if length + piece.chars > self.settings.size && at > first {
                // Pieces that only repeat the chunk before are no chunk.
                if at > taken {
                    packed.push(first..at);
                    taken = at;
                }
                (first, length) = self.overlap(pieces, first, at, self.settings.size - piece.chars);
            }
            length += piece.chars;
            if piece.ends_chunk && length * 2 >= self.settings.size {
                packed.push(first..at + 1);
                taken = at + 1;
                (first, length) = self.overlap(pieces, first, at + 1, self.settings.size);
            }
        }
        if taken < pieces.len() {
            packed.push(first..pieces.len());
        }
        packed
    }

    /// Returns where the chunk behind `end` begins, and the characters that it repeats: at most
    /// `room` of them.
    fn overlap(&self, pieces: &[Piece], first: usize, end: usize, room: usize) -> (usize, usize) {
        let allowed = self.settings.overlap.min(room);
        let (mut begin, mut length) = (end, 0);
        while begin > first + 1 && length + pieces[begin - 1].chars <= allowed {
            begin -= 1;
            length += pieces[begin].chars;
        }
        (begin, length)
    }

    fn pieces(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (start, sentence) in text.split_sentence_bound_indices() {
            let end = start + sentence.len();
            let ends = ends_paragraph(sentence, &text[end..]) || says_end(sentence);
            self.cut(start, sentence, &mut pieces);
            if let Some(last) = pieces.last_mut() {
                last.ends_chunk = ends;
            }
        }
        pieces
    }

    /// Adds a sentence, cut where it is too long for a chunk.
    fn cut(&self, start: usize, sentence: &str, pieces: &mut Vec<Piece>) {
        let size = self.settings.size;
        let piece = |start, end, chars| Piece { start, end, chars, ends_chunk: false };
        let chars = sentence.chars().count();
        if chars <= size {
            pieces.push(piece(start, start + sentence.len(), chars));
            return;
        }
        // Of about one length, so that no word is left over as a chunk of its own.
        let usual = chars.div_ceil(chars.div_ceil(size));
        let (mut begin, mut length) = (start, 0);
        for (at, word) in sentence.split_word_bound_indices() {
            for (within, grapheme) in parts(word, size) {
                let (at, chars) = (start + at + within, grapheme.chars().count());
                if length >= usual || length + chars > size {
                    pieces.push(piece(begin, at, length));
                    (begin, length) = (at, 0);
                }
                length += chars;
            }
        }
        pieces.push(piece(begin, start + sentence.len(), length));
    }
}

/// The word itself, or its graphemes where it has more than `size` characters; a grapheme that is
/// longer still falls into its characters.
fn parts(word: &str, size: usize) -> Vec<(usize, &str)> {
    if word.chars().count() <= size {
        return vec![(0, word)];
    }
    let mut parts = Vec::new();
    for (at, grapheme) in word.grapheme_indices(true) {
        if grapheme.chars().count() <= size {
            parts.push((at, grapheme));
        } else {
            let one = |(within, c): (usize, char)| {
                (at + within, &grapheme[within..within + c.len_utf8()])
            };
            parts.extend(grapheme.char_indices().map(one));
        }
    }
    parts
}

/// True if a blank line, or nothing, follows the sentence.
fn ends_paragraph(sentence: &str, rest: &str) -> bool {
    let space = sentence.len() - sentence.trim_end().len();
    let behind = sentence[sentence.len() - space..].chars();
    let next = rest.chars().take_while(|c| c.is_whitespace());
    rest.is_empty() || behind.chain(next).filter(|c| *c == '\n').count() >= 2
}

/// True for one sentence in four, chosen by its text alone (FNV-1a).
fn says_end(sentence: &str) -> bool {
    let hash = sentence.trim().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) & 3 == 0
}
