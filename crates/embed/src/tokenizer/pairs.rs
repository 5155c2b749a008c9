//! Byte pair encoding with a mark for each space (Sennrich et al., 2016; SentencePiece).
//!
//! 1. A mark stands before the text and in place of each space.
//! 2. Each character is a token; one that is not in the vocabulary becomes its bytes.
//! 3. The pair of neighbours that was learned first is joined, the leftmost of equals, until no pair
//!    is left that was learned.
//!
//! Where no token has a mark behind a letter, nothing joins over the beginning of a word, so words
//! are encoded by themselves and kept.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::{number, unsupported};
use crate::error::EmbedError;

const MARK: char = '\u{2581}';

/// Words that are kept, and the bytes of the longest one.
const WORDS_MAX: usize = 1 << 16;
const WORD_BYTES_MAX: usize = 64;

pub(super) struct BytePairs {
    tokens: HashMap<String, u32>,
    /// By the tokens of a pair: its rank, and the token that joins them.
    pairs: HashMap<(u32, u32), (u32, u32)>,
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    fuses_unknown: bool,
    by_word: bool,
    /// Tokens of words; whoever encodes has it meanwhile.
    known: Mutex<HashMap<String, Box<[u32]>>>,
}

impl BytePairs {
    pub(super) fn read(path: &Path, file: &Value) -> Result<BytePairs, EmbedError> {
        let model = &file["model"];
        let steps = &file["normalizer"]["normalizers"];
        let is_marked = steps[0]["prepend"] == MARK.to_string()
            && steps[1]["pattern"]["String"] == " "
            && steps[1]["content"] == MARK.to_string()
            && steps.as_array().is_some_and(|steps| steps.len() == 2);
        let is_plain = file["pre_tokenizer"].is_null()
            && ["continuing_subword_prefix", "end_of_word_suffix", "dropout"]
                .iter()
                .all(|key| model[key].is_null() || model[key] == "")
            && model["ignore_merges"] != true;
        if !is_marked || !is_plain {
            return Err(unsupported(path, "byte pairs of another kind"));
        }
        let vocabulary = model["vocab"]
            .as_object()
            .ok_or_else(|| EmbedError::corrupt(path, "it has no vocabulary"))?;
        let mut tokens = HashMap::with_capacity(vocabulary.len());
        for (token, value) in vocabulary {
            tokens.insert(token.clone(), number(path, token, value)?);
        }
        let pairs = pairs(path, model, &tokens)?;
        let byte = |byte: u8| tokens.get(&format!("<0x{byte:02X}>")).copied();
        let bytes = (model["byte_fallback"] == true)
            .then(|| (0..=u8::MAX).map(byte).collect::<Option<Vec<u32>>>())
            .flatten();
        Ok(BytePairs {
            by_word: !tokens.keys().any(|token| token.trim_start_matches(MARK).contains(MARK)),
            unknown: model["unk_token"].as_str().and_then(|name| tokens.get(name)).copied(),
            fuses_unknown: model["fuse_unk"] == true,
            known: Mutex::default(),
            tokens,
            pairs,
            bytes,
        })
    }

    pub(super) fn last_token(&self) -> u32 {
        self.tokens.values().copied().max().unwrap_or(0)
    }

    pub(super) fn tokens(&self, text: &str, out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut marked = String::with_capacity(text.len() + 3);
        marked.push(MARK);
        marked.extend(text.chars().map(|c| if c == ' ' { MARK } else { c }));
        if !self.by_word {
            self.encode(&marked, out);
            return;
        }
        // Two threads at once: the second one begins with none, and the later one's are kept.
        let mut known = std::mem::take(&mut *self.known());
        let mut start = 0;
        let mut inside = false;
        for (at, c) in marked.char_indices() {
            if c == MARK && inside {
                self.word(&marked[start..at], &mut known, out);
                start = at;
            }
            inside = c != MARK;
        }
        self.word(&marked[start..], &mut known, out);
        *self.known() = known;
    }

