//! The rows that may be in an answer by text or rank: one pass over all visible rows of a group.

use std::ops::Range;

use vstream_attribute::{Attributes, FieldsBuffer, Filter, ValueRef};
use vstream_rank::{Bm25Collector, TermCounts, TextMatcher};

use super::group::{GroupView, Hidden, Place};
use crate::error::Error;
use crate::run::Part;

/// Leaves whose attributes are read together.
const LEAVES_TOGETHER: usize = 16;

/// A row that passes filter and text.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) version: u64,
    pub(super) place: Place,
    /// Its number in the scores of the text.
    pub(super) bm25: usize,
    /// Where its attributes are in [`Gathered::attributes`].
    attributes: Range<usize>,
}

/// What the pass found.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) candidates: Vec<Candidate>,
    /// Attributes of the candidates one after another, without the letters of texts.
    attributes: Vec<u8>,
    /// Visible and hidden rows.
    pub(super) rows: u64,
}

impl Gathered {
    /// The attributes of a candidate, if they were kept; texts are empty.
    pub(super) fn attributes(&self, candidate: &Candidate) -> Attributes<'_> {
        let bytes = &self.attributes[candidate.attributes.clone()];
        Attributes::decode(bytes).expect("attributes that were written here")
    }
}

/// What the pass looks for.
pub(super) struct Gatherer<'a> {
    filter: Option<&'a Filter>,
    /// The words, and whether rows must match them.
    text: Option<(&'a TextMatcher, bool)>,
    /// True if attributes of candidates are wanted.
    keeps: bool,
    counts: TermCounts,
    pub(super) bm25: Option<Bm25Collector<'a>>,
    buffer: FieldsBuffer,
    found: Gathered,
}

impl<'a> Gatherer<'a> {
    pub(super) fn new(
        filter: Option<&'a Filter>,
        text: Option<(&'a TextMatcher, bool)>,
        keeps: bool,
    ) -> Gatherer<'a> {
        Gatherer {
            filter,
            text,
            keeps,
            counts: TermCounts::default(),
            bm25: text.map(|(matcher, _)| Bm25Collector::new(matcher)),
            buffer: FieldsBuffer::default(),
            found: Gathered::default(),
        }
    }

    /// Visits all rows that newer versions do not hide. Statistics of words count them all.
    pub(super) fn run(
        mut self,
        group: &GroupView,
        hidden: &Hidden,
    ) -> Result<(Gathered, Option<Bm25Collector<'a>>), Error> {
        for (at, entry) in group.memory.iter().enumerate() {
            let Some(content) = &entry.content else { continue };
            self.found.rows += 1;
            if !hidden.in_memory(at) {
                let attributes = content.content().fields.attributes;
                self.visit((entry.id, entry.version), Place::memory(at), attributes);
            }
        }
        for (run, parts) in group.runs.iter().enumerate() {
            for (at, part) in parts.iter().enumerate() {
                self.found.rows += u64::from(part.rows());
                let place = Place { run: run as u32, part: at as u32, row: 0 };
                self.visit_part(part, place, &|row| hidden.in_part(run, at, row))?;
            }
        }
        Ok((self.found, self.bm25))
    }

    fn reads_attributes(&self) -> bool {
        self.keeps || self.text.is_some() || self.filter.is_some_and(|filter| !is_of_ids(filter))
    }

    fn visit_part(
        &mut self,
        part: &Part,
        place: Place,
        is_hidden: &dyn Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let keys = keys_by_row(part)?;
        if !self.reads_attributes() {
            for (row, key) in (0u32..).zip(&keys) {
                if !is_hidden(row) {
                    self.visit(*key, Place { row, ..place }, Attributes::NONE);
                }
            }
            return Ok(());
        }
        let leaves: Vec<usize> = (0..part.leaves().len()).collect();
        for leaves in leaves.chunks(LEAVES_TOGETHER) {
            for (attributes, &leaf) in part.attributes(leaves)?.iter().zip(leaves) {
                let first = part.first_row(leaf);
                for within in 0..part.leaves()[leaf].rows {
                    let row = first + within;
                    if is_hidden(row) {
                        continue;
                    }
                    let found = attributes.get(within as usize);
                    let found = found.map_err(|what| part.bad_attributes(leaf, what))?;
                    self.visit(keys[row as usize], Place { row, ..place }, found);
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, (id, version): (u64, u64), place: Place, attributes: Attributes<'_>) {
        let passes = self.filter.is_none_or(|filter| filter.holds(id, attributes));
        let mut number = 0;
        if let (Some((matcher, must_match)), Some(bm25)) = (self.text, &mut self.bm25) {
            let matches = matcher.count(attributes, &mut self.counts);
            if !passes || (must_match && !matches) {
                bm25.add(&self.counts);
                return;
            }
            number = bm25.keep(&self.counts);
        } else if !passes {
            return;
        }
        let from = self.found.attributes.len();
        if self.keeps {
            self.buffer.clear();
            for (column, value) in attributes.iter() {
                // A rank expression may ask whether there is a text, and for nothing else of it.
                let value = match value {
                    ValueRef::Text(_) => ValueRef::Text(""),
                    other => other,
                };
                self.buffer.push(column, &value);
            }
            let kept = self.buffer.fields().attributes.bytes();
            self.found.attributes.extend_from_slice(kept);
        }
        let attributes = from..self.found.attributes.len();
        self.found.candidates.push(Candidate { id, version, place, bm25: number, attributes });
    }
}

/// True if a filter asks for nothing but ids.
fn is_of_ids(filter: &Filter) -> bool {
    match filter {
        Filter::And(all) | Filter::Or(all) | Filter::AtLeast(_, all) => all.iter().all(is_of_ids),
        Filter::Not(one) => is_of_ids(one),
        Filter::Attribute(..) => false,
        Filter::Ids(_) => true,
    }
}

/// Id and version of each row of a part. Cost: all its id blocks.
fn keys_by_row(part: &Part) -> Result<Vec<(u64, u64)>, Error> {
    let mut keys = vec![(0, 0); part.rows() as usize];
    for entry in part.ids()? {
        if let Some(row) = entry.row {
            keys[row as usize] = (entry.id, entry.version);
        }
    }
    Ok(keys)
}
