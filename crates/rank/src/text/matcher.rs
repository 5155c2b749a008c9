//! Finds and counts the terms of a query in the text of a row, in one pass over its words.
//!
//! 1. Terms become patterns per attribute: whole words, sorted; beginnings; and for a phrase one bit
//!    per word. A *slot* counts one term in one attribute.
//! 2. A word whose first character begins no pattern is passed over. Other words are folded, without an
//!    allocation, and looked up.
//! 3. Bit i of the state of a phrase is set if its words 0 to i were the last words of the text.
//!    A word shifts the state and keeps the bits of the phrase's words that are equal to it
//!    (Shift-And; Baeza-Yates and Gonnet, 1992, over words).

use std::ops::Range;

use rust_stemmers::Stemmer;
use vstream_attribute::{Attributes, Schema, ValueRef};

use super::compile::compile;
use super::query::TextQuery;
use super::stemming::Language;
use super::tokens::{fold, folded_first, tokens};
use crate::error::QueryError;

/// A compiled text query. Shared by threads; each brings its own [`TermCounts`].
pub struct TextMatcher {
    /// By column, ascending.
    pub(super) texts: Vec<SearchedText>,
    pub(super) slots: Vec<Slot>,
    pub(super) tree: Node,
    pub(super) stemmer: Option<Stemmer>,
}

/// The count of one term in one attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Index into the searched texts.
    pub text: u16,
    /// False for terms below a `Not`.
    pub is_scored: bool,
}

/// The patterns of one attribute.
pub(super) struct SearchedText {
    pub column: u16,
    /// True for the first bytes of words that may match, if these are ASCII.
    first_bytes: [bool; 128],
    /// First characters of the patterns, for words that begin with another character.
    first_chars: Vec<char>,
    /// True if any word may match, because stemming may change its beginning.
    stems: bool,
    words: Vec<Pattern>,
    prefixes: Vec<Pattern>,
    pub phrases: Vec<Phrase>,
}

/// A word or a beginning, folded, and what to do when it is met.
struct Pattern {
    text: Box<str>,
    actions: Vec<Action>,
}

#[derive(Clone, Copy)]
pub(super) enum Action {
    Count { slot: u16 },
    Advance { phrase: u16, bit: u32 },
}

pub(super) struct Phrase {
    pub slot: u16,
    /// The bit of its last word.
    pub last: u32,
}

pub(super) enum Node {
    /// One of these slots has a count.
    Term(Range<u16>),
    And(Vec<Node>),
    Or(Vec<Node>),
    AtLeast(usize, Vec<Node>),
    Not(Box<Node>),
}

/// What was counted in one row. Reused from row to row.
#[derive(Clone, Debug, Default)]
pub struct TermCounts {
    /// By slot.
    pub(super) frequencies: Vec<u32>,
    /// Number of words, by searched text.
    pub(super) lengths: Vec<u32>,
    states: Vec<u32>,
    met: Vec<u32>,
    folded: String,
}

impl TermCounts {
    /// How often terms occur in the row, all terms and attributes together.
    pub fn occurrences(&self) -> u64 {
        self.frequencies.iter().map(|count| u64::from(*count)).sum()
    }

    /// Number of words of the row in the searched attributes.
    pub fn words(&self) -> u64 {
        self.lengths.iter().map(|count| u64::from(*count)).sum()
    }
}

impl TextMatcher {
    /// Compiles a query; words match whatever their case. See [`TextMatcher::with_stemming`].
    pub fn new(query: &TextQuery, schema: &Schema) -> Result<TextMatcher, QueryError> {
        TextMatcher::with_stemming(query, schema, None)
    }

    /// Compiles a query. With a language, words are equal if their stems are; prefixes are compared
    /// with words as they are.
    ///
    /// Errors: `NoWords` for a term without a word, or if there is no attribute of type text;
    /// `UnknownAttribute` and `WrongType` for columns; `TooLarge` above 64 terms, 1,024 terms times
    /// attributes, 32 words in a phrase,
    /// 32 levels or 1,024 nodes. Cost: some microseconds.
    pub fn with_stemming(
        query: &TextQuery,
        schema: &Schema,
        language: Option<Language>,
    ) -> Result<TextMatcher, QueryError> {
        compile(query, schema, language)
    }

    /// Counts the terms in the text of a row. True if the query holds for it. The counts are those
    /// of all terms in either case, because statistics need them.
    ///
    /// Cost: one pass over the words of the searched attributes; no allocation once `counts` has
    /// grown, but for words that stemming changes.
    pub fn count(&self, row: Attributes<'_>, counts: &mut TermCounts) -> bool {
        counts.frequencies.clear();
        counts.frequencies.resize(self.slots.len(), 0);
        counts.lengths.clear();
        counts.lengths.resize(self.texts.len(), 0);
        for (column, value) in row.iter() {
            let ValueRef::Text(text) = value else { continue };
            if let Ok(at) = self.texts.binary_search_by_key(&column, |text| text.column) {
                counts.lengths[at] = self.texts[at].count(text, self.stemmer.as_ref(), counts);
            }
        }
        self.tree.holds(&counts.frequencies)
    }

