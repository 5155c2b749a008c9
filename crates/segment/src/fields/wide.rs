//! Blocks of names, and blocks of payloads and texts.
//!
//! ```text
//! names block   packed column of checks | texts, one per row
//! wide block    u8 0: as is, 1: zstd | u32 length of the content | content
//! content       packed column of the ends of the rows | the rows
//! row           nothing, or: u8 1 if it has a payload | u16 texts
//!               | per text: u16 column, u32 length, UTF-8 | the payload
//! ```

use vstream_attribute::{Fields, ValueRef, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX};
use vstream_vector::cursor::ByteReader;

use super::packed::{self, Packed};
use super::texts::{self, Texts};
use crate::defect::{self, Defect};
use crate::malformed::Malformed;

/// A names block ends when it has this many bytes of names.
const NAME_BYTES: usize = 16 << 10;
/// A wide block ends when it has this many bytes of rows.
const WIDE_BYTES: usize = 64 << 10;
/// Most bytes of the content of a wide block: the above, one more row, and the ends.
const CONTENT_BYTES_MAX: usize = WIDE_BYTES + PAYLOAD_BYTES_MAX + (256 << 10);
/// Most rows of a names block and of a wide block.
pub(crate) const SPAN_ROWS_MAX: u32 = 4096;
/// As in the codecs of vectors: compaction writes every payload again.
const LEVEL: i32 = 1;

/// Rows of a block that is being gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) payload: Vec<u8>,
}

/// Gathers names.
#[derive(Default)]
pub(crate) struct NamesWriter {
    checks: Vec<u64>,
    names: Vec<String>,
    bytes: usize,
    has_name: bool,
}

impl NamesWriter {
    /// Adds a row. Errors: a name that is too long.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<(), String> {
        if fields.name.len() > STRING_ID_BYTES_MAX {
            let bytes = fields.name.len();
            return Err(format!(
                "a string id has {bytes} bytes; the limit is {STRING_ID_BYTES_MAX}"
            ));
        }
        self.checks.push(fields.check);
        self.names.push(fields.name.to_owned());
        self.bytes += fields.name.len();
        self.has_name |= !fields.name.is_empty() || fields.check != 0;
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= NAME_BYTES || self.names.len() == SPAN_ROWS_MAX as usize
    }

    /// The block of the rows so far, of which `next_row` is the first after the last; `None` if no
    /// row has a name.
    pub(crate) fn take(&mut self, next_row: u32) -> Option<Span> {
        let NamesWriter { checks, names, has_name, .. } = std::mem::take(self);
        has_name.then(|| {
            let mut payload = Vec::new();
            packed::put(&mut payload, checks.iter().copied());
            texts::put(&mut payload, names.iter().map(String::as_str));
            let rows = names.len() as u32;
            Span { first_row: next_row - rows, rows, payload }
        })
    }
}

/// A names block, borrowed from its bytes.
#[derive(Clone, Copy)]
pub(crate) struct NamesBlock<'a> {
    checks: Packed<'a>,
    names: Texts<'a>,
}

impl<'a> NamesBlock<'a> {
    pub(crate) fn decode(bytes: &'a [u8], rows: u32) -> Result<NamesBlock<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let checks = Packed::take(&mut input, rows as usize)?;
        let names = Texts::take(&mut input, rows as usize)?;
        if !input.is_empty() {
            return Err(Malformed("bytes are left over in a names block"));
        }
        Ok(NamesBlock { checks, names })
    }

    /// Check and name of a row.
    pub(crate) fn get(&self, row: u32) -> Result<(u64, &'a str), Malformed> {
        let misplaced = u64::from(defect::active(Defect::NamesMisplaced));
        let name = self.names.get((u64::from(row) + misplaced).min(self.names.len() as u64 - 1))?;
        if name.len() > STRING_ID_BYTES_MAX {
            return Err(Malformed("a string id is too long"));
        }
        Ok((self.checks.get(row as usize), name))
    }
}

/// Gathers payloads and texts.
#[derive(Default)]
pub(crate) struct WideWriter {
    ends: Vec<u64>,
    rows: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl WideWriter {
    /// Adds a row. Errors: a payload that is too large.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<(), String> {
        if let Some(payload) = fields.payload.filter(|payload| payload.len() > PAYLOAD_BYTES_MAX) {
            let bytes = payload.len();
            return Err(format!("a payload has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}"));
        }
        let texts = || {
            fields.attributes.iter().filter_map(|(column, value)| match value {
                ValueRef::Text(text) => Some((column, text)),
                _ => None,
            })
        };
        let count = texts().count();
        if count > 0 || fields.payload.is_some() {
            self.rows.push(u8::from(fields.payload.is_some()));
            self.rows.extend_from_slice(&(count as u16).to_le_bytes());
            for (column, text) in texts() {
                self.rows.extend_from_slice(&column.to_le_bytes());
                self.rows.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.rows.extend_from_slice(text.as_bytes());
            }
            self.rows.extend_from_slice(fields.payload.unwrap_or(&[]));
        }
        self.ends.push(self.rows.len() as u64);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= WIDE_BYTES || self.ends.len() == SPAN_ROWS_MAX as usize
    }

