//! Attributes that are added to a collection.

use std::sync::Arc;

use vstream_attribute::{AttributeKind, Refused, RefusedKind, Schema};

use crate::engine::Engine;
use crate::error::Error;
use crate::settings::{SegmentIndex, Settings};

impl Engine {
    /// What rows carry beside their vectors. Readers see the same ([`crate::Reader::schema`]).
    pub fn schema(&self) -> &Arc<Schema> {
        &self.settings.schema
    }

    /// Adds an attribute to the collection, and returns its column; the column that it has if it is
    /// there with this kind. The rows that are there have no value of it.
    ///
    /// When this returns, the attribute is on the disk, so the log may have rows with it. Cost: the
    /// manifest is written and synced. Errors: `Invalid` if the name cannot be, is there with another
    /// kind, or is one too many, or if segments are graphs; `Io`, and nothing is added then.
    pub fn add_attribute(&mut self, name: &str, kind: AttributeKind) -> Result<u16, Error> {
        let mut schema = Schema::clone(&self.settings.schema);
        let before = schema.attributes.len();
        let column = schema.add(name, kind)?;
        if schema.attributes.len() == before {
            return Ok(column);
        }
        let schema = Arc::new(schema);
        if self.settings.segments == SegmentIndex::Graph {
            Settings { schema: schema.clone(), ..self.settings.clone() }.validate()?;
        }
        if let Some(journal) = &mut self.journal {
            journal.publish_schema(&schema)?;
        }
        self.settings.schema = schema.clone();
        self.tree.set_schema(schema);
        Ok(column)
    }

    /// The column of an attribute that a row has. An open schema gets the attribute if it lacks it.
    ///
    /// Cost: a pass over the names; that of [`Engine::add_attribute`] for a new one. Errors: `Invalid`
    /// if the schema lacks it and is not open, or has it with another kind; those of `add_attribute`.
    pub fn admit_attribute(&mut self, name: &str, kind: AttributeKind) -> Result<u16, Error> {
        let schema = &self.settings.schema;
        match schema.column(name) {
            Some(column) if schema.kind(column) == Some(kind) => Ok(column),
            None if schema.open => self.add_attribute(name, kind),
            None => {
                let what = format!("The collection has no attribute '{name}'.");
                Err(Refused::new(RefusedKind::UnknownAttribute, what).into())
            }
            Some(column) => {
                let there = schema.kind(column).map_or("another type", AttributeKind::name);
                let what = format!(
                    "The attribute '{name}' is of type {there}, the value of type {}.",
                    kind.name()
                );
                Err(Refused::new(RefusedKind::WrongType, what).into())
            }
        }
    }
}
