//! A block of a column: the values of one attribute in the rows of one chunk.
//!
//! ```text
//! u8 0: every row has a value; 1: a bit per row follows, set if the row has a value
//! local dictionary alone: u32 texts | the texts
//! lists alone: packed column of the ends of the lists
//! packed column of values; text columns have none, their values are in the wide blocks
//! ```
//!
//! Only rows with a value take room in the packed columns. A value is a number in the order of the
//! values: a whole number with its sign flipped, the ordered bits of a float, 0 or 1, or the number
//! of a text in the dictionary.

use vstream_attribute::AttributeKind;
use vstream_vector::cursor::ByteReader;

use super::packed::{self, Packed};
use super::texts::Texts;
use crate::defect::{self, Defect};
use crate::malformed::Malformed;

/// Rows of a chunk.
pub(crate) const CHUNK_ROWS: usize = 4096;
/// A chunk ends when one of its columns has this many values in lists.
pub(crate) const LIST_VALUES: usize = 1 << 16;
/// Most values of one list: attributes of a row have at most 64 KiB.
const ROW_VALUES_MAX: usize = 1 << 15;

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Numbers, or presence alone for texts.
    Plain,
    /// Codes of a dictionary that all blocks of the column share.
    Shared,
    /// Codes of a dictionary in the block.
    Local,
}

impl Form {
    pub(crate) fn from_tag(tag: u8) -> Option<Form> {
        [Form::Plain, Form::Shared, Form::Local].into_iter().find(|form| *form as u8 == tag)
    }
}

/// Kind and form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: AttributeKind,
    pub(crate) form: Form,
}

impl Shape {
    pub(crate) fn is_list(self) -> bool {
        self.kind == AttributeKind::Keywords
    }

    /// False if a column of this kind is never stored in this form.
    pub(crate) fn is_possible(self) -> bool {
        let has_words = matches!(self.kind, AttributeKind::Keyword | AttributeKind::Keywords);
        has_words == (self.form != Form::Plain)
    }
}

/// Values of a chunk of a column, before they are encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    /// Rows of the chunk that have a value, ascending.
    pub(crate) rows: Vec<u16>,
    /// Ends of the lists among `values`; empty in other columns.
    pub(crate) ends: Vec<u32>,
    pub(crate) values: Vec<u64>,
}

impl Chunk {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
        self.values.clear();
    }

    /// The block of a chunk of `rows` rows.
    ///
    /// * `texts`: the local dictionary, sorted; `None` in other forms.
    /// * `code`: the stored value of a value.
    pub(crate) fn encode(
        &self,
        rows: usize,
        texts: Option<&[&str]>,
        code: impl Fn(u64) -> u64,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let is_sparse = self.rows.len() < rows;
        out.push(u8::from(is_sparse));
        if is_sparse {
            let from = out.len();
            out.resize(from + rows.div_ceil(8), 0);
            for &row in &self.rows {
                out[from + usize::from(row) / 8] |= 1 << (row % 8);
            }
        }
        if let Some(sorted) = texts {
            out.extend_from_slice(&(sorted.len() as u32).to_le_bytes());
            super::texts::put(&mut out, sorted.iter().copied());
        }
        if !self.ends.is_empty() {
            packed::put(&mut out, self.ends.iter().map(|&end| u64::from(end)));
        }
        if !self.values.is_empty() || !self.ends.is_empty() {
            let mut codes: Vec<u64> = self.values.iter().map(|&value| code(value)).collect();
            if defect::active(Defect::ValuesMisplaced) && self.ends.is_empty() {
                codes.rotate_right(1);
            }
            packed::put(&mut out, codes.iter().copied());
        }
        out
    }
}

/// A block of a column, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnBlock<'a> {
    pub(crate) rows: usize,
    /// A bit per row; `None` if every row has a value.
    presence: Option<&'a [u8]>,
    /// Rows with a value.
    pub(crate) present: usize,
    /// The local dictionary.
    pub(crate) texts: Option<Texts<'a>>,
    ends: Option<Packed<'a>>,
    values: Option<Packed<'a>>,
    value_count: usize,
}

