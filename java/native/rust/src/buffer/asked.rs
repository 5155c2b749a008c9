//! `asked` blocks: what a query asks beside the nearest rows.

use vstream_attribute::ATTRIBUTES_MAX;
use vstream_group::GROUP_BYTES_MAX;

use super::{f32_at, take, take_text, u32_at, ALIGNMENT};
use crate::failure::Failure;
use crate::ranked::RANKED_BYTES_MAX;

const HEADER: usize = 16;
/// Most bytes of a compiled filter.
const FILTER_BYTES_MAX: usize = 2 << 20;

const HAS_FILTER: u16 = 1;
const HAS_RADIUS: u16 = 2;
const WANTS_PAYLOAD: u16 = 4;
const WANTS_NAMES: u16 = 8;
const HAS_GROUP: u16 = 16;
const HAS_ORDER: u16 = 32;
/// All flags that mean something.
const FLAGS: u16 = 63;

/// A block that was read. It borrows the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Asked<'a> {
    /// The bytes of a filter.
    pub(crate) filter: Option<&'a [u8]>,
    /// Largest distance of a row.
    pub(crate) radius: Option<f32>,
    /// True if rows are to carry their payload.
    pub(crate) payload: bool,
    /// The group that is asked; empty where rows have none.
    pub(crate) group: &'a str,
    /// Words and a rank expression in JSON, see `ranked.rs`.
    pub(crate) ranked: Option<&'a str>,
    /// True if rows are to carry their string ids.
    pub(crate) names: bool,
    /// Columns that rows are to carry, two bytes each.
    columns: &'a [u8],
}

impl<'a> Asked<'a> {
    /// Reads a block at the start of `bytes` and steps behind it. Errors: `Invalid` for lengths
    /// that do not fit or flags that mean nothing.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Result<Asked<'a>, Failure> {
        let mut header = *bytes;
        let header = take(&mut header, HEADER)?;
        let length = u32_at(header, 0) as usize;
        let flags = u16::from_le_bytes([header[4], header[5]]);
        let columns = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let (radius, filter) = (f32_at(header, 8), u32_at(header, 12) as usize);
        if flags & !FLAGS != 0 {
            return Err(Failure::invalid(format!("Flags {flags:#x} of what a query asks.")));
        }
        let misfit = || Failure::invalid("The lengths of what a query asks do not fit together.");
        let least = HEADER + filter + 2 * columns;
        if filter > FILTER_BYTES_MAX || columns > ATTRIBUTES_MAX || radius.is_nan() {
            return Err(misfit());
        }
        let mut body = take(bytes, length)?;
        // Group and order stand last, since their lengths do not fit into the header.
        let mut tail = body.get(least..).ok_or_else(misfit)?;
        let mut end = least;
        let mut text = |flag: u16, bytes_max: usize, what: &str| -> Result<&'a str, Failure> {
            if flags & flag == 0 {
                return Ok("");
            }
            let bytes = u32_at(take(&mut tail, 4)?, 0) as usize;
            if bytes > bytes_max {
                return Err(misfit());
            }
            end += 4 + bytes;
            take_text(&mut tail, bytes, what)
        };
        let group = text(HAS_GROUP, GROUP_BYTES_MAX, "The name of a group")?;
        let ranked = text(HAS_ORDER, RANKED_BYTES_MAX, "An order")?;
        if length != end.next_multiple_of(ALIGNMENT) {
            return Err(misfit());
        }
        take(&mut body, HEADER)?;
        let filter = take(&mut body, filter)?;
        Ok(Asked {
            filter: (flags & HAS_FILTER != 0).then_some(filter),
            radius: (flags & HAS_RADIUS != 0).then_some(radius),
            payload: flags & WANTS_PAYLOAD != 0,
            group,
            ranked: (flags & HAS_ORDER != 0).then_some(ranked),
            names: flags & WANTS_NAMES != 0,
            columns: take(&mut body, 2 * columns)?,
        })
    }

    /// True if rows are to carry something.
    pub(crate) fn wants_fields(&self) -> bool {
        self.payload || self.names || !self.columns.is_empty()
    }

    /// The columns that rows are to carry.
    pub(crate) fn columns(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.columns.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
    }
}
