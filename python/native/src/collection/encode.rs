//! What rows carry in the engine's form, by the attributes that there are, or will be.

use vstream_engine::{Filter, IdKind, Names, Schema};

use super::Collection;
use crate::failure::Failure;
use crate::fields::{Column, FieldColumns};
use crate::filters::{self, GivenFilter};

impl Collection {
    pub(super) fn filter_of(
        &self,
        schema: &Schema,
        given: &GivenFilter,
    ) -> Result<Filter, Failure> {
        let hash = (self.ids.kind == IdKind::String).then_some(&self.ids.hash);
        filters::read(Names { schema, hash }, given)
    }

    /// What `read` makes of rows and of the schema. An open schema gets the attributes that it lacks once nothing was
    /// refused; until then no other thread adds any.
    pub(super) fn encode<T>(
        &self,
        fields: &FieldColumns,
        read: impl FnOnce(&Schema) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        fields.check_payloads()?;
        let mut writer = self.writer()?;
        let there = self.reader.schema();
        let is_new = |column: &&Column| there.open && there.column(&column.name).is_none();
        let (new, known): (Vec<&Column>, Vec<&Column>) = fields.columns.iter().partition(is_new);
        for column in known {
            // Nothing is added: it is there with this kind, or refused.
            writer.admit_attribute(&column.name, column.kind)?;
        }
        if new.is_empty() {
            drop(writer);
            return read(&there);
        }
        let mut schema = Schema::clone(&there);
        for column in &new {
            schema.add(&column.name, column.kind)?;
        }
        let read = read(&schema)?;
        for column in new {
            writer.admit_attribute(&column.name, column.kind)?;
        }
        Ok(read)
    }
}
