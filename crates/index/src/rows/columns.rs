//! What rows carry beside key and vector.
//!
//! 1. Values that filters test lie in *columns*, a [`Sheet`] of them for the chunks of a run. A keyword is a code
//!    of the dictionary, a number or timestamp 8 bytes in an order that comparisons of whole numbers
//!    follow, a truth value a bit, a list of keywords a slice of codes. A bit per lane says whether
//!    there is a value.
//! 2. String id, texts and payload are *cold*: one byte string per row, which is shared and not
//!    copied when the row moves.
//!
//! Chunks of one run share what they carry ([`Carried`]), so that a scan finds the columns of a leaf in
//! one place. They get a sheet for the columns of the first row that has any, and one more for a later
//! row with other columns. So a column may be added at any time, and columns that few rows have cost
//! nothing elsewhere. The one writer fills a lane before it publishes it; readers take no lock.

mod column;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use vstream_attribute::{AttributeKind, Fields, FieldsBuffer, ValueRef};

use vstream_vector::kernels;

pub(crate) use self::column::Column;
use super::cold;
use super::dictionary::{Dictionary, Texts};
use super::values::Values;
use crate::append::{Pen, Table};

/// Lanes of a mask.
pub(crate) const WORD: usize = 32;

/// Steps of [`Carried::prefetch_row`].
pub(crate) const CARRIED_STEPS: usize = 3;
/// Bytes of cold fields that are prefetched.
const COLD_PREFETCHED: usize = 256;

/// Sets of columns that the writer remembers, so that chunks share their layouts.
const LAYOUTS_MAX: usize = 64;

/// A value as a sheet holds it.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Code(u32),
    Codes(Arc<[u32]>),
    /// See [`ordered`] for numbers that are not whole.
    Number(AttributeKind, i64),
    Truth(bool),
    /// There is a text; it lies with the cold fields.
    Text,
}

impl Stored {
    /// The kind of column that holds such values.
    pub(crate) fn kind(&self) -> AttributeKind {
        match self {
            Stored::Code(_) => AttributeKind::Keyword,
            Stored::Codes(_) => AttributeKind::Keywords,
            Stored::Number(kind, _) => *kind,
            Stored::Truth(_) => AttributeKind::Bool,
            Stored::Text => AttributeKind::Text,
        }
    }

    /// The codes of a value.
    pub(crate) fn codes(&self) -> &[u32] {
        match self {
            Stored::Code(code) => std::slice::from_ref(code),
            Stored::Codes(codes) => codes,
            _ => &[],
        }
    }
}

/// A float as a whole number in the same order; its own inverse on the bits. Zero of either sign keeps
/// its sign, and the two are neighbours.
pub(crate) fn ordered(number: f64) -> i64 {
    flip(number.to_bits() as i64)
}

/// The float of an [`ordered`] number.
fn unordered(number: i64) -> f64 {
    f64::from_bits(flip(number) as u64)
}

fn flip(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The columns of a sheet.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    /// Ascending by column and kind.
    columns: Vec<Place>,
    /// Words of a lane.
    words: usize,
    lists: usize,
}

/// Where a column lies in a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    column: u16,
    kind: AttributeKind,
    /// Words of a lane before it, or its number among the lists.
    start: usize,
}

impl Layout {
    /// * `columns`: ascending.
    fn new(columns: &[(u16, AttributeKind)]) -> Layout {
        use AttributeKind::{Bool, Keyword, Keywords, Text, Timestamp, F64, I64};
        let wide = columns.iter().filter(|(_, kind)| matches!(kind, I64 | F64 | Timestamp)).count();
        // Columns of two words come first, so that they are aligned whatever the number of lanes.
        let (mut next_wide, mut next_narrow, mut lists) = (0, 2 * wide, 0);
        let take = |next: &mut usize, words| {
            *next += words;
            *next - words
        };
        let place = |&(column, kind): &(u16, AttributeKind)| {
            let start = match kind {
                I64 | F64 | Timestamp => take(&mut next_wide, 2),
                Keyword => take(&mut next_narrow, 1),
                Keywords => take(&mut lists, 1),
                Bool | Text => 0,
            };
            Place { column, kind, start }
        };
        let columns = columns.iter().map(place).collect();
        Layout { columns, words: next_narrow, lists }
    }
}

