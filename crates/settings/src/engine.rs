//! A collection's settings as the engine of one partition wants them.

use vstream_engine::{IndexKind, Settings};

use crate::collection::{CollectionSettings, IndexName};

impl CollectionSettings {
    /// Settings of the engine that holds one partition of this collection.
    pub fn engine(&self) -> Settings {
        let mut settings = Settings::new(self.dimension, self.metric, self.element);
        settings.index = match self.index {
            IndexName::Cluster => IndexKind::Cluster,
            IndexName::Flat => IndexKind::Flat,
        };
        // A partition measures itself on its own k nearest. Those that matter for the whole answer
        // are the nearer ones of them, which are found more surely; on GloVe at 2 and 4 partitions
        // that outweighs what routing loses, so the collection's target is asked of each.
        settings.recall_target = self.recall_target;
        settings.seed = self.seed;
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_schema_accepts_the_engine_accepts() {
        for recall_target in ["0.5", "0.95", "0.999"] {
            for dimension in [1, 4096] {
                let text = format!(
                    r#"{{"dimension": {dimension}, "metric": "l2", "element": "u8",
                         "index": "flat", "recall-target": {recall_target}, "seed": 7}}"#
                );
                let settings = CollectionSettings::from_json(&text).expect("accepted").engine();
                settings.validate().expect("accepted by the engine too");
                assert_eq!((settings.index, settings.seed), (IndexKind::Flat, 7));
            }
        }
    }
}
