//! What a partition says.

use vstream_attribute::{Attributes, Fields, FieldsBuffer};

use crate::error::Attempt;
use crate::frontier::Frontier;
use crate::rank::Row;
use crate::wire::Input;

const ROWS_MAX: usize = 1 << 20;
/// Set in the number of rows that are followed by what they carry.
const WITH_FIELDS: u32 = 1 << 31;
/// More than any payload has.
const FIELD_BYTES_MAX: usize = 1 << 21;

const HAS_NAME: u8 = 1;
const HAS_ATTRIBUTES: u8 = 2;
const HAS_PAYLOAD: u8 = 4;
const LEFT_OUT: u8 = 32;

/// A question's answer, as far as one partition has it.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Life of the job; 0 before the partition has heard of a template.
    pub(crate) run: i64,
    /// The newest step of a hand-over that the partition has heard of.
    pub(crate) position: Position,
    /// Ascending by distance.
    pub(crate) rows: Vec<Row>,
    pub(crate) frontier: Frontier,
    /// Whether rows of a remote level are missing.
    pub(crate) is_incomplete: bool,
}

/// A step of a hand-over: its epoch times eight, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) i64);

impl Position {
    const STEPS: i64 = 8;
    /// Number of the step from which on old owners let rows go.
    const SETTLE: i64 = 3;

    pub(crate) fn epoch(self) -> i64 {
        self.0 / Position::STEPS
    }

    /// How many templates have settled.
    pub(crate) fn settled(self) -> i64 {
        self.epoch() - i64::from(self.0 % Position::STEPS < Position::SETTLE)
    }
}

impl Reply {
    /// Reads a reply. Errors: `Refused` if the partition refused the question, `Again` if it has no answer
    /// now, or none that can be read.
    pub(crate) fn of(bytes: &[u8]) -> Result<Reply, Attempt> {
        let mut input = Input::new(bytes);
        let status = input.u8()?;
        let length = usize::from(input.u16()?);
        let message = String::from_utf8_lossy(input.take(length)?).into_owned();
        match status {
            0 => {}
            1 => return Err(Attempt::Refused(message)),
            2 | 3 => return Err(Attempt::Again(message)),
            other => {
                return Err(Attempt::again(format!(
                    "a partition says {other}, which means nothing"
                )))
            }
        }
        let (run, position) = (input.i64()?, Position(input.i64()?));
        let rows = rows(&mut input)?;
        let frontier = Frontier::read(&mut input)?;
        let is_incomplete = input.u8()? != 0;
        input.end()?;
        Ok(Reply { run, position, rows, frontier, is_incomplete })
    }
}

fn rows(input: &mut Input<'_>) -> Result<Vec<Row>, Attempt> {
    let head = input.i32()? as u32;
    let count = (head & !WITH_FIELDS) as usize;
    if count > ROWS_MAX {
        return Err(Attempt::again(format!("an answer claims {count} rows")));
    }
    let mut rows = Vec::with_capacity(count.min(1 << 12));
    for _ in 0..count {
        rows.push(Row {
            id: input.i64()? as u64,
            version: input.i64()? as u64,
            distance: input.f32()?,
            fields: FieldsBuffer::default(),
            is_left_out: false,
        });
    }
    if head & WITH_FIELDS != 0 {
        for row in &mut rows {
            fields(input, row)?;
        }
    }
    Ok(rows)
}

/// Reads what a row carries.
fn fields(input: &mut Input<'_>, row: &mut Row) -> Result<(), Attempt> {
    let flags = input.u8()?;
    if flags & !(HAS_NAME | HAS_ATTRIBUTES | HAS_PAYLOAD | LEFT_OUT) != 0 {
        return Err(Attempt::again("a row of an answer carries what no answer does"));
    }
    let wrong = |_| Attempt::again("a row of an answer carries what cannot be read");
    let (mut name, mut check, mut attributes, mut payload) = ("", 0, &[][..], None);
    if flags & HAS_NAME != 0 {
        let bytes = input.bytes(FIELD_BYTES_MAX)?;
        name = std::str::from_utf8(bytes).map_err(|_| wrong(()))?;
        check = input.i64()? as u64;
    }
    if flags & HAS_ATTRIBUTES != 0 {
        attributes = input.bytes(FIELD_BYTES_MAX)?;
    }
    if flags & HAS_PAYLOAD != 0 {
        payload = Some(input.bytes(FIELD_BYTES_MAX)?);
    }
    let attributes = match attributes {
        [] => Attributes::NONE,
        bytes => Attributes::decode(bytes).map_err(|_| wrong(()))?,
    };
    row.fields.set(Fields { name, check, attributes, payload });
    row.is_left_out = flags & LEFT_OUT != 0;
    Ok(())
}