impl Place {
    fn key(&self) -> (u16, u8) {
        (self.column, self.kind.tag())
    }
}

/// What the writer of an index needs to write fields: the dictionary, and buffers.
pub(crate) struct Carrier {
    pub(crate) dictionary: Arc<Dictionary>,
    layouts: Vec<Arc<Layout>>,
    values: Values,
}

impl Carrier {
    pub(crate) fn new(dictionary: Arc<Dictionary>) -> Carrier {
        Carrier { dictionary, layouts: Vec::new(), values: Values::default() }
    }

    fn layout(&mut self, columns: &[(u16, AttributeKind)]) -> Arc<Layout> {
        let is_same = |layout: &&Arc<Layout>| {
            let places = layout.columns.iter().map(|place| (place.column, place.kind));
            places.eq(columns.iter().copied())
        };
        if let Some(known) = self.layouts.iter().find(is_same) {
            return known.clone();
        }
        if self.layouts.len() == LAYOUTS_MAX {
            self.layouts.clear();
        }
        self.layouts.push(Arc::new(Layout::new(columns)));
        self.layouts[self.layouts.len() - 1].clone()
    }

    /// A buffer for the values of a row. Give it back, so that the next row finds it.
    pub(crate) fn take_values(&mut self) -> Values {
        std::mem::take(&mut self.values)
    }

    pub(crate) fn give_back(&mut self, values: Values) {
        self.values = values;
    }
}

/// What the rows of some chunks carry. Made with the first row that carries anything. Its lanes are
/// those of the chunks, one after the other.
#[derive(Default)]
pub(crate) struct Carried {
    /// In place, so that a scan follows one pointer less.
    sheet: OnceLock<Sheet>,
    /// By lane.
    cold: OnceLock<ColdRows>,
}

/// The cold fields of each lane, as `cold.rs` encodes them.
type ColdRows = Box<[OnceLock<Arc<[u8]>>]>;

/// Some columns, and the next sheet.
pub(crate) struct Sheet {
    layout: Arc<Layout>,
    /// Its flags say which lanes have a value, a word per 32 lanes, column by column; then which have a
    /// true one, likewise, if there is a column of truth values.
    table: Table,
    /// Lists of codes, `lists × lanes`.
    lists: Box<[OnceLock<Arc<[u32]>>]>,
    dictionary: Arc<Dictionary>,
    next: OnceLock<Box<Sheet>>,
}

/// The pens of the sheets of one [`Carried`].
#[derive(Default)]
pub(crate) struct Pens(Vec<Pen>);

/// The writing end of what the rows of some chunks carry; handed from chunk to chunk.
#[derive(Default)]
pub(crate) struct Load {
    carried: Option<Arc<Carried>>,
    pens: Pens,
    /// Lanes of the chunks before this one.
    first: usize,
    /// Lanes of all chunks.
    lanes: usize,
}

impl Load {
    /// For the first of some chunks with so many lanes together.
    pub(crate) fn new(lanes: usize) -> Load {
        Load { lanes, ..Load::default() }
    }

    /// For the chunk after one of `lanes` lanes.
    pub(crate) fn after(self, lanes: usize) -> Load {
        Load { first: self.first + lanes, ..self }
    }

    /// What the rows so far carry, if any does.
    pub(crate) fn carried(&self) -> Option<&Arc<Carried>> {
        self.carried.as_ref()
    }

    /// Lanes of the chunks before this one.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Writes what a new row carries, before the lane is published.
    pub(crate) fn write(&mut self, carrier: &mut Carrier, lane: usize, fields: Fields<'_>) {
        let mut values = carrier.take_values();
        values.intern(&carrier.dictionary, fields);
        self.put(carrier, lane, &mut values);
        carrier.give_back(values);
    }