impl<'a> ColumnBlock<'a> {
    /// * `rows`: rows of the chunk, from the directory.
    pub(crate) fn decode(
        bytes: &'a [u8],
        rows: usize,
        shape: Shape,
    ) -> Result<ColumnBlock<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let presence = match input.u8()? {
            0 => None,
            1 => Some(input.bytes(rows.div_ceil(8))?),
            _ => return Err(Malformed("a column says neither that values lack nor that none do")),
        };
        let present = match presence {
            None => rows,
            Some(bits) => bits.iter().map(|byte| byte.count_ones() as usize).sum(),
        };
        if present == 0 || present > rows {
            return Err(Malformed("a block of a column without values, or with too many"));
        }
        let texts = match shape.form {
            Form::Local => {
                let count = input.u32()? as usize;
                Some(Texts::take_dictionary(&mut input, count)?)
            }
            Form::Plain | Form::Shared => None,
        };
        let ends = match shape.is_list() {
            true => Some(Packed::take(&mut input, present)?),
            false => None,
        };
        let value_count = match ends {
            Some(ends) => usize::try_from(ends.get(present - 1)).unwrap_or(usize::MAX),
            None => present,
        };
        if value_count > LIST_VALUES + ROW_VALUES_MAX {
            return Err(Malformed("a block of a column has too many values"));
        }
        let values = match shape.kind {
            AttributeKind::Text => None,
            _ => Some(Packed::take(&mut input, value_count)?),
        };
        if !input.is_empty() {
            return Err(Malformed("bytes are left over in a block of a column"));
        }
        Ok(ColumnBlock { rows, presence, present, texts, ends, values, value_count })
    }

    /// A bit for each of up to 32 rows from `row` on, set if the row has a value.
    pub(crate) fn presence(&self, row: usize, rows: usize) -> u32 {
        let lanes = lanes(rows);
        let Some(bits) = self.presence else { return lanes };
        let mut word = [0u8; 8];
        let from = row / 8;
        let end = bits.len().min(from + 5);
        word[..end - from].copy_from_slice(&bits[from..end]);
        (u64::from_le_bytes(word) >> (row % 8)) as u32 & lanes
    }

    /// Number of rows before `row` that have a value.
    pub(crate) fn rank(&self, row: usize) -> usize {
        let Some(bits) = self.presence else { return row };
        let whole: u32 = bits[..row / 8].iter().map(|byte| byte.count_ones()).sum();
        let rest = bits.get(row / 8).map_or(0, |byte| byte & ((1u8 << (row % 8)) - 1));
        (whole + rest.count_ones()) as usize
    }

    /// The position of the value of a row; `None` if it has none.
    pub(crate) fn position(&self, row: usize) -> Option<usize> {
        (self.presence(row, 1) == 1).then(|| self.rank(row))
    }

    /// The value at a position below `present`, in a column without lists.
    pub(crate) fn value(&self, position: usize) -> u64 {
        self.values.map_or(0, |values| values.get(position))
    }

    /// Up to 32 values from a position on, in a column without lists.
    pub(crate) fn values(&self, position: usize, out: &mut [u64]) {
        if let Some(values) = self.values {
            values.get_many(position, out);
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        self.ends.is_some()
    }

    /// The values of the list at a position below `present`. A damaged list is empty.
    pub(crate) fn list(&self, position: usize) -> impl ExactSizeIterator<Item = u64> + '_ {
        let ends = self.ends.expect("a column of lists");
        let from = if position == 0 { 0 } else { ends.get(position - 1) };
        let (from, to) = (from as usize, ends.get(position) as usize);
        let is_whole = from <= to && to <= self.value_count && to - from <= ROW_VALUES_MAX;
        let range = if is_whole { from..to } else { 0..0 };
        range.map(|at| self.value(at))
    }

    /// Checks what [`ColumnBlock::decode`] does not, at the cost of a pass over the block.
    ///
    /// * `codes`: number of texts in the shared dictionary.
    pub(crate) fn check(&self, shape: Shape, codes: usize) -> Result<(), Malformed> {
        if let (Some(bits), false) = (self.presence, self.rows.is_multiple_of(8)) {
            if bits[bits.len() - 1] >> (self.rows % 8) != 0 {
                return Err(Malformed("a column has values of rows behind its last"));
            }
        }
        if let Some(texts) = self.texts {
            texts.check()?;
        }
        if let Some(ends) = self.ends {
            let mut last = 0;
            for position in 0..self.present {
                let end = ends.get(position);
                if end < last || end - last > ROW_VALUES_MAX as u64 {
                    return Err(Malformed("the lists of a column are out of order"));
                }
                last = end;
            }
        }
        let most = match (shape.form, shape.kind) {
            (Form::Shared, _) => codes as u64,
            (Form::Local, _) => self.texts.map_or(0, |texts| texts.len() as u64),
            (_, AttributeKind::Bool) => 2,
            _ => return Ok(()),
        };
        if self.values.is_some() && (0..self.value_count).any(|at| self.value(at) >= most) {
            return Err(Malformed("a value of a column is out of range"));
        }
        Ok(())
    }
}

/// A mask of the lowest `rows` of 32 bits.
pub(crate) fn lanes(rows: usize) -> u32 {
    if rows >= 32 {
        u32::MAX
    } else {
        (1 << rows) - 1
    }
}

/// The order of whole numbers as the order of numbers without a sign.
pub(crate) fn ordered_i64(number: i64) -> u64 {
    number as u64 ^ (1 << 63)
}

/// The inverse of [`ordered_i64`].
pub(crate) fn i64_of(ordered: u64) -> i64 {
    (ordered ^ (1 << 63)) as i64
}

/// The order of numbers as the order of numbers without a sign; -0 comes right before 0.
pub(crate) fn ordered_f64(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// The inverse of [`ordered_f64`].
pub(crate) fn f64_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}
