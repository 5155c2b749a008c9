//! Gathers the fields of the rows of a new segment, and hands out their blocks.
//!
//! 1. Rows come leaf by leaf. Names, payloads and texts fill blocks, and a full block is ready to be
//!    written at once.
//! 2. Attributes fill chunks of up to 4,096 rows, which are the same for all columns. When a chunk
//!    ends, each column with a value in it has a block. A leaf lies in one chunk if it fits.
//! 3. Columns of keywords begin with a shared dictionary. Their blocks wait, because their codes
//!    follow the order of all texts. A column with too many texts gets a dictionary per block
//!    instead; then its blocks are ready at once too.
//! 4. Every leaf gets a summary of each column.
//!
//! Memory: one chunk; 10 bytes per keyword that waits; 56 bytes per leaf and column.

use vstream_attribute::{AttributeKind, Fields, ValueRef, ATTRIBUTES_MAX};

use super::block::{ordered_f64, ordered_i64, Chunk, Form, Shape, CHUNK_ROWS, LIST_VALUES};
use super::directory::{ColumnEntry, Dictionary, Directory};
use super::packed;
use super::place::{number, Area, Extent, RowSpan};
use super::summary::{Mark, Summary};
use super::texts;
use super::wide::{NamesWriter, Span, WideWriter};
use super::words::{Words, SHARED_BYTES};

/// A block to be written.
pub(crate) struct Ready {
    /// Number of the block.
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
    place: Place,
}

impl Ready {
    /// The area of the block.
    pub(crate) fn area(&self) -> Area {
        match self.place {
            Place::Names { .. } => Area::Names,
            Place::Wide { .. } => Area::Wide,
            Place::Column { .. } => Area::Column,
            Place::Dictionary { .. } => Area::Dictionary,
        }
    }
}

/// Where the directory notes a block.
#[derive(Clone, Copy)]
enum Place {
    Names { first_row: u32, rows: u32 },
    Wide { first_row: u32, rows: u32 },
    Column { column: u16, chunk: usize },
    Dictionary { column: u16 },
}

/// Fields of the rows so far.
#[derive(Default)]
pub(crate) struct FieldsWriter {
    rows: u32,
    chunk_rows: usize,
    leaves: usize,
    directory: Directory,
    columns: Vec<ColumnWriter>,
    names: NamesWriter,
    wide: WideWriter,
    ready: Vec<Ready>,
}

impl FieldsWriter {
    /// Begins a leaf of so many rows.
    pub(crate) fn begin_leaf(&mut self, rows: usize) {
        if self.chunk_rows > 0 && self.chunk_rows + rows > CHUNK_ROWS {
            self.end_chunk();
        }
    }