    /// Writes the values of a row, before the lane is published.
    pub(crate) fn put(&mut self, carrier: &mut Carrier, lane: usize, values: &mut Values) {
        let carried = self.carried.get_or_insert_default();
        let lane = (self.first + lane, self.lanes);
        carried.write_row(carrier, &mut self.pens, lane, &mut values.row);
        if let Some(bytes) = values.cold.take() {
            carried.write_cold(lane, bytes);
        }
    }
}

impl Sheet {
    fn new(layout: Arc<Layout>, dictionary: Arc<Dictionary>, lanes: usize) -> (Pen, Sheet) {
        let has_truths = layout.columns.iter().any(|place| place.kind == AttributeKind::Bool);
        let flags = layout.columns.len() * lanes.div_ceil(WORD);
        let (pen, table) = Table::new(lanes, layout.words, flags * (1 + usize::from(has_truths)));
        let sheet = Sheet {
            table,
            lists: (0..layout.lists * lanes).map(|_| OnceLock::new()).collect(),
            dictionary,
            next: OnceLock::new(),
            layout,
        };
        (pen, sheet)
    }

    /// Writes a value; the caller publishes the lane.
    fn write(&self, pen: &mut Pen, at: usize, lane: usize, stored: Stored) {
        let lanes = self.table.lanes();
        let Place { start, .. } = self.layout.columns[at];
        let word = at * lanes.div_ceil(WORD) + lane / WORD;
        let bit = 1 << (lane % WORD);
        match stored {
            Stored::Code(code) => self.table.set_narrow(pen, start * lanes, lane, code),
            Stored::Number(_, number) => {
                self.table.set_wide(pen, start * lanes, lane, number as u64);
            }
            Stored::Codes(codes) => {
                let is_first = self.lists[start * lanes + lane].set(codes).is_ok();
                assert!(is_first, "a lane is written once");
            }
            Stored::Truth(is_true) => {
                self.truths()[word].fetch_or(if is_true { bit } else { 0 }, Ordering::Relaxed);
            }
            Stored::Text => {}
        }
        // The chunk publishes the lane later, but whoever sees the bit already finds the value.
        self.present()[word].fetch_or(bit, Ordering::Release);
    }

    /// Lanes with a value, a word per 32 lanes, column by column.
    #[inline]
    fn present(&self) -> &[AtomicU32] {
        &self.table.flags()[..self.layout.columns.len() * self.table.lanes().div_ceil(WORD)]
    }

    /// Lanes with a true value, likewise; empty without a column of truth values.
    #[inline]
    fn truths(&self) -> &[AtomicU32] {
        &self.table.flags()[self.layout.columns.len() * self.table.lanes().div_ceil(WORD)..]
    }

    fn column(&self, at: usize) -> Column<'_> {
        Column { sheet: self, at }
    }

    fn memory_bytes(&self) -> usize {
        let lists: usize =
            self.lists.iter().filter_map(OnceLock::get).map(|list| 16 + size_of_val(&**list)).sum();
        let slots = self.lists.len() * size_of::<OnceLock<Arc<[u32]>>>();
        size_of::<Sheet>() + self.table.bytes() + slots + lists
    }
}

impl Drop for Sheet {
    /// Lowers the counts of the codes: no reader can reach the chunk any more.
    fn drop(&mut self) {
        for at in 0..self.layout.columns.len() {
            let column = self.column(at);
            if matches!(column.kind(), AttributeKind::Keyword | AttributeKind::Keywords) {
                for lane in (0..self.table.lanes()).filter(|&lane| column.has(lane)) {
                    column.stored(lane).codes().iter().for_each(|&code| {
                        self.dictionary.release(code);
                    });
                }
            }
        }
    }
}

