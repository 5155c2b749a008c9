//! A collection's settings as the engine of one partition wants them.

use vstream_engine::{IndexKind, Settings};

use crate::collection::{CollectionSettings, EncoderSettings, IndexName};

/// Beyond this a partition would have to look at nearly every row.
const INSIDE_MAX: f64 = 0.999;

impl CollectionSettings {
    /// Settings of the engine that holds one partition of this collection.
    pub fn engine(&self) -> Settings {
        let mut settings = Settings::new(self.dimension, self.metric, self.element);
        settings.index = match self.index {
            IndexName::Cluster => IndexKind::Cluster,
            IndexName::Flat => IndexKind::Flat,
        };
        settings.recall_target = self.recall_inside();
        settings.seed = self.seed;
        settings.memory = self.memory;
        settings.code_memory = self.code_memory;
        settings.deletes = self.deletes;
        settings.without = self.without;
        settings
    }

    /// What a partition must reach so that the whole answer reaches the collection's target.
    ///
    /// The visited partitions hold only the encoder's share of the true neighbours. A partition
    /// measures itself on its own k nearest, and finds those that matter for the whole answer, the
    /// nearer ones, more surely: that makes up for most of what routing loses. Measured on GloVe
    /// at 2 partitions for a target of 0.95: asking each for 0.95 gives 0.9485 to 0.957, asking
    /// for 0.9596 gives 0.9615 to 0.970. The fourth root of the share lies between.
    fn recall_inside(&self) -> f64 {
        let routed = match self.encoder {
            EncoderSettings::Cells { recall_target, .. } => f64::from(recall_target),
            EncoderSettings::Lsh { .. } | EncoderSettings::Id => 1.0,
        };
        (self.recall_target / routed.powf(0.25)).clamp(0.5, INSIDE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use vstream_engine::{DeleteOrder, Without};

    use super::*;

    #[test]
    fn what_the_schema_accepts_the_engine_accepts() {
        for recall_target in ["0.5", "0.95", "0.999"] {
            for dimension in [1, 4096] {
                let text = format!(
                    r#"{{"dimension": {dimension}, "metric": "l2", "element": "u8",
                         "index": "flat", "recall-target": {recall_target}, "seed": 7,
                         "memory": "64 kb", "code-memory": 0, "deletes": "oldest-first",
                         "without": ["hot-cold", "compression"]}}"#
                );
                let settings = CollectionSettings::from_json(&text).expect("accepted").engine();
                settings.validate().expect("accepted by the engine too");
                assert_eq!((settings.index, settings.seed), (IndexKind::Flat, 7));
                assert_eq!(settings.memory, Some(64 << 10));
                assert_eq!(settings.code_memory, Some(0));
                assert_eq!(settings.deletes, DeleteOrder::OldestFirst);
                let without = Without { hot_cold: true, compression: true, threshold_stop: false };
                assert_eq!(settings.without, without);
            }
        }
    }
}
