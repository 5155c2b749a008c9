//! Places of the blocks of fields in a segment.

/// Kind of a block: bits 60 to 63 of its number. The areas of rows, codes, ids and meta have 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Names = 1,
    Wide = 2,
    Column = 3,
    Dictionary = 4,
    Directory = 5,
}

/// Number of the block at a position of an area.
pub(crate) fn number(area: Area, column: u16, position: usize) -> u64 {
    (area as u64) << 60 | u64::from(column) << 32 | position as u64
}

/// Offset and length, with its checksum, of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// A block with something for each of successive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) extent: Extent,
}

/// The position of the span that has a row.
pub(crate) fn span_of(spans: &[RowSpan], row: u32) -> Option<usize> {
    let at = spans.partition_point(|span| span.first_row <= row).checked_sub(1)?;
    (row - spans[at].first_row < spans[at].rows).then_some(at)
}
