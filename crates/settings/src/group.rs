//! The settings of a store of isolated groups, from a collection's settings.

use vstream_engine::Grouping;
use vstream_group::GroupSettings;

use crate::collection::CollectionSettings;

/// Least bytes for new rows, whatever the memory of the collection.
const NEW_ROWS_MIN: u64 = 1 << 20;

impl CollectionSettings {
    /// True if rows are in isolated groups, which are searched without an index.
    pub fn is_isolated(&self) -> bool {
        self.schema.grouping == Grouping::Isolated
    }

    /// The settings of the store that holds the groups of one partition. Half of the collection's
    /// memory is for new rows, and half for what is read. The hash of groups follows from the
    /// collection's seed, so that every task and every restart has the same one.
    pub fn group_store(&self) -> GroupSettings {
        let mut settings = GroupSettings::new(self.dimension, self.metric, self.element);
        settings.schema = self.schema.clone();
        settings.seed = Some(self.seed);
        settings.shards = self.shards;
        if let Some(memory) = self.memory {
            settings.memory = usize::try_from((memory / 2).max(NEW_ROWS_MIN)).unwrap_or(usize::MAX);
            settings.cache = usize::try_from(memory / 2).unwrap_or(usize::MAX);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_schema_accepts_the_store_accepts() {
        let text = r#"{"dimension": 384, "metric": "cosine", "element": "bf16", "seed": 7,
                       "id": "string", "attributes": {"read": "bool"}, "memory": "16 mb",
                       "groups": {"mode": "isolated"}}"#;
        let collection = CollectionSettings::from_json(text).expect("accepted");
        let settings = collection.group_store();
        settings.validate().expect("accepted by the store too");
        assert!(collection.is_isolated());
        assert_eq!((settings.memory, settings.cache, settings.seed), (8 << 20, 8 << 20, Some(7)));
        assert_eq!(settings.schema, collection.schema);
        let text = r#"{"dimension": 4, "metric": "l2", "groups": {"mode": "shared"}}"#;
        assert!(!CollectionSettings::from_json(text).expect("accepted").is_isolated());
    }
}