    // Nothing can panic while the lock is held.
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Box<[u32]>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(&self, word: &str, known: &mut HashMap<String, Box<[u32]>>, out: &mut Vec<u32>) {
        if let Some(tokens) = known.get(word) {
            out.extend_from_slice(tokens);
            return;
        }
        let first = out.len();
        self.encode(word, out);
        if word.len() <= WORD_BYTES_MAX {
            if known.len() == WORDS_MAX {
                known.clear();
            }
            known.insert(word.to_owned(), out[first..].into());
        }
    }

    /// Cost: O(n log n) for n characters.
    fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols = self.characters(text);
        // A token and its neighbours; NONE for one that was joined to the one before.
        const NONE: usize = usize::MAX;
        let mut next: Vec<usize> = (1..=symbols.len()).collect();
        let mut before: Vec<usize> = (0..symbols.len()).map(|at| at.wrapping_sub(1)).collect();
        let mut heap = BinaryHeap::new();
        let offer = |heap: &mut BinaryHeap<_>, symbols: &[u32], left: usize, right: usize| {
            if let Some((rank, joined)) = self.pairs.get(&(symbols[left], symbols[right])) {
                heap.push(Reverse((*rank, left, *joined, symbols[left], symbols[right])));
            }
        };
        for right in 1..symbols.len() {
            offer(&mut heap, &symbols, right - 1, right);
        }
        while let Some(Reverse((_, left, joined, was_left, was_right))) = heap.pop() {
            let right = next[left];
            // One of the two was joined to something else meanwhile.
            if right >= symbols.len() || before[right] != left {
                continue;
            }
            if symbols[left] != was_left || symbols[right] != was_right {
                continue;
            }
            symbols[left] = joined;
            next[left] = next[right];
            before[right] = NONE;
            next[right] = NONE;
            if next[left] < symbols.len() {
                before[next[left]] = left;
                offer(&mut heap, &symbols, left, next[left]);
            }
            if before[left] != NONE {
                offer(&mut heap, &symbols, before[left], left);
            }
        }
        let mut at = 0;
        while at < symbols.len() {
            out.push(symbols[at]);
            at = next[at];
        }
    }

    fn characters(&self, text: &str) -> Vec<u32> {
        let mut symbols = Vec::with_capacity(text.len());
        let mut was_unknown = false;
        let mut buffer = [0; 4];
        for c in text.chars() {
            let character = &*c.encode_utf8(&mut buffer);
            let mut is_unknown = false;
            if let Some(token) = self.tokens.get(character) {
                symbols.push(*token);
            } else if let Some(bytes) = &self.bytes {
                symbols.extend(character.bytes().map(|byte| bytes[usize::from(byte)]));
            } else if let Some(unknown) = self.unknown {
                is_unknown = true;
                if !(was_unknown && self.fuses_unknown) {
                    symbols.push(unknown);
                }
            }
            was_unknown = is_unknown;
        }
        symbols
    }
}

type Pairs = HashMap<(u32, u32), (u32, u32)>;

/// Reads the pairs, which stand as `"a b"` or as `["a", "b"]`.
fn pairs(path: &Path, model: &Value, tokens: &HashMap<String, u32>) -> Result<Pairs, EmbedError> {
    let merges =
        model["merges"].as_array().ok_or_else(|| EmbedError::corrupt(path, "it has no pairs"))?;
    let mut pairs = HashMap::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        let both = match merge {
            Value::String(text) => text.split_once(' '),
            both => both[0].as_str().zip(both[1].as_str()),
        };
        let number = |token: &str| tokens.get(token).copied();
        let found = both.and_then(|(left, right)| {
            Some(((number(left)?, number(right)?), number(&format!("{left}{right}"))?))
        });
        let (pair, joined) = found.ok_or_else(|| {
            EmbedError::corrupt(path, format!("the pair {merge} is not of the vocabulary"))
        })?;
        pairs.entry(pair).or_insert((rank as u32, joined));
    }
    Ok(pairs)
}
