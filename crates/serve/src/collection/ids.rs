//! Ids of points: whole numbers or UUIDs, and any text that another face gave a point.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use uuid::Uuid;
use vstream_engine::{IdKind, NameHash, RowId, StoredRow};

use crate::failure::Failure;

/// The id of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PointId {
    Number(u64),
    /// A UUID in any of its forms; any text in a collection that another face made.
    Text(String),
}

impl PointId {
    /// The id that a text stands for where a number is a text too: one that is written as numbers are is a number.
    pub(crate) fn of_name(name: &str) -> PointId {
        match name.parse::<u64>() {
            Ok(number) if number.to_string() == name => PointId::Number(number),
            _ => PointId::Text(name.to_owned()),
        }
    }

    /// The form that a UUID has as the id of a new point, in lower case with hyphens; `None` for one that has it, and
    /// for what is no UUID. Another face may have given a point an id of any form, so this one is looked for second.
    pub(crate) fn usual(&self) -> Option<PointId> {
        let PointId::Text(text) = self else { return None };
        let usual = Uuid::parse_str(text).ok()?.hyphenated().to_string();
        (usual != *text).then_some(PointId::Text(usual))
    }

    /// True if both are written the same: a number is a text where ids are texts.
    pub(crate) fn is_same(&self, other: &PointId) -> bool {
        self == other || self.to_string() == other.to_string()
    }

    /// True if a request may mean the point of this id by another one.
    pub(crate) fn is_meant_by(&self, given: &PointId) -> bool {
        self.is_same(given) || given.usual().as_ref() == Some(self)
    }

    /// True for a text that only another face gives a point.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, PointId::Text(text) if Uuid::parse_str(text).is_err())
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointId::Number(number) => write!(f, "{number}"),
            PointId::Text(text) => f.write_str(text),
        }
    }
}

/// How a collection holds ids.
#[derive(Clone)]
pub(crate) struct IdForm {
    pub(crate) kind: IdKind,
    pub(crate) hash: NameHash,
}

impl IdForm {
    /// The text of an id in a collection of string ids, which holds numbers in their decimal form;
    /// empty in one of numbers. Errors: `BAD_REQUEST` for a UUID where ids are numbers.
    pub(crate) fn name(&self, id: &PointId) -> Result<String, Failure> {
        match (self.kind, id) {
            (IdKind::U64, PointId::Number(_)) => Ok(String::new()),
            (IdKind::U64, PointId::Text(text)) => Err(Failure::bad(format!(
                "the ids of the collection are whole numbers: '{text}' is none"
            ))),
            (IdKind::String, PointId::Number(number)) => Ok(number.to_string()),
            (IdKind::String, PointId::Text(text)) => Ok(text.clone()),
        }
    }

    /// The key of a row. Errors: as [`IdForm::name`].
    pub(crate) fn row_id(&self, id: &PointId) -> Result<RowId, Failure> {
        match (self.kind, id) {
            (IdKind::U64, PointId::Number(number)) => Ok(RowId::from(*number)),
            _ => Ok(self.hash.hash(&self.name(id)?)?.into()),
        }
    }

    /// The keys of rows. Errors: as [`IdForm::name`].
    pub(crate) fn row_ids(&self, ids: &[PointId]) -> Result<Vec<RowId>, Failure> {
        ids.iter().map(|id| self.row_id(id)).collect()
    }

    /// The id of a stored row.
    pub(crate) fn of_row(&self, row: &StoredRow) -> PointId {
        match self.kind {
            IdKind::U64 => PointId::Number(row.id),
            IdKind::String => PointId::of_name(row.fields.fields().name),
        }
    }
}

impl Serialize for PointId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PointId::Number(number) => serializer.serialize_u64(*number),
            PointId::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for PointId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PointId, D::Error> {
        struct Ids;
        impl Visitor<'_> for Ids {
            type Value = PointId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a UUID")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<PointId, E> {
                Ok(PointId::Number(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PointId, E> {
                let why = || E::custom(format!("the id {number} is negative"));
                u64::try_from(number).map(PointId::Number).map_err(|_| why())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PointId, E> {
                Ok(PointId::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_or_uuids() {
        let read = |text: &str| serde_json::from_str::<PointId>(text);
        assert_eq!(read("17").unwrap(), PointId::Number(17));
        let upper = "\"5C56C793-69F3-4FBF-87E6-C4BF54C28C26\"";
        let id = read(upper).unwrap();
        let usual = id.usual().unwrap();
        assert_eq!(usual, PointId::Text("5c56c793-69f3-4fbf-87e6-c4bf54c28c26".to_owned()));
        assert_eq!(serde_json::to_string(&usual).unwrap(), upper.to_lowercase());
        assert!(usual.usual().is_none() && usual.is_meant_by(&id) && !id.is_meant_by(&usual));
        for bad in ["-1", "1.5", "null", "[1]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        // Another face may have made a point of such a name, and no request does.
        for text in ["17", "a name", ""] {
            let id = read(&format!("\"{text}\"")).unwrap();
            assert_eq!((id.is_foreign(), id), (true, PointId::Text(text.to_owned())));
        }
        assert!(!read(upper).unwrap().is_foreign() && !PointId::Number(17).is_foreign());
    }

    #[test]
    fn a_number_comes_back_as_a_number() {
        assert_eq!(PointId::of_name("17"), PointId::Number(17));
        assert!(PointId::Number(17).is_meant_by(&PointId::Text("17".to_owned())));
        for text in ["017", "18446744073709551616", "+1", "a"] {
            assert_eq!(PointId::of_name(text), PointId::Text(text.to_owned()));
        }
    }
}
