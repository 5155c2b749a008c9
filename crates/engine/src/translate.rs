//! Rows of another collection of the same form, whose attributes may be in other columns.
//!
//! The partitions of a job with an open schema add attributes in the order in which they see them. So
//! a row that changes partition keeps its attributes by name.

use std::sync::Arc;

use vstream_attribute::{Attribute, AttributesBuilder, Fields, Refused, RefusedKind, Schema};

/// Brings the fields of rows from one schema to another.
#[derive(Default)]
pub(crate) struct Translation {
    /// The schema that rows came with last.
    theirs: Option<Arc<Schema>>,
    /// Our columns by theirs; `None` if they are the same.
    columns: Option<Vec<u16>>,
    builder: AttributesBuilder,
}

impl Translation {
    /// True if the next rows, which come with `theirs`, need [`Translation::begin`] first.
    pub(crate) fn is_new(&self, theirs: &Arc<Schema>) -> bool {
        self.theirs.as_ref().is_none_or(|known| !Arc::ptr_eq(known, theirs))
    }

    /// Begins rows of a schema.
    ///
    /// Errors: `BadId`, `BadGroup` if ids or groups differ in kind; `UnknownAttribute`, `WrongType`
    /// for an attribute that `ours` lacks or has with another type.
    pub(crate) fn begin(&mut self, theirs: &Arc<Schema>, ours: &Schema) -> Result<(), Refused> {
        let refuse = |kind, what: &str| Err(Refused::new(kind, what));
        if theirs.id != ours.id {
            return refuse(RefusedKind::BadId, "The rows have ids of another kind.");
        }
        if theirs.grouping != ours.grouping {
            return refuse(RefusedKind::BadGroup, "The rows are in other groups, or in none.");
        }
        let columns = theirs.attributes.iter().map(|attribute| column_of(attribute, ours));
        let columns = columns.collect::<Result<Vec<u16>, Refused>>()?;
        let is_same = columns.iter().enumerate().all(|(at, &column)| at == usize::from(column));
        self.columns = (!is_same).then_some(columns);
        self.theirs = Some(theirs.clone());
        Ok(())
    }

    /// The fields of a row in our columns. Cost: nothing if the columns are the same.
    ///
    /// * `ours`: the schema of the last [`Translation::begin`], or one with more attributes.
    ///
    /// Errors: `UnknownAttribute` if the row has attributes that its schema lacks.
    pub(crate) fn fields<'a>(
        &'a mut self,
        fields: Fields<'a>,
        ours: &Schema,
    ) -> Result<Fields<'a>, Refused> {
        let Translation { columns, builder, .. } = self;
        let Some(columns) = columns else { return Ok(fields) };
        builder.clear();
        for (column, value) in fields.attributes.iter() {
            let Some(&column) = columns.get(usize::from(column)) else {
                let what = format!("The row has a value in column {column}, its schema has none.");
                return Err(Refused::new(RefusedKind::UnknownAttribute, what));
            };
            builder.set(ours, column, &value)?;
        }
        Ok(Fields { attributes: builder.build(), ..fields })
    }
}

fn column_of(attribute: &Attribute, ours: &Schema) -> Result<u16, Refused> {
    let Attribute { name, kind } = attribute;
    let Some(column) = ours.column(name) else {
        let what = format!("The collection has no attribute '{name}'.");
        return Err(Refused::new(RefusedKind::UnknownAttribute, what));
    };
    match ours.kind(column) {
        Some(there) if there == *kind => Ok(column),
        there => {
            let there = there.map_or("another type", |there| there.name());
            let what =
                format!("The attribute '{name}' is of type {}, here of {there}.", kind.name());
            Err(Refused::new(RefusedKind::WrongType, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use vstream_attribute::{AttributeKind, ValueRef};

    use super::*;

    fn schema(attributes: &[(&str, AttributeKind)]) -> Arc<Schema> {
        Arc::new(Schema::new(attributes.iter().copied()).expect("a schema"))
    }

    #[test]
    fn values_keep_their_names() {
        use AttributeKind::{Bool, Keyword, I64};
        let theirs = schema(&[("a", I64), ("b", Keyword), ("c", Bool)]);
        let ours = schema(&[("x", I64), ("c", Bool), ("b", Keyword), ("a", I64)]);
        let (mut translation, mut builder) = (Translation::default(), AttributesBuilder::default());
        assert!(translation.is_new(&theirs));
        translation.begin(&theirs, &ours).expect("all of them are here");
        assert!(!translation.is_new(&theirs));
        builder.set(&theirs, 0, &ValueRef::I64(7)).expect("a value");
        builder.set(&theirs, 2, &ValueRef::Bool(true)).expect("a value");
        let fields = Fields { attributes: builder.build(), payload: Some(b"p"), ..Fields::NONE };
        let ours = translation.fields(fields, &ours).expect("a row");
        let values: Vec<_> = ours.attributes.iter().collect();
        assert_eq!(values, [(1, ValueRef::Bool(true)), (3, ValueRef::I64(7))]);
        assert_eq!(ours.payload, Some(&b"p"[..]));
    }

    #[test]
    fn what_the_collection_lacks_is_refused() {
        let theirs = schema(&[("a", AttributeKind::I64)]);
        let mut translation = Translation::default();
        let mut kind = |ours: &Schema| translation.begin(&theirs, ours).expect_err("refused").kind;
        assert_eq!(kind(&Schema::default()), RefusedKind::UnknownAttribute);
        assert_eq!(kind(&schema(&[("a", AttributeKind::F64)])), RefusedKind::WrongType);
        let texts = Schema { id: vstream_attribute::IdKind::String, ..(*theirs).clone() };
        assert_eq!(kind(&texts), RefusedKind::BadId);
    }
}
