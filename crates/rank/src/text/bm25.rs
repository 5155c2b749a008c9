//! BM25 over the rows of one group (Robertson and Zaragoza, 2009), as Lucene and Vespa compute it.
//!
//! ```text
//! score(row) = Σ over terms and attributes  idf · f · (k1 + 1) / (f + k1 · (1 − b + b · l / L))
//! idf        = ln(1 + (N − n + 0.5) / (n + 0.5))
//! ```
//!
//! f is how often the term occurs in the attribute of the row, l its number of words, and L the mean
//! of l over the N rows of the group whose attribute has words; n of them have the term. A prefix
//! and a phrase are terms like a word, with an f and an n of their own.
//!
//! 1. The collector sees all rows of the group. It adds up N, n and L, and keeps the counts of the
//!    rows that are to be scored.
//! 2. When all were seen, the counts become scores.

use std::collections::BTreeMap;

use super::matcher::{TermCounts, TextMatcher};
use crate::error::{QueryError, QueryErrorKind};

/// The constants of the formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25Constants {
    /// How slowly further occurrences of a term stop to count: 0 or more, finite; 1.2 by default.
    pub k1: f64,
    /// How much the length of a text counts: 0 to 1; 0.75 by default.
    pub b: f64,
}

impl Default for Bm25Constants {
    fn default() -> Bm25Constants {
        Bm25Constants { k1: 1.2, b: 0.75 }
    }
}

/// Constants per attribute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bm25Settings {
    of_columns: BTreeMap<u16, Bm25Constants>,
}

impl Bm25Settings {
    /// Sets the constants of a column; others have the default. Errors: `WrongType` out of range.
    pub fn set(&mut self, column: u16, constants: Bm25Constants) -> Result<(), QueryError> {
        let Bm25Constants { k1, b } = constants;
        if !(k1.is_finite() && k1 >= 0.0 && (0.0..=1.0).contains(&b)) {
            let what =
                format!("BM25 takes a k1 of 0 or more and a b from 0 to 1, not {k1} and {b}.");
            return Err(QueryError::new(QueryErrorKind::WrongType, 0, what));
        }
        self.of_columns.insert(column, constants);
        Ok(())
    }
}

/// Gathers the statistics of a group, and the counts of the rows to score.
///
/// Memory: 8 bytes per kept row, and 12 for each term that an attribute of it has; 16 in the scores.
pub struct Bm25Collector<'a> {
    matcher: &'a TextMatcher,
    /// By searched text: rows that have words in it.
    rows: Vec<u64>,
    /// By searched text: words of all rows.
    words: Vec<u64>,
    /// By slot: rows that have the term.
    rows_with_term: Vec<u64>,
    ends: Vec<usize>,
    kept: Vec<Kept>,
}

/// A term that occurs in an attribute of a kept row.
#[derive(Clone, Copy)]
struct Kept {
    slot: u16,
    frequency: u32,
    length: u32,
}

impl<'a> Bm25Collector<'a> {
    /// A collector for counts of this matcher.
    pub fn new(matcher: &'a TextMatcher) -> Bm25Collector<'a> {
        Bm25Collector {
            matcher,
            rows: vec![0; matcher.texts.len()],
            words: vec![0; matcher.texts.len()],
            rows_with_term: vec![0; matcher.slots.len()],
            ends: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Adds a row to the statistics: one that is in the group and is not to be scored. Panics if
    /// the counts are of another matcher.
    pub fn add(&mut self, counts: &TermCounts) {
        assert_eq!(counts.frequencies.len(), self.matcher.slots.len(), "counts of this matcher");
        assert_eq!(counts.lengths.len(), self.matcher.texts.len(), "counts of this matcher");
        for (text, length) in counts.lengths.iter().enumerate() {
            self.rows[text] += u64::from(*length > 0);
            self.words[text] += u64::from(*length);
        }
        for (rows, frequency) in self.rows_with_term.iter_mut().zip(&counts.frequencies) {
            *rows += u64::from(*frequency > 0);
        }
    }

    /// Adds a row that is to be scored. Returns its number, which counts up from 0. Panics as
    /// [`Bm25Collector::add`].
    pub fn keep(&mut self, counts: &TermCounts) -> usize {
        self.add(counts);
        for (at, slot) in self.matcher.slots.iter().enumerate() {
            let frequency = counts.frequencies[at];
            if frequency > 0 && slot.is_scored {
                let length = counts.lengths[usize::from(slot.text)];
                self.kept.push(Kept { slot: at as u16, frequency, length });
            }
        }
        self.ends.push(self.kept.len());
        self.ends.len() - 1
    }

    /// Scores the kept rows. Cost: one pass over their counts.
    pub fn finish(self, settings: &Bm25Settings) -> Bm25Scores {
        let texts = &self.matcher.texts;
        let constants: Vec<Bm25Constants> = texts
            .iter()
            .map(|text| settings.of_columns.get(&text.column).copied().unwrap_or_default())
            .collect();
        let mean_length = |text: usize| self.words[text] as f64 / (self.rows[text] as f64).max(1.0);
        let mean_lengths: Vec<f64> = (0..texts.len()).map(mean_length).collect();
        let slots = self.matcher.slots.iter().zip(&self.rows_with_term);
        let idf: Vec<f64> = slots
            .map(|(slot, with_term)| {
                let (rows, with_term) = (self.rows[usize::from(slot.text)], *with_term as f64);
                ((rows as f64 - with_term + 0.5) / (with_term + 0.5)).ln_1p()
            })
            .collect();
        let scores = self.kept.iter().map(|kept| {
            let text = usize::from(self.matcher.slots[usize::from(kept.slot)].text);
            let Bm25Constants { k1, b } = constants[text];
            let length = f64::from(kept.length) / mean_lengths[text];
            let frequency = f64::from(kept.frequency);
            let saturated = frequency * (k1 + 1.0) / (frequency + k1 * (1.0 - b + b * length));
            (texts[text].column, idf[usize::from(kept.slot)] * saturated)
        });
        Bm25Scores { ends: self.ends.clone(), scores: scores.collect() }
    }
}

/// The scores of kept rows.
#[derive(Clone, Debug, Default)]
pub struct Bm25Scores {
    /// By row, where its scores end.
    ends: Vec<usize>,
    /// Column and score of a term.
    scores: Vec<(u16, f64)>,
}

impl Bm25Scores {
    /// Number of kept rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// The score of a kept row over all attributes. Cost: its number of terms. Panics if there is
    /// no such row.
    pub fn score(&self, row: usize) -> f64 {
        self.of_row(row).iter().fold(0.0, |sum, (_, score)| sum + score)
    }

    /// The score of a kept row in one attribute; 0 if the attribute is not searched. Panics if
    /// there is no such row.
    pub fn score_of(&self, row: usize, column: u16) -> f64 {
        let of_column = self.of_row(row).iter().filter(|(at, _)| *at == column);
        of_column.fold(0.0, |sum, (_, score)| sum + score)
    }

    fn of_row(&self, row: usize) -> &[(u16, f64)] {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.scores[from..self.ends[row]]
    }
}
