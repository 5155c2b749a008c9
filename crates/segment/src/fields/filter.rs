//! A filter, compiled for one segment.
//!
//! Texts become codes where the dictionary is shared, numbers become ranges of ordered numbers, ids
//! become rows. What the segment cannot hold becomes a condition that never holds. Counts of the
//! directory and summaries of leaves bound how many rows match.

use std::ops::Bound;

use vstream_attribute::{AttributeKind, Filter, Range, Test};
use vstream_vector::cursor::ByteReader;

use super::block::{ordered_f64, ordered_i64, Form};
use super::directory::{ColumnEntry, Directory};
use super::packed::Packed;
use super::summary::{text_order, Mark, Summary};
use super::texts::Texts;
use crate::malformed::Malformed;

/// Values from `low` to `high`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// A shared dictionary in memory.
pub(crate) struct SharedTexts {
    texts: usize,
    bytes: Vec<u8>,
}

impl SharedTexts {
    /// Takes the payload of a dictionary's block and checks it against its column.
    pub(crate) fn new(bytes: Vec<u8>, column: &ColumnEntry) -> Result<SharedTexts, Malformed> {
        let texts = column.dictionary.map_or(0, |dictionary| dictionary.texts as usize);
        let shared = SharedTexts { texts, bytes };
        let (counts, sorted) = shared.parts()?;
        sorted.check()?;
        let counts = (0..texts).map(|at| counts.get(at));
        let is_list = column.shape.is_list();
        let least = u64::from(!is_list);
        let (mut sum, mut fits) = (0u64, true);
        for count in counts {
            fits &= (least..=u64::from(column.present)).contains(&count);
            sum = sum.saturating_add(count);
        }
        if !fits || !is_list && sum != u64::from(column.present) {
            return Err(Malformed("the counts of a dictionary are not those of its column"));
        }
        Ok(shared)
    }

    fn parts(&self) -> Result<(Packed<'_>, Texts<'_>), Malformed> {
        let mut input = ByteReader::new(&self.bytes);
        let counts = Packed::take(&mut input, self.texts)?;
        let texts = Texts::take_dictionary(&mut input, self.texts)?;
        if !input.is_empty() {
            return Err(Malformed("bytes are left over in a dictionary"));
        }
        Ok((counts, texts))
    }

    /// Rows that have each text, and the texts.
    pub(crate) fn view(&self) -> (Packed<'_>, Texts<'_>) {
        self.parts().expect("a dictionary that was checked")
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The shared dictionaries by slot.
pub(crate) type Dictionaries = [Option<SharedTexts>];

/// A text that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    mark: Mark,
}

/// A condition on keywords.
#[derive(Clone, Debug)]
pub(crate) enum WordTest {
    /// The keyword, or one of the list, is one of these.
    In(Vec<Word>),
    /// The keyword begins with this.
    Prefix(String),
    /// The list has all of these.
    All(Vec<Word>),
}

/// Rows that match, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// A condition without conditions in it.
#[derive(Clone, Debug)]
pub(crate) enum Atom {
    Exists {
        slot: usize,
    },
    IsEmpty {
        slot: usize,
    },
    /// The number is in one of these, ascending and apart.
    Numbers {
        slot: usize,
        spans: Vec<Span>,
    },
    /// * `codes`: of the shared dictionary, ascending and apart; for `All`, one span per word.
    /// * `bounds`: rows of the segment that match.
    Words {
        slot: usize,
        test: WordTest,
        codes: Option<Vec<Span>>,
        bounds: Bounds,
    },
    /// The row is one of these, ascending.
    Rows(Vec<u32>),
}

/// A tree of conditions.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    AtLeast(usize, Vec<Node>),
    Not(Box<Node>),
    Atom(Atom),
}

/// A filter for one segment.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) node: Node,
    /// Slots of the columns whose blocks it needs, ascending.
    pub(crate) slots: Vec<usize>,
}

/// Finds the rows of ids.
type RowsOf<'a, E> = dyn FnMut(&[u64]) -> Result<Vec<u32>, E> + 'a;

const NEVER: Node = Node::Or(Vec::new());

