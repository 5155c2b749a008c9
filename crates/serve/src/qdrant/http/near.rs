//! A vector, or what stands for one.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::collection::PointId;
use crate::turns::point_done;

/// A vector, or what stands for one.
#[derive(Debug, PartialEq)]
pub(super) enum Near {
    Vector(Vec<f32>),
    /// The vector of a point.
    Id(PointId),
    /// Something that is not supported, by its first key.
    Other(String),
}

/// Most numbers for which room is made before they are read.
const ROOM: usize = 4096;

impl<'de> Deserialize<'de> for Near {
    /// Reads numbers as they come: vectors are most of what clients send.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Near, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Near;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers, or the id of a point")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Near, A::Error> {
                let mut vector = Vec::with_capacity(list.size_hint().unwrap_or(0).min(ROOM));
                while let Some(number) = list.next_element()? {
                    vector.push(number);
                }
                point_done();
                Ok(Near::Vector(vector))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Near, A::Error> {
                let mut object = Map::new();
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    object.insert(key, value);
                }
                match (object.remove("nearest"), object.is_empty()) {
                    (Some(nearest), true) => Near::deserialize(nearest).map_err(de::Error::custom),
                    _ => {
                        Ok(Near::Other(object.into_iter().next().map_or(String::new(), |it| it.0)))
                    }
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Near, E> {
                Ok(Near::Id(PointId::Number(number)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Near, E> {
                PointId::deserialize(de::value::StrDeserializer::new(text)).map(Near::Id)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_ids_and_what_holds_them_are_read() {
        let read = |text: &str| serde_json::from_str::<Near>(text);
        assert_eq!(read("[1, 2.5, -3e-2]").unwrap(), Near::Vector(vec![1.0, 2.5, -0.03]));
        assert_eq!(read("7").unwrap(), Near::Id(PointId::Number(7)));
        assert_eq!(read("{\"nearest\": 7}").unwrap(), Near::Id(PointId::Number(7)));
        assert_eq!(read("{\"nearest\": [1]}").unwrap(), Near::Vector(vec![1.0]));
        // Another program may have given a point this id.
        assert_eq!(read("\"name\"").unwrap(), Near::Id(PointId::Text("name".to_owned())));
        let other = read("{\"recommend\": {\"positive\": [7]}}").unwrap();
        assert_eq!(other, Near::Other("recommend".to_owned()));
        assert!(matches!(read("{\"nearest\": [1], \"mmr\": {}}").unwrap(), Near::Other(_)));
        for bad in ["[1, null]", "[\"a\"]", "true", "-1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
