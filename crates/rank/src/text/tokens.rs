//! Cuts a text into words.
//!
//! 1. Words are those of Unicode Standard Annex 29 that have a letter, a digit or an ideograph.
//!    Signs and spaces between words are no words and take no position.
//! 2. A word is *folded* before it is compared: each character is mapped to lower case by Unicode,
//!    and the final sigma to the other one. Accents stay, and texts are not normalised: an accent
//!    that is a character of its own differs from a letter with its accent.

use unicode_segmentation::{UnicodeSegmentation, UnicodeWordIndices};

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Number of words before it.
    pub position: u32,
    /// Where it begins, in bytes.
    pub from: usize,
    /// The word as it is written.
    pub text: &'a str,
}

/// The words of a text, in order. Cost: one pass, no allocation.
///
/// ```
/// let words: Vec<_> = vstream_rank::tokens("Don't panic: 3.14 is π!").map(|t| t.text).collect();
/// assert_eq!(words, ["Don't", "panic", "3.14", "is", "π"]);
/// ```
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let words: UnicodeWordIndices<'_> = text.unicode_word_indices();
    words.enumerate().map(|(position, (from, text))| Token {
        position: position as u32,
        from,
        text,
    })
}

/// The word in the form in which it is compared. `buffer` is used if that differs from the word;
/// it is cleared first. Cost: one pass over the word; no allocation once the buffer has grown.
pub fn fold<'a>(word: &'a str, buffer: &'a mut String) -> &'a str {
    let bytes = word.as_bytes();
    if bytes.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return word;
    }
    buffer.clear();
    if word.is_ascii() {
        buffer.push_str(word);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(word.chars().flat_map(fold_char));
    }
    buffer
}

/// The characters that a character becomes: one, but for a few such as `İ`.
fn fold_char(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

/// The first character of the folded word. Cheaper than folding all of it.
pub(super) fn folded_first(word: &str) -> Option<char> {
    word.chars().next().and_then(|first| fold_char(first).next())
}