    /// The columns that are searched, ascending.
    pub fn columns(&self) -> impl Iterator<Item = u16> + '_ {
        self.texts.iter().map(|text| text.column)
    }
}

impl SearchedText {
    pub fn new(column: u16) -> SearchedText {
        SearchedText {
            column,
            first_bytes: [false; 128],
            first_chars: Vec::new(),
            stems: false,
            words: Vec::new(),
            prefixes: Vec::new(),
            phrases: Vec::new(),
        }
    }

    pub fn add(&mut self, is_prefix: bool, text: &str, action: Action) {
        let patterns = if is_prefix { &mut self.prefixes } else { &mut self.words };
        match patterns.iter_mut().find(|pattern| *pattern.text == *text) {
            Some(pattern) => pattern.actions.push(action),
            None => patterns.push(Pattern { text: text.into(), actions: vec![action] }),
        }
    }

    /// Sorts the words, and notes how they begin. A word whose first character is not ASCII may fold
    /// to one that is: the sign of kelvin becomes a `k`.
    pub fn close(&mut self, stems: bool) {
        self.stems = stems;
        self.words.sort_by(|a, b| a.text.cmp(&b.text));
        for pattern in self.words.iter().chain(&self.prefixes) {
            let Some(first) = pattern.text.chars().next() else { continue };
            if first.is_ascii() {
                for case in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
                    self.first_bytes[case as usize] = true;
                }
            }
            if !self.first_chars.contains(&first) {
                self.first_chars.push(first);
            }
        }
    }

    /// False for most words that match no pattern.
    #[inline]
    fn may_match(&self, word: &str) -> bool {
        let first = word.as_bytes()[0];
        if first.is_ascii() {
            return self.stems || self.first_bytes[usize::from(first)];
        }
        self.stems || folded_first(word).is_some_and(|first| self.first_chars.contains(&first))
    }

    /// Counts in one text; returns its number of words.
    fn count(&self, text: &str, stemmer: Option<&Stemmer>, counts: &mut TermCounts) -> u32 {
        let TermCounts { frequencies, states, met, folded, .. } = counts;
        states.clear();
        states.resize(self.phrases.len(), 0);
        met.clear();
        met.resize(self.phrases.len(), 0);
        let (mut length, mut may_go_on) = (0, false);
        for token in tokens(text) {
            length += 1;
            let mut is_met = false;
            if self.may_match(token.text) {
                let word = fold(token.text, folded);
                let mut act = |pattern: &Pattern| {
                    is_met = true;
                    for action in &pattern.actions {
                        match *action {
                            Action::Count { slot } => frequencies[usize::from(slot)] += 1,
                            Action::Advance { phrase, bit } => met[usize::from(phrase)] |= bit,
                        }
                    }
                };
                self.prefixes.iter().filter(|one| word.starts_with(&*one.text)).for_each(&mut act);
                let found = match stemmer {
                    Some(stemmer) => self.find(&stemmer.stem(word)),
                    None => self.find(word),
                };
                found.into_iter().for_each(act);
            }
            if is_met || may_go_on {
                may_go_on = false;
                for ((phrase, state), met) in self.phrases.iter().zip(&mut *states).zip(&mut *met) {
                    *state = ((*state << 1) | 1) & std::mem::take(met);
                    frequencies[usize::from(phrase.slot)] += u32::from(*state & phrase.last != 0);
                    may_go_on |= *state != 0;
                }
            }
        }
        length
    }

    fn find(&self, word: &str) -> Option<&Pattern> {
        let at = self.words.binary_search_by(|pattern| (*pattern.text).cmp(word)).ok()?;
        Some(&self.words[at])
    }
}

impl Node {
    fn holds(&self, frequencies: &[u32]) -> bool {
        match self {
            Node::Term(slots) => {
                let slots = usize::from(slots.start)..usize::from(slots.end);
                frequencies[slots].iter().any(|count| *count > 0)
            }
            Node::And(all) => all.iter().all(|one| one.holds(frequencies)),
            Node::Or(any) => any.iter().any(|one| one.holds(frequencies)),
            Node::AtLeast(least, of) => {
                of.iter().filter(|one| one.holds(frequencies)).count() >= *least
            }
            Node::Not(one) => !one.holds(frequencies),
        }
    }
}