    /// Adds a row. Errors: what its segment cannot hold.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<(), String> {
        if self.chunk_rows == 0 {
            self.directory.chunks.push(self.rows);
        }
        let row = self.chunk_rows as u16;
        for (column, value) in fields.attributes.iter() {
            self.column(column, value.kind())?.push(row, &value);
        }
        self.names.push(fields)?;
        self.wide.push(fields)?;
        self.rows += 1;
        self.chunk_rows += 1;
        for at in 0..self.columns.len() {
            if self.columns[at].outgrows() {
                self.localise(at);
            }
        }
        if self.chunk_rows == CHUNK_ROWS || self.columns.iter().any(ColumnWriter::is_full) {
            self.end_chunk();
        }
        if self.names.is_full() {
            self.end_names();
        }
        if self.wide.is_full() {
            self.end_wide();
        }
        Ok(())
    }

    /// The column of this number. Errors: one of another kind, or a number out of range.
    fn column(&mut self, column: u16, kind: AttributeKind) -> Result<&mut ColumnWriter, String> {
        let at = match self.columns.binary_search_by_key(&column, |held| held.column) {
            Ok(at) => at,
            Err(_) if usize::from(column) >= ATTRIBUTES_MAX => {
                return Err(format!(
                    "a row has column {column}: a schema has at most {ATTRIBUTES_MAX}"
                ));
            }
            Err(at) => {
                let leaves = self.leaves;
                self.columns.insert(at, ColumnWriter::new(column, kind, leaves));
                at
            }
        };
        let held = self.columns[at].shape.kind;
        if held != kind {
            let (held, kind) = (held.name(), kind.name());
            return Err(format!("column {column} is of type {held}, a row has one of type {kind}"));
        }
        Ok(&mut self.columns[at])
    }

    /// Ends the leaf.
    pub(crate) fn end_leaf(&mut self) {
        self.leaves += 1;
        self.columns.iter_mut().for_each(ColumnWriter::end_leaf);
    }

    fn end_chunk(&mut self) {
        let (chunk, rows) = (self.directory.chunks.len() - 1, self.chunk_rows);
        for column in &mut self.columns {
            if let Some(payload) = column.end_chunk(chunk, rows) {
                self.ready.push(Ready::column(column.column, chunk, payload));
            }
        }
        self.chunk_rows = 0;
    }

    /// Gives the blocks of a column dictionaries of their own.
    fn localise(&mut self, at: usize) {
        let column = &mut self.columns[at];
        column.shape.form = Form::Local;
        for waiting in std::mem::take(&mut column.waiting) {
            let payload = column.words.encode_local(&waiting.chunk, waiting.rows);
            self.ready.push(Ready::column(column.column, waiting.at, payload));
        }
    }

    fn end_names(&mut self) {
        if let Some(Span { first_row, rows, payload }) = self.names.take(self.rows) {
            let number = number(Area::Names, 0, first_row as usize);
            self.ready.push(Ready { number, payload, place: Place::Names { first_row, rows } });
        }
    }

    fn end_wide(&mut self) {
        if let Some(Span { first_row, rows, payload }) = self.wide.take(self.rows) {
            let number = number(Area::Wide, 0, first_row as usize);
            self.ready.push(Ready { number, payload, place: Place::Wide { first_row, rows } });
        }
    }

    /// Ends all blocks; only [`FieldsWriter::take_ready`] and [`FieldsWriter::directory`] follow.
    pub(crate) fn end(&mut self) {
        if self.chunk_rows > 0 {
            self.end_chunk();
        }
        self.end_names();
        self.end_wide();
        for column in &mut self.columns {
            if column.shape.form != Form::Shared {
                continue;
            }
            let ranks = column.words.ranks();
            for waiting in std::mem::take(&mut column.waiting) {
                let rank = |value: u64| ranks[value as usize];
                let payload = waiting.chunk.encode(waiting.rows, None, rank);
                self.ready.push(Ready::column(column.column, waiting.at, payload));
            }
            let sorted = column.words.sorted();
            let mut payload = Vec::new();
            packed::put(&mut payload, sorted.iter().map(|&(_, count)| u64::from(count)));
            texts::put(&mut payload, sorted.iter().map(|&(text, _)| text));
            let number = number(Area::Dictionary, column.column, 0);
            let place = Place::Dictionary { column: column.column };
            self.ready.push(Ready { number, payload, place });
        }
    }

    /// Takes the blocks that are complete.
    pub(crate) fn take_ready(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.ready)
    }

    /// Notes where a block was written.
    pub(crate) fn note(&mut self, ready: &Ready, extent: Extent) {
        match ready.place {
            Place::Names { first_row, rows } => {
                self.directory.names.push(RowSpan { first_row, rows, extent });
            }
            Place::Wide { first_row, rows } => {
                self.directory.wide.push(RowSpan { first_row, rows, extent });
            }
            Place::Column { column, chunk } => {
                let blocks = &mut self.written(column).blocks;
                blocks.resize(blocks.len().max(chunk + 1), Extent::default());
                blocks[chunk] = extent;
            }
            Place::Dictionary { column } => self.written(column).dictionary = extent,
        }
    }

    fn written(&mut self, column: u16) -> &mut ColumnWriter {
        let at = self.columns.binary_search_by_key(&column, |held| held.column);
        &mut self.columns[at.expect("a column that gave a block")]
    }

    /// The directory of all blocks, after they were written.
    pub(crate) fn directory(&mut self) -> Directory {
        let mut directory = std::mem::take(&mut self.directory);
        let chunks = directory.chunks.len();
        let entries = std::mem::take(&mut self.columns).into_iter().map(|mut column| {
            column.blocks.resize(chunks, Extent::default());
            ColumnEntry {
                column: column.column,
                shape: column.shape,
                present: column.leaves.iter().map(|leaf| leaf.present).sum(),
                special: column.special,
                dictionary: (column.shape.form == Form::Shared).then(|| Dictionary {
                    texts: column.words.len() as u32,
                    extent: column.dictionary,
                }),
                blocks: column.blocks,
                leaves: column.leaves,
            }
        });
        directory.columns = entries.collect();
        directory
    }
}