    /// The block of the rows so far: see [`NamesWriter::take`].
    pub(crate) fn take(&mut self, next_row: u32) -> Option<Span> {
        let (ends, rows) = (std::mem::take(&mut self.ends), std::mem::take(&mut self.rows));
        if rows.is_empty() {
            return None;
        }
        let mut content = Vec::with_capacity(rows.len() + 8 * ends.len());
        packed::put(&mut content, ends.iter().copied());
        content.extend_from_slice(&rows);
        let compressor = self.compressor.get_or_insert_with(|| {
            zstd::bulk::Compressor::new(LEVEL).expect("a zstd context: out of memory")
        });
        let coded = compressor.compress(&content).ok().filter(|coded| coded.len() < content.len());
        let mut payload = vec![u8::from(coded.is_some())];
        payload.extend_from_slice(&(content.len() as u32).to_le_bytes());
        payload.extend_from_slice(coded.as_deref().unwrap_or(&content));
        let rows = ends.len() as u32;
        Some(Span { first_row: next_row - rows, rows, payload })
    }
}

/// The content of a wide block.
pub(crate) struct WideBlock {
    rows: usize,
    content: Vec<u8>,
}

/// Payload and texts of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WideRow<'a> {
    pub(crate) payload: Option<&'a [u8]>,
    /// Column and text, ascending.
    pub(crate) texts: Vec<(u16, &'a str)>,
}

impl WideBlock {
    pub(crate) fn decode(bytes: &[u8], rows: u32) -> Result<WideBlock, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (coder, length) = (input.u8()?, input.u32()? as usize);
        if length > CONTENT_BYTES_MAX {
            return Err(Malformed("a wide block is longer than its rows may be"));
        }
        let content = match coder {
            0 => input.rest().to_vec(),
            1 => zstd::bulk::decompress(input.rest(), length)
                .map_err(|_| Malformed("a wide block does not decompress to its length"))?,
            _ => return Err(Malformed("a wide block has an unknown coder")),
        };
        if content.len() != length {
            return Err(Malformed("a wide block does not have the length that it says"));
        }
        let block = WideBlock { rows: rows as usize, content };
        block.parts()?;
        Ok(block)
    }

    fn parts(&self) -> Result<(Packed<'_>, &[u8]), Malformed> {
        let mut input = ByteReader::new(&self.content);
        let ends = Packed::take(&mut input, self.rows)?;
        Ok((ends, input.rest()))
    }

    /// A row of the block.
    pub(crate) fn row(&self, row: u32) -> Result<WideRow<'_>, Malformed> {
        let (ends, rows) = self.parts()?;
        let misplaced = usize::from(defect::active(Defect::PayloadsMisplaced));
        let row = (row as usize + misplaced).min(self.rows - 1);
        let from = if row == 0 { 0 } else { ends.get(row - 1) };
        let bytes = rows.get(from as usize..ends.get(row) as usize);
        let bytes = bytes.ok_or(Malformed("a row of a wide block lies outside of it"))?;
        if bytes.is_empty() {
            return Ok(WideRow::default());
        }
        let mut input = ByteReader::new(bytes);
        let has_payload = input.u8()?;
        let count = usize::from(input.u16()?);
        input.require_items(count, 6)?;
        let mut texts: Vec<(u16, &str)> = Vec::with_capacity(count);
        for _ in 0..count {
            let (column, length) = (input.u16()?, input.u32()? as usize);
            let text = std::str::from_utf8(input.bytes(length)?)
                .map_err(|_| Malformed("a text is no UTF-8"))?;
            if texts.last().is_some_and(|&(last, _)| last >= column) {
                return Err(Malformed("the texts of a row are out of order"));
            }
            texts.push((column, text));
        }
        let payload = match has_payload {
            0 if input.is_empty() => None,
            1 if input.left() <= PAYLOAD_BYTES_MAX => Some(input.rest()),
            _ => return Err(Malformed("a row has bytes that are no payload, or too many")),
        };
        Ok(WideRow { payload, texts })
    }

    /// True if the rows fill the block.
    pub(crate) fn is_filled(&self) -> bool {
        self.parts().is_ok_and(|(ends, rows)| {
            rows.len() as u64 == if self.rows == 0 { 0 } else { ends.get(self.rows - 1) }
        })
    }
}
