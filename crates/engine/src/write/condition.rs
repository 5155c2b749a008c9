//! Conditions on the row that an upsert would replace.

use vstream_attribute::{Filter, Schema};

use crate::accept::check_filter;
use crate::error::Error;
use crate::tree::{Found, Writer};

/// When an upsert is applied, beyond that no newer row may be there. Both parts must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition<'a> {
    /// Holds for the attributes of the row that is there. Where there is none, it holds: an upsert
    /// inserts.
    pub filter: Option<&'a Filter>,
    /// What the version of the row that is there must be.
    pub version: IfVersion,
}

/// A condition on the version of the row that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfVersion {
    /// Any, or no row.
    #[default]
    Any,
    /// There is no row: the upsert only inserts.
    Absent,
    /// There is a row: the upsert only replaces.
    Present,
    /// There is a row of exactly this version.
    Is(u64),
}

impl Condition<'_> {
    /// Errors: `Invalid` if the filter does not fit the schema.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), Error> {
        Ok(self.filter.map_or(Ok(()), |filter| check_filter(filter, schema))?)
    }

    /// True if it holds for every row and for none.
    pub(super) fn is_always(&self) -> bool {
        self.filter.is_none() && self.version == IfVersion::Any
    }

    /// Whether it holds, with `found` the present row of `id`. Errors: `Corrupt`, `Io`, if the row is
    /// in a segment that cannot be read.
    pub(super) fn holds(
        &self,
        writer: &Writer<'_>,
        id: u64,
        found: Option<Found>,
    ) -> Result<bool, Error> {
        let is_version = match self.version {
            IfVersion::Any => true,
            IfVersion::Absent => found.is_none(),
            IfVersion::Present => found.is_some(),
            IfVersion::Is(version) => found.is_some_and(|found| found.version == version),
        };
        let (true, Some(filter), Some(found)) = (is_version, self.filter, found) else {
            return Ok(is_version);
        };
        let mut holds = false;
        writer.show(id, found, &mut |row| holds = filter.holds(id, row.fields.attributes))?;
        Ok(holds)
    }
}
