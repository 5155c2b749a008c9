//! WordPiece behind BERT's normalisation (Wu et al., 2016; Devlin et al., 2019).
//!
//! 1. Control characters go, every kind of space becomes one, ideographs stand alone.
//! 2. Without case: decomposed, marks left out, lower case.
//! 3. Words end at spaces; each punctuation mark is a word.
//! 4. A word becomes the longest tokens of the vocabulary, from its beginning.

use std::collections::HashMap;
use std::path::Path;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::props::GeneralCategory;
use icu_properties::CodePointMapData;
use serde_json::Value;

use super::{number, unsupported};
use crate::error::EmbedError;

pub(super) struct WordPiece {
    tokens: HashMap<String, u32>,
    prefix: String,
    unknown: u32,
    word_chars_max: usize,
    clean: bool,
    ideographs: bool,
    accents: bool,
    lower: bool,
}

impl WordPiece {
    pub(super) fn read(path: &Path, file: &Value) -> Result<WordPiece, EmbedError> {
        let (model, normal) = (&file["model"], &file["normalizer"]);
        if normal["type"] != "BertNormalizer" || file["pre_tokenizer"]["type"] != "BertPreTokenizer"
        {
            return Err(unsupported(path, "WordPiece without BERT's normalisation"));
        }
        let vocabulary = model["vocab"]
            .as_object()
            .ok_or_else(|| EmbedError::corrupt(path, "it has no vocabulary"))?;
        let mut tokens = HashMap::with_capacity(vocabulary.len());
        for (token, value) in vocabulary {
            tokens.insert(token.clone(), number(path, token, value)?);
        }
        let unknown = model["unk_token"].as_str().and_then(|name| tokens.get(name)).copied();
        let lower = normal["lowercase"].as_bool().unwrap_or(true);
        Ok(WordPiece {
            unknown: unknown
                .ok_or_else(|| EmbedError::corrupt(path, "it has no token for unknown words"))?,
            prefix: model["continuing_subword_prefix"].as_str().unwrap_or("##").to_owned(),
            word_chars_max: model["max_input_chars_per_word"].as_u64().unwrap_or(100) as usize,
            clean: normal["clean_text"].as_bool().unwrap_or(true),
            ideographs: normal["handle_chinese_chars"].as_bool().unwrap_or(true),
            accents: normal["strip_accents"].as_bool().unwrap_or(lower),
            lower,
            tokens,
        })
    }

    pub(super) fn last_token(&self) -> u32 {
        self.tokens.values().copied().max().unwrap_or(0)
    }

    pub(super) fn tokens(&self, text: &str, out: &mut Vec<u32>) {
        let text = self.normalised(text);
        let mut piece = String::new();
        for word in text.split_whitespace() {
            let mut start = 0;
            for (at, c) in word.char_indices().filter(|(_, c)| is_punctuation(*c)) {
                self.word(&word[start..at], &mut piece, out);
                start = at + c.len_utf8();
                self.word(&word[at..start], &mut piece, out);
            }
            self.word(&word[start..], &mut piece, out);
        }
    }

    fn normalised(&self, text: &str) -> String {
        let mut cleaned = String::with_capacity(text.len());
        for c in text.chars() {
            if self.clean && is_dropped(c) {
                continue;
            }
            let c = if self.clean && c.is_whitespace() { ' ' } else { c };
            if self.ideographs && is_ideograph(c) {
                cleaned.extend([' ', c, ' ']);
            } else {
                cleaned.push(c);
            }
        }
        if self.accents && !cleaned.is_ascii() {
            let parts = DecomposingNormalizerBorrowed::new_nfd().normalize(&cleaned).into_owned();
            cleaned = parts.chars().filter(|c| !is_mark(*c)).collect();
        }
        if self.lower {
            // Each character by itself: the small final sigma of a word stays a usual one.
            cleaned = cleaned.chars().flat_map(char::to_lowercase).collect();
        }
        cleaned
    }

    /// Appends the tokens of one word; `piece` is scratch space.
    fn word(&self, word: &str, piece: &mut String, out: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        if word.chars().count() > self.word_chars_max {
            out.push(self.unknown);
            return;
        }
        let (first, mut start) = (out.len(), 0);
        while start < word.len() {
            match self.longest(&word[start..], start > 0, piece) {
                Some((token, length)) => {
                    out.push(token);
                    start += length;
                }
                None => {
                    out.truncate(first);
                    out.push(self.unknown);
                    return;
                }
            }
        }
    }

    /// The longest token with which `rest` begins, and its bytes.
    fn longest(&self, rest: &str, continues: bool, piece: &mut String) -> Option<(u32, usize)> {
        piece.clear();
        let prefix = if continues { self.prefix.as_str() } else { "" };
        piece.push_str(prefix);
        piece.push_str(rest);
        while piece.len() > prefix.len() {
            if let Some(token) = self.tokens.get(piece.as_str()) {
                return Some((*token, piece.len() - prefix.len()));
            }
            piece.pop();
        }
        None
    }
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

fn is_dropped(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        _ if c.is_ascii() => c.is_ascii_control(),
        _ => matches!(
            category(c),
            GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
        ),
    }
}

fn is_mark(c: char) -> bool {
    !c.is_ascii() && category(c) == GeneralCategory::NonspacingMark
}

/// Of ASCII also what Unicode calls symbols, such as `$` and `+`.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    matches!(
        category(c),
        GeneralCategory::ConnectorPunctuation
            | GeneralCategory::DashPunctuation
            | GeneralCategory::OpenPunctuation
            | GeneralCategory::ClosePunctuation
            | GeneralCategory::InitialPunctuation
            | GeneralCategory::FinalPunctuation
            | GeneralCategory::OtherPunctuation
    )
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
