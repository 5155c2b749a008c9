//! Interns the texts of a column while a segment is written.

use std::collections::HashMap;
use std::sync::Arc;

use super::block::Chunk;
use super::summary::Mark;

/// Most texts of a shared dictionary, and their bytes. An open segment holds it in memory. A column
/// with more has a dictionary in each of its blocks.
pub(crate) const SHARED_TEXTS: usize = 8192;
pub(crate) const SHARED_BYTES: usize = 64 << 10;

/// The texts of a column, numbered in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    marks: Vec<Mark>,
    /// Rows that have the text.
    counts: Vec<u32>,
    bytes: usize,
}

impl Words {
    /// The number of a text.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        let held: Arc<str> = text.into();
        self.numbers.insert(held.clone(), number);
        self.texts.push(held);
        self.marks.push(Mark::of_text(text));
        self.counts.push(0);
        self.bytes += text.len();
        number
    }

    pub(crate) fn mark(&self, number: u32) -> Mark {
        self.marks[number as usize]
    }

    /// Counts a row that has the text.
    pub(crate) fn count(&mut self, number: u32) {
        self.counts[number as usize] += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a shared dictionary may hold these texts.
    pub(crate) fn is_small(&self) -> bool {
        self.texts.len() <= SHARED_TEXTS && self.bytes <= SHARED_BYTES
    }

    pub(crate) fn clear(&mut self) {
        *self = Words::default();
    }

    /// All texts, sorted, with the rows that have each.
    pub(crate) fn sorted(&self) -> Vec<(&str, u32)> {
        let counts = self.counts.iter().copied();
        let mut all: Vec<(&str, u32)> = self.texts.iter().map(|text| &**text).zip(counts).collect();
        all.sort_unstable();
        all
    }

    /// Number of each text among all texts, sorted.
    pub(crate) fn ranks(&self) -> Vec<u64> {
        self.ranks_among(&self.sorted().iter().map(|&(text, _)| text).collect::<Vec<_>>())
    }

    fn ranks_among(&self, sorted: &[&str]) -> Vec<u64> {
        let mut ranks = vec![0; self.texts.len()];
        for (text, rank) in sorted.iter().zip(0..) {
            ranks[self.numbers[*text] as usize] = rank;
        }
        ranks
    }

    /// The block of a chunk with a dictionary of its own.
    pub(crate) fn encode_local(&self, chunk: &Chunk, rows: usize) -> Vec<u8> {
        let mut used = chunk.values.clone();
        used.sort_unstable();
        used.dedup();
        let mut texts: Vec<&str> = used.iter().map(|&value| &*self.texts[value as usize]).collect();
        texts.sort_unstable();
        let ranks = self.ranks_among(&texts);
        chunk.encode(rows, Some(&texts), |value| ranks[value as usize])
    }
}