impl Carried {
    /// Writes values, ascending by column, to the sheets that have the columns, or to a new one.
    fn write_row(
        &self,
        carrier: &mut Carrier,
        pens: &mut Pens,
        (lane, lanes): (usize, usize),
        row: &mut Vec<(u16, Stored)>,
    ) {
        let mut last: Option<&Sheet> = None;
        for number in 0.. {
            if row.is_empty() {
                return;
            }
            let mut make = || {
                let columns: Vec<_> =
                    row.iter().map(|(column, stored)| (*column, stored.kind())).collect();
                let layout = carrier.layout(&columns);
                let (pen, sheet) = Sheet::new(layout, carrier.dictionary.clone(), lanes);
                pens.0.push(pen);
                sheet
            };
            let sheet: &Sheet = match last {
                None => self.sheet.get_or_init(make),
                Some(last) => last.next.get_or_init(|| Box::new(make())),
            };
            let pen = &mut pens.0[number];
            let before = row.len();
            // Both are ascending.
            let (places, mut at) = (&sheet.layout.columns, 0);
            row.retain_mut(|(column, stored)| {
                let key = (*column, stored.kind().tag());
                while places.get(at).is_some_and(|place| place.key() < key) {
                    at += 1;
                }
                let is_here = places.get(at).is_some_and(|place| place.key() == key);
                if is_here {
                    sheet.write(pen, at, lane, std::mem::replace(stored, Stored::Text));
                }
                !is_here
            });
            if row.len() < before {
                sheet.table.publish(pen, lane + 1);
            }
            last = Some(sheet);
        }
    }

    fn write_cold(&self, (lane, lanes): (usize, usize), bytes: Arc<[u8]>) {
        let cold = self.cold.get_or_init(|| (0..lanes).map(|_| OnceLock::new()).collect());
        let is_first = cold[lane].set(bytes).is_ok();
        assert!(is_first, "a lane is written once");
    }

    fn sheets(&self) -> impl Iterator<Item = &Sheet> {
        std::iter::successors(self.sheet.get(), |sheet| sheet.next.get().map(|next| &**next))
    }

    /// Calls `visit` with the columns of a number, one for each kind of values that rows of the chunk
    /// have.
    #[inline]
    pub(crate) fn for_each_column(&self, column: u16, mut visit: impl FnMut(Column<'_>)) {
        for sheet in self.sheets() {
            let places = &sheet.layout.columns;
            // In most sheets every column stands at its own number.
            let own = usize::from(column);
            let is_own = places.get(own).is_some_and(|place| place.column == column)
                && (own == 0 || places[own - 1].column < column);
            let mut at =
                if is_own { own } else { places.partition_point(|place| place.column < column) };
            while places.get(at).is_some_and(|place| place.column == column) {
                visit(sheet.column(at));
                at += 1;
            }
        }
    }

    /// The kinds of the columns, those of all sheets.
    pub(super) fn kinds(&self) -> impl Iterator<Item = AttributeKind> + '_ {
        self.sheets().flat_map(|sheet| sheet.layout.columns.iter().map(|place| place.kind))
    }

    /// Calls `visit` with each value of a published row, sheet by sheet.
    pub(crate) fn for_each_stored(&self, lane: usize, mut visit: impl FnMut(u16, Stored)) {
        for sheet in self.sheets() {
            for (at, place) in sheet.layout.columns.iter().enumerate() {
                let column = sheet.column(at);
                if column.has(lane) {
                    visit(place.column, column.stored(lane));
                }
            }
        }
    }

    /// Prefetches the first sheet step by step: the sheet, and the values of some columns.
    ///
    /// * `word`: the 32 lanes that are wanted; `None` for all.
    #[inline]
    pub(crate) fn prefetch(&self, step: usize, columns: &[u16], word: Option<usize>) {
        let sheet = || self.sheet.get();
        match step {
            0 => kernels::prefetch(std::slice::from_ref(&self.sheet)),
            _ => sheet().into_iter().for_each(|sheet| {
                let own = |&column: &u16| {
                    let place = sheet.layout.columns.get(usize::from(column));
                    place.filter(|place| place.column == column).map(|_| usize::from(column))
                };
                columns.iter().filter_map(own).for_each(|at| sheet.column(at).prefetch(word));
            }),
        }
    }

