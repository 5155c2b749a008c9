//! What became of a batch of records; `Written.java` reads it.
//!
//! ```text
//! written    i32 records without a row | i32 refused
//!            | refused x ( i32 number in the batch, from 0 | i32 reason | i32 text bytes | text )
//! ```

use vstream_attribute::RefusedKind;

use crate::failure::Failure;

/// Why a record was refused. The number is the wire code of `Written.Reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Reason {
    /// Another reason, which the text gives.
    Refused = 0,
    /// The collection has no attribute of that column.
    UnknownAttribute = 1,
    /// A value has another type than its attribute.
    WrongType = 2,
    /// The attributes or the payload of the row are or would become too large.
    TooLarge = 3,
    /// The id is of another kind, or has the hash of another one.
    BadId = 4,
    /// The group has the hash of another one.
    BadGroup = 5,
}

impl Reason {
    /// Every reason, in the order of the codes.
    #[cfg(test)]
    pub(crate) const ALL: [Reason; 6] = [
        Reason::Refused,
        Reason::UnknownAttribute,
        Reason::WrongType,
        Reason::TooLarge,
        Reason::BadId,
        Reason::BadGroup,
    ];
}

impl From<RefusedKind> for Reason {
    fn from(kind: RefusedKind) -> Reason {
        match kind {
            RefusedKind::UnknownAttribute => Reason::UnknownAttribute,
            RefusedKind::WrongType => Reason::WrongType,
            RefusedKind::TooLarge => Reason::TooLarge,
            RefusedKind::BadId => Reason::BadId,
            RefusedKind::BadGroup => Reason::BadGroup,
            RefusedKind::BadSchema | RefusedKind::BadFilter => Reason::Refused,
        }
    }
}

/// What became of one record. It has no effect unless it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was applied, or it is older than what is there.
    Applied,
    /// Its row is not here.
    WithoutRow,
    /// The row may not be stored as it is or would become.
    Refused(Reason, String),
}

impl Outcome {
    /// The outcome of a record that found its row or not.
    pub(crate) fn found(is_found: bool) -> Outcome {
        if is_found {
            Outcome::Applied
        } else {
            Outcome::WithoutRow
        }
    }

    /// The outcome of a call on the engine. What refuses one row alone is no error.
    pub(crate) fn of_engine(
        result: Result<Outcome, vstream_engine::Error>,
    ) -> Result<Outcome, Failure> {
        result.or_else(|error| match error.refused() {
            Some(kind) => Ok(Outcome::Refused(kind.into(), error.message().to_owned())),
            None => Err(error.into()),
        })
    }

    /// The outcome of a call on a store of groups, as [`Outcome::of_engine`]. A write is `Invalid`
    /// for its vector alone.
    pub(crate) fn of_group(
        result: Result<Outcome, vstream_group::Error>,
    ) -> Result<Outcome, Failure> {
        use vstream_group::Error;
        match result {
            Err(Error::Refused(refused)) => {
                Ok(Outcome::Refused(refused.kind.into(), refused.message))
            }
            Err(Error::Invalid(what)) => Ok(Outcome::Refused(Reason::Refused, what)),
            other => Ok(other?),
        }
    }
}

/// What became of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    without_row: usize,
    refused: Vec<(usize, Reason, String)>,
}

impl Written {
    /// Adds the outcome of the record at this place of the batch.
    pub(crate) fn add(&mut self, at: usize, outcome: Outcome) {
        match outcome {
            Outcome::Applied => {}
            Outcome::WithoutRow => self.without_row += 1,
            Outcome::Refused(reason, text) => self.refused.push((at, reason, text)),
        }
    }

    /// Records whose row is not here.
    #[cfg(test)]
    pub(crate) fn without_row(&self) -> usize {
        self.without_row
    }

    /// Records that were refused, by their place in the batch, with the reason.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> Vec<(usize, Reason)> {
        self.refused.iter().map(|(at, reason, _)| (*at, *reason)).collect()
    }

    /// The bytes for Java; `None` if every record had its effect, which is the rule and costs
    /// nothing.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        if *self == Written::default() {
            return None;
        }
        let mut out = Vec::new();
        put(&mut out, self.without_row);
        put(&mut out, self.refused.len());
        for (at, reason, text) in &self.refused {
            put(&mut out, *at);
            put(&mut out, *reason as usize);
            put(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        Some(out)
    }
}

fn put(out: &mut Vec<u8>, number: usize) {
    let number = i32::try_from(number).expect("a batch is shorter than 2^31 bytes");
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(text: &str) -> Vec<u8> {
        let digits: String = text
            .lines()
            .flat_map(|line| line.split('#').next())
            .flat_map(|line| line.chars().filter(char::is_ascii_hexdigit))
            .collect();
        (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits"))
            .collect()
    }

    #[test]
    fn a_batch_is_told_as_the_golden_file_says() {
        let mut written = Written::default();
        written.add(0, Outcome::Applied);
        assert_eq!(written.to_bytes(), None);
        written.add(1, Outcome::WithoutRow);
        written.add(2, Outcome::Refused(Reason::TooLarge, "zu groß".to_owned()));
        written.add(31, Outcome::Refused(Reason::BadId, String::new()));
        let file = include_str!("../../src/test/resources/golden/written.hex");
        assert_eq!(written.to_bytes(), Some(golden(file)));
    }

    #[test]
    fn codes_and_names_are_those_of_the_golden_table() {
        let golden = include_str!("../../src/test/resources/golden/refusals.txt");
        let ours: Vec<String> =
            Reason::ALL.iter().map(|reason| format!("{} {reason:?}", *reason as i32)).collect();
        assert_eq!(golden.lines().collect::<Vec<_>>(), ours);
    }
}