impl Compiled {
    /// Compiles a filter.
    ///
    /// * `directory`: `None` if no row of the segment has fields.
    /// * `rows_of`: the rows of ids, ascending.
    pub(crate) fn new<'a, E>(
        filter: &Filter,
        directory: Option<&'a Directory>,
        dictionaries: &'a Dictionaries,
        rows_of: &'a mut RowsOf<'a, E>,
    ) -> Result<Compiled, E> {
        let mut compiler = Compiler { directory, dictionaries, rows_of, slots: Vec::new() };
        let node = compiler.node(filter)?;
        let mut slots = compiler.slots;
        slots.sort_unstable();
        slots.dedup();
        Ok(Compiled { node, slots })
    }

    /// Bounds of the rows of the segment that match.
    pub(crate) fn bounds(&self, rows: u64, directory: Option<&Directory>) -> Bounds {
        bounds(&self.node, rows, &|atom| match atom {
            Atom::Rows(found) => exactly(found.len() as u64),
            Atom::Words { bounds, .. } => *bounds,
            Atom::Exists { slot } => exactly(column(directory, *slot).present.into()),
            Atom::IsEmpty { slot } => exactly(column(directory, *slot).special.into()),
            Atom::Numbers { slot, spans } => {
                let ColumnEntry { shape, present, special, .. } = column(directory, *slot);
                let (all, yes) = (u64::from(*present), u64::from(*special));
                if shape.kind != AttributeKind::Bool {
                    return Bounds { least: 0, most: all };
                }
                let has = |x| spans.iter().any(|span| (span.low..=span.high).contains(&x));
                exactly(if has(1) { yes } else { 0 } + if has(0) { all - yes } else { 0 })
            }
        })
    }

    /// Bounds of the rows of a leaf that match.
    pub(crate) fn leaf_bounds(
        &self,
        leaf: usize,
        (first_row, rows): (u32, u32),
        directory: Option<&Directory>,
    ) -> Bounds {
        let summary = |slot: usize| &column(directory, slot).leaves[leaf];
        bounds(&self.node, u64::from(rows), &|atom| match atom {
            Atom::Rows(found) => {
                let before = |row| found.partition_point(|&at| at < row);
                exactly((before(first_row + rows) - before(first_row)) as u64)
            }
            Atom::Exists { slot } => exactly(summary(*slot).present.into()),
            Atom::IsEmpty { slot } => at_most(summary(*slot).present),
            Atom::Numbers { slot, spans } => {
                let summary = summary(*slot);
                let may = |span: &Span| {
                    let is_one = span.low == span.high;
                    summary.may_reach(span.low, span.high)
                        && (!is_one || summary.may_have(Mark::of_number(span.low)))
                };
                let covers = |span: &Span| span.low <= summary.low && summary.high <= span.high;
                if spans.iter().any(covers) {
                    return exactly(summary.present.into());
                }
                at_most(if spans.iter().any(may) { summary.present } else { 0 })
            }
            Atom::Words { slot, test, .. } => {
                let summary = summary(*slot);
                at_most(if may_have(summary, test) { summary.present } else { 0 })
            }
        })
    }
}

fn column(directory: Option<&Directory>, slot: usize) -> &ColumnEntry {
    &directory.expect("a filter on columns of a segment with fields").columns[slot]
}

fn exactly(rows: u64) -> Bounds {
    Bounds { least: rows, most: rows }
}

fn at_most(rows: u32) -> Bounds {
    Bounds { least: 0, most: u64::from(rows) }
}

/// False only if no row of the leaf matches.
fn may_have(summary: &Summary, test: &WordTest) -> bool {
    summary.present > 0
        && match test {
            WordTest::In(words) => words.iter().any(|word| summary.may_have(word.mark)),
            WordTest::All(words) => words.iter().all(|word| summary.may_have(word.mark)),
            WordTest::Prefix(prefix) => {
                summary.may_reach(text_order(prefix, 0), text_order(prefix, u8::MAX))
            }
        }
}

