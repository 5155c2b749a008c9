//! Changes of what a row carries, without its vector.

use crate::fields::Fields;
use crate::record::{Attributes, AttributesBuilder};

/// A change of what a row carries beside its vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update<'a> {
    /// Values of attributes to set; the other attributes keep theirs.
    pub set: Attributes<'a>,
    /// Columns whose values go.
    pub unset: &'a [u16],
    /// What becomes of the payload.
    pub payload: PayloadChange<'a>,
}

/// What an update does to the payload of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadChange<'a> {
    /// It stays as it is.
    #[default]
    Keep,
    /// The row gets this one.
    Set(&'a [u8]),
    /// The row has none any more.
    Remove,
}

impl Update<'_> {
    /// What a row carries after the update. A column that is both set and unset is set.
    ///
    /// The caller has checked the update against the schema, and checks the result: its attributes may
    /// have more than [`crate::ATTRIBUTES_BYTES_MAX`] bytes. Cost: a pass over the attributes.
    ///
    /// * `merged`: a buffer that the result lies in.
    pub fn apply<'b>(
        &'b self,
        before: Fields<'b>,
        merged: &'b mut AttributesBuilder,
    ) -> Fields<'b> {
        merged.clear();
        merged.set_all(before.attributes);
        self.unset.iter().for_each(|&column| merged.unset(column));
        merged.set_all(self.set);
        Fields { attributes: merged.build(), payload: self.payload.of(before.payload), ..before }
    }
}

impl<'a> PayloadChange<'a> {
    /// The payload after the change of this one.
    pub fn of(self, before: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match self {
            PayloadChange::Keep => before,
            PayloadChange::Set(payload) => Some(payload),
            PayloadChange::Remove => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PayloadChange, Update};
    use crate::{AttributeKind, AttributesBuilder, Fields, Schema, ValueRef};

    #[test]
    fn an_update_changes_what_it_names_and_nothing_else() {
        let names: Vec<String> = (0..64).map(|column| format!("c{column}")).collect();
        let kinds = names.iter().map(|name| (name.as_str(), AttributeKind::I64));
        let schema = Schema::new(kinds).expect("a schema");
        let mut builder = AttributesBuilder::default();
        for column in (0..64).filter(|column| column % 3 != 0) {
            builder.set(&schema, column, &ValueRef::I64(i64::from(column))).expect("a value");
        }
        let before = Fields { attributes: builder.build(), payload: Some(b"old"), ..Fields::NONE };
        let mut change = AttributesBuilder::default();
        change.set(&schema, 3, &ValueRef::I64(-3)).expect("a value");
        change.set(&schema, 4, &ValueRef::I64(-4)).expect("a value");
        let set = change.build();
        let update = Update { set, unset: &[4, 5, 6], payload: PayloadChange::Remove };
        let mut merged = AttributesBuilder::default();
        let after = update.apply(before, &mut merged);
        assert_eq!(after.payload, None);
        for column in 0..64u16 {
            let expected = match column {
                3 | 4 => Some(ValueRef::I64(-i64::from(column))),
                5 => None,
                column if column % 3 == 0 => None,
                column => Some(ValueRef::I64(i64::from(column))),
            };
            assert_eq!(after.attributes.get(column), expected, "column {column}");
        }
        let nothing = Update::default();
        let kept = nothing.apply(before, &mut merged);
        assert_eq!((kept.payload, kept.attributes), (Some(&b"old"[..]), before.attributes));
    }
}