    /// Does one of the [`CARRIED_STEPS`] steps that bring what a lane carries into cache. Each follows the
    /// pointers that the one before has prefetched.
    #[inline]
    pub(super) fn prefetch_row(&self, step: usize, lane: usize) {
        let cold = || self.cold.get().map(|cold| &cold[lane]);
        match step {
            0 => kernels::prefetch(std::slice::from_ref(self)),
            1 => {
                cold().into_iter().for_each(|slot| kernels::prefetch(std::slice::from_ref(slot)));
                if let Some(sheet) = self.sheet.get() {
                    kernels::prefetch(std::slice::from_ref(sheet));
                }
            }
            _ => {
                self.prefetch_lane(lane);
                if let Some(bytes) = cold().and_then(OnceLock::get) {
                    kernels::prefetch(&bytes[..bytes.len().min(COLD_PREFETCHED)]);
                }
            }
        }
    }

    /// Prefetches the values of a lane.
    #[inline]
    pub(super) fn prefetch_lane(&self, lane: usize) {
        for sheet in self.sheets() {
            (0..sheet.layout.columns.len()).for_each(|at| sheet.column(at).prefetch_lane(lane));
        }
    }

    /// Prefetches what a lane carries that no mask tests.
    #[inline]
    pub(super) fn prefetch_cold(&self, lane: usize) {
        if let Some(bytes) = self.cold(lane) {
            kernels::prefetch(&bytes[..bytes.len().min(COLD_PREFETCHED)]);
        }
    }

    pub(super) fn cold(&self, lane: usize) -> Option<&Arc<[u8]>> {
        self.cold.get()?[lane].get()
    }

    /// Copies what a published row carries.
    pub(crate) fn read(&self, lane: usize, out: &mut FieldsBuffer) {
        out.clear();
        let cold = self.cold(lane).map(|bytes| cold::decode(bytes)).unwrap_or_default();
        out.set_name(cold.name, cold.check);
        out.set_payload(cold.payload);
        let Some(sheet) = self.sheet.get() else { return };
        let texts: Texts<'_> = sheet.dictionary.texts();
        let mut long = cold.texts.iter();
        let mut push = |column, stored| {
            let value = match stored {
                Stored::Code(code) => ValueRef::Keyword(texts.text(code)),
                Stored::Codes(codes) => {
                    let texts = codes.iter().map(|&code| texts.text(code)).collect();
                    return out.push(column, &ValueRef::Keywords(texts));
                }
                Stored::Number(AttributeKind::F64, number) => ValueRef::F64(unordered(number)),
                Stored::Number(AttributeKind::Timestamp, at) => ValueRef::Timestamp(at),
                Stored::Number(_, number) => ValueRef::I64(number),
                Stored::Truth(is_true) => ValueRef::Bool(is_true),
                Stored::Text => match long.next() {
                    Some((_, text)) => text,
                    None => return,
                },
            };
            out.push(column, &value);
        };
        if sheet.next.get().is_none() {
            // One sheet has its columns in order.
            self.for_each_stored(lane, push);
            return;
        }
        let mut row: Vec<(u16, Stored)> = Vec::new();
        self.for_each_stored(lane, |column, stored| row.push((column, stored)));
        row.sort_unstable_by_key(|(column, stored)| (*column, stored.kind().tag()));
        row.into_iter().for_each(|(column, stored)| push(column, stored));
    }

    /// Bytes of columns and cold fields.
    pub(crate) fn memory_bytes(&self) -> usize {
        let cold = self.cold.get().map_or(0, |cold| {
            // A string that two chunks share while a row moves counts in both.
            let held = cold.iter().filter_map(OnceLock::get).map(|bytes| 16 + bytes.len());
            size_of_val(&**cold) + held.sum::<usize>()
        });
        size_of::<Carried>() - size_of::<Sheet>()
            + cold
            + self.sheets().map(Sheet::memory_bytes).sum::<usize>()
    }
}