/// Bounds of a node among `rows` rows, from those of its atoms.
fn bounds(node: &Node, rows: u64, atom: &dyn Fn(&Atom) -> Bounds) -> Bounds {
    let all = |nodes: &[Node]| -> Vec<Bounds> {
        nodes.iter().map(|node| bounds(node, rows, atom)).collect()
    };
    match node {
        Node::Atom(held) => atom(held),
        Node::Not(node) => {
            let Bounds { least, most } = bounds(node, rows, atom);
            Bounds { least: rows.saturating_sub(most), most: rows.saturating_sub(least) }
        }
        Node::And(nodes) => {
            let parts = all(nodes);
            let most = parts.iter().map(|part| part.most).min().unwrap_or(rows);
            let misses: u64 = parts.iter().map(|part| rows.saturating_sub(part.least)).sum();
            Bounds { least: rows.saturating_sub(misses), most }
        }
        Node::Or(nodes) => {
            let parts = all(nodes);
            let most = parts.iter().map(|part| part.most).sum::<u64>().min(rows);
            Bounds { least: parts.iter().map(|part| part.least).max().unwrap_or(0), most }
        }
        Node::AtLeast(0, _) => exactly(rows),
        Node::AtLeast(least, nodes) => {
            // Every row that matches is counted by as many parts.
            let sum: u64 = all(nodes).iter().map(|part| part.most).sum();
            Bounds { least: 0, most: (sum / *least as u64).min(rows) }
        }
    }
}

struct Compiler<'a, E> {
    directory: Option<&'a Directory>,
    dictionaries: &'a Dictionaries,
    rows_of: &'a mut RowsOf<'a, E>,
    slots: Vec<usize>,
}

impl<E> Compiler<'_, E> {
    fn node(&mut self, filter: &Filter) -> Result<Node, E> {
        Ok(match filter {
            Filter::And(all) => Node::And(self.nodes(all)?),
            Filter::Or(any) => Node::Or(self.nodes(any)?),
            Filter::AtLeast(least, of) => Node::AtLeast(*least, self.nodes(of)?),
            Filter::Not(one) => Node::Not(Box::new(self.node(one)?)),
            Filter::Ids(ids) => Node::Atom(Atom::Rows((self.rows_of)(ids)?)),
            Filter::Attribute(column, test) => {
                let slot = self.directory.and_then(|directory| directory.slot(*column));
                let atom = slot.and_then(|slot| self.atom(slot, test));
                atom.map_or(NEVER, Node::Atom)
            }
        })
    }

    fn nodes(&mut self, filters: &[Filter]) -> Result<Vec<Node>, E> {
        filters.iter().map(|filter| self.node(filter)).collect()
    }

    /// A condition on a column; `None` if it never holds.
    fn atom(&mut self, slot: usize, test: &Test) -> Option<Atom> {
        use AttributeKind::{Bool, Keyword, Keywords, Timestamp, F64, I64};
        let kind = self.directory?.columns[slot].shape.kind;
        let numbers = |spans: Vec<Span>| {
            let spans = joined(spans);
            (!spans.is_empty()).then_some(Atom::Numbers { slot, spans })
        };
        let words = |texts: &[String]| texts.iter().map(|text| word(text)).collect::<Vec<_>>();
        let atom = match (test, kind) {
            (Test::Exists, _) => Some(Atom::Exists { slot }),
            (Test::IsEmpty, Keywords) => Some(Atom::IsEmpty { slot }),
            (Test::KeywordIn(texts), Keyword) | (Test::AnyOf(texts), Keywords) => {
                self.words(slot, WordTest::In(words(texts)))
            }
            (Test::KeywordPrefix(prefix), Keyword) => {
                self.words(slot, WordTest::Prefix(prefix.clone()))
            }
            // The list has all of no texts.
            (Test::AllOf(texts), Keywords) if texts.is_empty() => Some(Atom::Exists { slot }),
            (Test::AllOf(texts), Keywords) => self.words(slot, WordTest::All(words(texts))),
            (Test::I64In(xs), I64 | Timestamp) => {
                numbers(xs.iter().map(|&x| point(ordered_i64(x))).collect())
            }
            (Test::I64Range(range), I64 | Timestamp) => numbers(i64_span(range)?.into()),
            (Test::F64In(xs), F64) => numbers(xs.iter().filter_map(|&x| f64_point(x)).collect()),
            (Test::F64Range(range), F64) => numbers(f64_span(range)?.into()),
            (Test::Bool(is_true), Bool) => numbers([point(u64::from(*is_true))].into()),
            _ => None,
        }?;
        self.slots.push(slot);
        Some(atom)
    }

    fn words(&self, slot: usize, mut test: WordTest) -> Option<Atom> {
        let entry = &self.directory?.columns[slot];
        let most = u64::from(entry.present);
        let Some(shared) = self.dictionaries.get(slot).and_then(Option::as_ref) else {
            debug_assert!(entry.shape.form == Form::Local);
            return Some(Atom::Words {
                slot,
                test,
                codes: None,
                bounds: Bounds { least: 0, most },
            });
        };
        let (counts, texts) = shared.view();
        let found = match &mut test {
            WordTest::Prefix(prefix) => {
                let (low, high) = texts.with_prefix(prefix)?;
                vec![Span { low, high }]
            }
            WordTest::In(words) => {
                words.retain(|word| texts.find(&word.text).is_some());
                words.iter().filter_map(|word| texts.find(&word.text)).map(point).collect()
            }
            WordTest::All(words) => words
                .iter()
                .map(|word| texts.find(&word.text).map(point))
                .collect::<Option<Vec<_>>>()?,
        };
        let codes = joined(found);
        if codes.is_empty() {
            return None;
        }
        let each = || codes.iter().flat_map(|span| span.low..=span.high);
        let rows = || each().map(|code| counts.get(code as usize));
        let bounds = match test {
            WordTest::All(_) => Bounds { least: 0, most: rows().min().unwrap_or(0) },
            _ if entry.shape.is_list() => {
                let sum: u64 = rows().sum();
                Bounds { least: rows().max().unwrap_or(0), most: sum.min(most) }
            }
            _ => exactly(rows().sum()),
        };
        // Each word that a list must have keeps a span of its own.
        let codes = match test {
            WordTest::All(_) => each().map(point).collect(),
            _ => codes,
        };
        Some(Atom::Words { slot, test, codes: Some(codes), bounds })
    }
}

