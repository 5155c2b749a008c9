//! The engine settings of a partition, from a collection's settings.

use std::sync::Arc;
use std::time::Duration;

use vstream_engine::{Error, IndexKind, RemoteLevel, Settings};

use crate::collection::{CollectionSettings, IndexName};
use crate::inside::MergedAudits;

impl CollectionSettings {
    /// The settings of the engine that holds one partition of this collection, before any merged
    /// audit.
    pub fn engine(&self) -> Settings {
        let mut settings = Settings::new(self.dimension, self.metric, self.element);
        settings.index = match self.index {
            IndexName::Cluster => IndexKind::Cluster,
            IndexName::Flat => IndexKind::Flat,
        };
        settings.recall_target = self.recall_inside(&MergedAudits::default());
        settings.seed = self.seed;
        settings.memory = self.memory;
        settings.code_memory = self.code_memory;
        settings.segments = self.segments;
        settings.deletes = self.deletes;
        settings.schema = Arc::new(self.schema.clone());
        settings.deletes_remembered = self.deletes_remembered.map(Duration::from_millis);
        settings.ablation = self.without;
        settings
    }

    /// The remote level of each partition; `None` if it has none. Errors: `Invalid` address, which was
    /// refused already.
    pub fn remote_level(&self) -> Result<Option<RemoteLevel>, Error> {
        let Some(address) = &self.remote else { return Ok(None) };
        // Partitions are opened from copies of their states, maybe more of them than there were.
        RemoteLevel::at(address, self.disk.unwrap_or(0)).map(|level| Some(level.with_pointers()))
    }
}

#[cfg(test)]
mod tests {
    use vstream_engine::{Ablation, AttributeKind, DeleteOrder, Grouping, IdKind, SegmentIndex};

    use super::*;

    #[test]
    fn graphs_are_accepted_and_refused_as_by_the_engine() {
        let read = |more: &str| {
            let text = format!(r#"{{"dimension": 64, "metric": "l2", "segments": "graph"{more}}}"#);
            CollectionSettings::from_json(&text)
        };
        let settings = read(r#", "memory": "64 mb""#).expect("accepted").engine();
        settings.validate().expect("accepted by the engine too");
        assert_eq!(settings.segments, SegmentIndex::Graph);
        for (more, named) in [
            ("", "memory"),
            (r#", "memory": "1 mb", "code-memory": "1 mb""#, "code-memory"),
            (r#", "memory": "1 mb", "index": "flat""#, "index"),
            (r#", "memory": "1 mb", "id": "string""#, "segments"),
            (r#", "memory": "1 mb", "attributes": {"price": "f64"}"#, "segments"),
            (r#", "memory": "1 mb", "groups": {"mode": "isolated"}"#, "segments"),
        ] {
            let refused = read(more).expect_err("it cannot be").to_string();
            assert!(refused.contains(named), "{more}: {refused}");
        }
    }

    #[test]
    fn a_remote_level_needs_segments_and_a_limit() {
        let read = |more: &str| {
            let text = format!(r#"{{"dimension": 64, "metric": "l2"{more}}}"#);
            CollectionSettings::from_json(&text)
        };
        for address in
            ["s3://bucket", "s3://bucket/a?endpoint=http://127.0.0.1:1&region=x", "/tmp/a"]
        {
            let more = format!(r#", "memory": "1 mb", "remote": "{address}", "disk": "10 gb""#);
            let settings = read(&more).expect("accepted");
            assert_eq!(
                (settings.remote.as_deref(), settings.disk),
                (Some(address), Some(10 << 30))
            );
            assert!(settings.remote_level().expect("an address").is_some());
            assert_eq!(CollectionSettings::from_json(&settings.to_json()), Ok(settings));
        }
        let settings = read(r#", "memory": "1 mb", "remote": "far", "disk": 0"#).expect("accepted");
        let remote = settings.remote.expect("a folder");
        assert!(remote.starts_with('/') && remote.ends_with("/far"), "{remote}");
        assert!(read("").expect("accepted").remote_level().expect("none").is_none());
        for (more, named) in [
            (r#", "remote": "/a", "disk": 0"#, "memory"),
            (r#", "memory": "1 mb", "remote": "/a""#, "disk"),
            (r#", "memory": "1 mb", "disk": "1 gb""#, "disk"),
            (r#", "memory": "1 mb", "disk": 0, "remote": "s3://user:secret@bucket""#, "remote"),
            (r#", "memory": "1 mb", "disk": 0, "remote": "ftp://there""#, "remote"),
            (r#", "groups": {"mode": "isolated"}, "disk": 0, "remote": "/a""#, "remote"),
        ] {
            let refused = read(more).expect_err("it cannot be").to_string();
            assert!(refused.contains(named) && !refused.contains("secret"), "{more}: {refused}");
        }
    }

    #[test]
    fn what_the_schema_accepts_the_engine_accepts() {
        for recall_target in ["0.5", "0.95", "0.999"] {
            for dimension in [1, 4096] {
                let text = format!(
                    r#"{{"dimension": {dimension}, "metric": "l2", "element": "u8",
                         "index": "flat", "recall-target": {recall_target}, "seed": 7,
                         "memory": "64 kb", "code-memory": 0, "deletes": "oldest-first",
                         "id": "string", "attributes": {{"price": "f64", "tags": "keywords"}},
                         "open": true, "groups": {{"mode": "shared"}}, "deletes-remembered": "2 min",
                         "without": ["hot-cold", "compression"]}}"#
                );
                let settings = CollectionSettings::from_json(&text).expect("accepted").engine();
                settings.validate().expect("accepted by the engine too");
                assert_eq!((settings.index, settings.seed), (IndexKind::Flat, 7));
                assert_eq!(settings.memory, Some(64 << 10));
                assert_eq!(settings.code_memory, Some(0));
                assert_eq!(settings.deletes, DeleteOrder::OldestFirst);
                assert_eq!(settings.deletes_remembered, Some(Duration::from_secs(120)));
                let schema = &settings.schema;
                assert_eq!((schema.id, schema.grouping), (IdKind::String, Grouping::Shared));
                let kinds = ["price", "tags"].map(|name| schema.kind(schema.column(name)?));
                assert_eq!(kinds, [Some(AttributeKind::F64), Some(AttributeKind::Keywords)]);
                let group = schema.group_column().and_then(|column| schema.kind(column));
                assert_eq!(group, Some(AttributeKind::Keyword));
                assert!(schema.open);
                let without = Ablation { hot_cold: true, compression: true, ..Ablation::default() };
                assert_eq!(settings.ablation, without);
            }
        }
    }
}