impl Ready {
    fn column(column: u16, chunk: usize, payload: Vec<u8>) -> Ready {
        let number = number(Area::Column, column, chunk);
        Ready { number, payload, place: Place::Column { column, chunk } }
    }
}

/// A chunk that waits for the dictionary.
struct Waiting {
    at: usize,
    rows: usize,
    chunk: Chunk,
}

struct ColumnWriter {
    column: u16,
    shape: Shape,
    chunk: Chunk,
    words: Words,
    waiting: Vec<Waiting>,
    blocks: Vec<Extent>,
    dictionary: Extent,
    /// Rows with `true`, or with an empty list.
    special: u32,
    leaf: Summary,
    leaves: Vec<Summary>,
    /// The texts of a list, each once.
    once: Vec<u32>,
}

impl ColumnWriter {
    /// * `leaves`: leaves before the first that has a value.
    fn new(column: u16, kind: AttributeKind, leaves: usize) -> ColumnWriter {
        let has_words = matches!(kind, AttributeKind::Keyword | AttributeKind::Keywords);
        let form = if has_words { Form::Shared } else { Form::Plain };
        ColumnWriter {
            column,
            shape: Shape { kind, form },
            chunk: Chunk::default(),
            words: Words::default(),
            waiting: Vec::new(),
            blocks: Vec::new(),
            dictionary: Extent::default(),
            special: 0,
            leaf: Summary::NONE,
            leaves: vec![Summary::NONE; leaves],
            once: Vec::new(),
        }
    }

    fn push(&mut self, row: u16, value: &ValueRef<'_>) {
        self.chunk.rows.push(row);
        self.leaf.present += 1;
        match value {
            ValueRef::Keyword(text) => {
                let number = self.words.intern(text);
                self.words.count(number);
                self.leaf.add(self.words.mark(number));
                self.chunk.values.push(u64::from(number));
            }
            ValueRef::Keywords(texts) => self.push_list(texts),
            ValueRef::I64(x) | ValueRef::Timestamp(x) => self.push_number(ordered_i64(*x)),
            ValueRef::F64(x) => self.push_number(ordered_f64(*x)),
            ValueRef::Bool(is_true) => {
                self.special += u32::from(*is_true);
                self.push_number(u64::from(*is_true));
            }
            ValueRef::Text(_) => {}
        }
    }

    fn push_number(&mut self, ordered: u64) {
        self.leaf.add(Mark::of_number(ordered));
        self.chunk.values.push(ordered);
    }

    fn push_list(&mut self, texts: &[&str]) {
        self.special += u32::from(texts.is_empty());
        self.once.clear();
        for text in texts {
            let number = self.words.intern(text);
            self.leaf.add(self.words.mark(number));
            self.chunk.values.push(u64::from(number));
            self.once.push(number);
        }
        self.once.sort_unstable();
        self.once.dedup();
        self.once.iter().for_each(|&number| self.words.count(number));
        self.chunk.ends.push(self.chunk.values.len() as u32);
    }

    /// True if the shared dictionary has too many texts.
    fn outgrows(&self) -> bool {
        self.shape.form == Form::Shared && !self.words.is_small()
    }

    /// True if the chunk must end because of this column.
    fn is_full(&self) -> bool {
        let is_long = self.shape.is_list() && self.chunk.values.len() >= LIST_VALUES;
        is_long || self.shape.form == Form::Local && self.words.bytes() >= SHARED_BYTES
    }

    fn end_leaf(&mut self) {
        self.leaves.push(std::mem::replace(&mut self.leaf, Summary::NONE));
    }

    /// Ends a chunk; returns its block if it need not wait.
    fn end_chunk(&mut self, at: usize, rows: usize) -> Option<Vec<u8>> {
        if self.chunk.rows.is_empty() {
            return None;
        }
        match self.shape.form {
            Form::Plain => {
                let payload = self.chunk.encode(rows, None, |value| value);
                self.chunk.clear();
                Some(payload)
            }
            Form::Shared => {
                let chunk = std::mem::take(&mut self.chunk);
                self.waiting.push(Waiting { at, rows, chunk });
                None
            }
            Form::Local => {
                let payload = self.words.encode_local(&self.chunk, rows);
                self.chunk.clear();
                self.words.clear();
                Some(payload)
            }
        }
    }
}
