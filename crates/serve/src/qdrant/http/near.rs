//! A vector, or what stands for one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::Error;

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

/// The numbers of a vector.
///
/// Vectors are most of what clients send. What they send has up to 17 digits, since their numbers are of double
/// precision, and reading these exactly as such takes longer than reading them as singles.
pub(super) struct Numbers(pub(super) Vec<f32>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Numbers, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        numbers(raw.get()).map(Numbers).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Near {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Near, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        Near::read(raw.get()).map_err(D::Error::custom)
    }
}

/// An object's keys and values as they were written.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<'de>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl Near {
    /// * `json`: a whole value.
    fn read(json: &str) -> Result<Near, Error> {
        if !json.starts_with('{') {
            return Near::plain(json);
        }
        let Entries(mut entries) = serde_json::from_str(json)?;
        if let [(key, nearest)] = &entries[..] {
            if key == "nearest" {
                return Near::plain(nearest.get());
            }
        }
        let first = if entries.is_empty() { String::new() } else { entries.swap_remove(0).0 };
        Ok(Near::Other(first))
    }

    /// A vector or an id.
    fn plain(json: &str) -> Result<Near, Error> {
        match json.as_bytes().first() {
            Some(b'[') => numbers(json).map(Near::Vector),
            Some(b'"' | b'0'..=b'9' | b'-') => serde_json::from_str(json).map(Near::Id),
            _ => Err(Error::custom("expected a list of numbers, or the id of a point")),
        }
    }
}

/// The numbers of a list.
///
/// * `json`: a whole value, so that what is between two commas of a list is a number, or a part of something that
///   no number begins or ends with.
fn numbers(json: &str) -> Result<Vec<f32>, Error> {
    let expected = || Error::custom("expected a list of numbers");
    let list = json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let list = list.ok_or_else(expected)?.trim_ascii();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let count = list.bytes().filter(|&byte| byte == b',').count() + 1;
    let mut numbers = Vec::with_capacity(count.min(ROOM));
    for text in list.split(',') {
        let number: f32 = text.trim_ascii().parse().map_err(|_| expected())?;
        if !number.is_finite() {
            return Err(Error::custom(format!("the number {} is too large", text.trim_ascii())));
        }
        numbers.push(number);
    }
    point_done();
    Ok(numbers)
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
        let other = read("{\"recommend\": {\"positive\": [7]}}").unwrap();
        assert_eq!(other, Near::Other("recommend".to_owned()));
        let two = read("{\"recommend\": 1, \"filter\": 2}").unwrap();
        assert_eq!(two, Near::Other("recommend".to_owned()), "the first as it was written");
        assert!(matches!(read("{\"nearest\": [1], \"mmr\": {}}").unwrap(), Near::Other(_)));
        assert_eq!(read(" [ ] ").unwrap(), Near::Vector(Vec::new()));
        assert_eq!(serde_json::from_str::<Option<Near>>("null").unwrap(), None);
        let bad = [
            "[1, null]",
            "[\"a\"]",
            "[\"a,1,b\"]",
            "[[1, 2], [3]]",
            "[{\"a\": 1, \"b\": 2}]",
            "[1, 2,]",
        ];
        let worse =
            ["true", "\"name\"", "-1", "[inf]", "[+1]", "{\"nearest\": {\"nearest\": 7}}", "1.5"];
        for bad in bad.iter().chain(&worse) {
            assert!(read(bad).is_err(), "{bad}");
        }
        // Values that lie deep end no thread.
        let deep = format!("{{\"nearest\": {}7{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&deep).is_err());
        let deep = format!("{}7{}", "{\"nearest\": ".repeat(100_000), "}".repeat(100_000));
        assert!(read(&deep).is_err());
    }

    /// As JSON has them: of single or double precision, with and without exponents.
    #[test]
    fn numbers_are_the_nearest_singles() {
        for number in 0..20_000_u32 {
            let single = f32::from_bits(number.wrapping_mul(0x9E37_79B9));
            if single.is_finite() {
                let double = f64::from(single);
                for text in [format!("[{double:e}, {single}]"), format!("[{double},\n{single:E}]")]
                {
                    let Numbers(read) = serde_json::from_str(&text).expect(&text);
                    assert_eq!(read, [single, single], "{text}");
                }
            }
        }
        let Numbers(small) = serde_json::from_str("[1e-400, -0.0]").expect("numbers");
        assert_eq!(small, [0.0, 0.0]);
        for large in ["[1e39]", "[-1e400]"] {
            assert!(serde_json::from_str::<Numbers>(large).is_err(), "{large}");
        }
    }
}
