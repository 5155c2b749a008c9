//! Filters of a collection: their text becomes bytes once, at the beginning of a job, and partitions
//! read the bytes.

use vstream_attribute::{Filter, IdKind, NameHash, Names};
use vstream_group::GroupQuery;
use vstream_settings::CollectionSettings;

use crate::failure::{Failure, Poison};
use crate::ranked::Ranked;

/// Reads the filters of one collection.
pub(crate) struct Filters {
    poison: Poison,
    settings: CollectionSettings,
    names: NameHash,
}

impl Filters {
    /// A reader of filters for this collection.
    pub(crate) fn new(settings: CollectionSettings) -> Filters {
        Filters { poison: Poison::default(), names: settings.schema.name_hash(), settings }
    }

    /// Checks an order of answers. Errors: `Invalid` if a partition could not evaluate it.
    pub(crate) fn check_ranked(&self, json: &str) -> Result<(), Failure> {
        self.poison.guard(|| {
            let ranked = Ranked::read(&self.settings.schema, json)?;
            let vector = vec![1.0; self.settings.dimension];
            let query = GroupQuery::nearest(&vector, 1);
            let settings = self.settings.group_store();
            Ok(ranked.with(query, |query| query.validate(&settings))?)
        })
    }

    /// Compiles the text of a filter, in JSON. Errors: `Invalid` if it is none, or none of this
    /// collection.
    pub(crate) fn compile(&self, text: &str) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            let schema = &self.settings.schema;
            // Where ids are numbers, a text is none.
            let hash = (schema.id == IdKind::String).then_some(&self.names);
            let names = Names { schema, hash };
            let filter = Filter::from_json(names, text)
                .and_then(|filter| filter.check(schema).map(|()| filter))
                .map_err(|refused| Failure::invalid(refused.message))?;
            let mut out = Vec::new();
            filter.simplify().encode(&mut out);
            Ok(out)
        })
    }
}

/// Reads the bytes of a filter.
pub(crate) fn read(bytes: &[u8]) -> Result<Filter, Failure> {
    Filter::decode(bytes).map_err(|error| Failure::invalid(format!("A filter: {error}.")))
}

#[cfg(test)]
mod tests {
    use vstream_attribute::Attributes;

    use super::*;
    use crate::failure::Kind;

    fn filters() -> Filters {
        let text = r#"{"dimension": 4, "metric": "l2", "seed": 7, "id": "string",
                       "attributes": {"price": "f64", "colour": "keyword"}}"#;
        Filters::new(CollectionSettings::from_json(text).unwrap())
    }

    #[test]
    fn a_filter_survives_the_way_through_java() {
        let text = r#"{"must": [{"key": "price", "range": {"lt": 10}},
                                {"has_id": ["a", "b"]}]}"#;
        let filter = read(&filters().compile(text).unwrap()).unwrap();
        let id = filters().names.hash("a").unwrap().id;
        assert!(!filter.holds(id, Attributes::NONE), "no price");
        let mut row = vstream_attribute::AttributesBuilder::default();
        let schema = filters().settings.schema;
        row.set(&schema, 0, &vstream_attribute::ValueRef::F64(9.5)).unwrap();
        assert!(filter.holds(id, row.build()));
        assert!(!filter.holds(id ^ 1, row.build()), "another id");
    }

    #[test]
    fn an_order_is_checked_before_a_partition_sees_it() {
        let text = r#"{"dimension": 4, "metric": "l2", "groups": {"mode": "isolated"},
                       "attributes": {"title": "text", "price": "f64"}}"#;
        let filters = Filters::new(CollectionSettings::from_json(text).unwrap());
        for good in [
            r#"{"text": "red chair", "vector": true}"#,
            r#"{"text": "title:red", "vector": false}"#,
            r#"{"rank": "closeness - $a * attribute(price)", "parameters": {"a": 2}, "vector": true}"#,
        ] {
            filters.check_ranked(good).unwrap();
        }
        for bad in [
            "",
            r#"{"vector": false}"#,
            r#"{"text": "size:red", "vector": true}"#,
            r#"{"text": 7, "vector": true}"#,
            r#"{"rank": "closeness +", "vector": true}"#,
            r#"{"rank": "$a", "vector": true}"#,
            r#"{"rank": "$a", "parameters": {"a": "b"}, "vector": true}"#,
        ] {
            assert_eq!(filters.check_ranked(bad).unwrap_err().kind, Kind::Invalid, "{bad}");
        }
    }

    #[test]
    fn what_is_no_filter_of_the_collection_is_refused() {
        for text in ["", "[]", r#"{"must": [{"key": "size", "match": {"value": 1}}]}"#] {
            assert_eq!(filters().compile(text).unwrap_err().kind, Kind::Invalid, "{text}");
        }
        assert_eq!(read(&[9, 9]).unwrap_err().kind, Kind::Invalid);
    }

    /// `NameHashTest.java` has the same numbers.
    #[test]
    fn names_have_the_hashes_that_java_gives_them() {
        let golden = include_str!("../../src/test/resources/golden/names.txt");
        let mut lines = 0;
        for line in golden.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let text = format!(
                r#"{{"dimension": 4, "metric": "l2", "id": "string", "seed": {}}}"#,
                words[0]
            );
            let settings = CollectionSettings::from_json(&text).unwrap();
            let hashed = settings.schema.name_hash().hash(words[3]).unwrap();
            let hex = |word| u64::from_str_radix(word, 16).unwrap();
            assert_eq!((hashed.id, hashed.check), (hex(words[1]), hex(words[2])), "{line}");
            lines += 1;
        }
        assert!(lines >= 5);
    }
}