fn word(text: &str) -> Word {
    Word { text: text.to_owned(), mark: Mark::of_text(text) }
}

pub(super) fn point(value: u64) -> Span {
    Span { low: value, high: value }
}

/// The spans in order, those that touch as one.
pub(super) fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.low <= last.high.saturating_add(1) => {
                last.high = last.high.max(span.high);
            }
            _ => out.push(span),
        }
    }
    out
}

/// The span of a range; `None` if no value is in it.
fn span_between(low: Option<u64>, high: Option<u64>) -> Option<Span> {
    let span = Span { low: low?, high: high? };
    (span.low <= span.high).then_some(span)
}

fn i64_span(range: &Range<i64>) -> Option<[Span; 1]> {
    let low = match range.from {
        Bound::Unbounded => Some(0),
        Bound::Included(x) => Some(ordered_i64(x)),
        Bound::Excluded(x) => ordered_i64(x).checked_add(1),
    };
    let high = match range.to {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(x) => Some(ordered_i64(x)),
        Bound::Excluded(x) => ordered_i64(x).checked_sub(1),
    };
    span_between(low, high).map(|span| [span])
}

/// The values that are equal to a number; 0 is equal to -0, and no value to what is no number.
fn f64_point(x: f64) -> Option<Span> {
    if x == 0.0 {
        return Some(Span { low: ordered_f64(-0.0), high: ordered_f64(0.0) });
    }
    (!x.is_nan()).then(|| point(ordered_f64(x)))
}

fn f64_span(range: &Range<f64>) -> Option<[Span; 1]> {
    let low = match range.from {
        Bound::Unbounded => Some(0),
        Bound::Included(x) => f64_point(x).map(|equal| equal.low),
        Bound::Excluded(x) => f64_point(x).and_then(|equal| equal.high.checked_add(1)),
    };
    let high = match range.to {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(x) => f64_point(x).map(|equal| equal.high),
        Bound::Excluded(x) => f64_point(x).and_then(|equal| equal.low.checked_sub(1)),
    };
    span_between(low, high).map(|span| [span])
}
