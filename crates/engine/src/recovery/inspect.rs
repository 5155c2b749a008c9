//! Reads the manifest of a durable engine, and none of the files that it names.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::Schema;
use vstream_store::{FileStore, Store, Syncing};
use vstream_vector::{Element, Metric};

use crate::error::Error;
use crate::layout::{holds, log_name, segment_name, BASE};
use crate::settings::{DeleteOrder, SegmentIndex};
use crate::tree::Origin;
use crate::version::{Manifest, REMOTE};

/// Summary of a durable engine, from its manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionSummary {
    /// Dimensions of the collection.
    pub dimension: usize,
    /// Its metric.
    pub metric: Metric,
    /// Its element type.
    pub element: Element,
    /// Limit to memory in bytes, if there is one.
    pub memory: Option<u64>,
    /// Limit to the memory for codes in bytes, if there is one.
    pub code_memory: Option<u64>,
    /// The index of the segments that merges write.
    pub index: SegmentIndex,
    /// The order in which its rows end.
    pub deletes: DeleteOrder,
    /// What its rows carry beside their vectors.
    pub schema: Arc<Schema>,
    /// How long it remembers deletes, if it does.
    pub deletes_remembered: Option<Duration>,
    /// LSN of the last write that was known to be on the disk when the manifest was published.
    pub lsn: u64,
    /// Rows that lived at that write.
    pub rows: u64,
    /// Their digest.
    pub digest: u128,
    /// Length of the base image; 0 without one.
    pub image_bytes: u64,
    /// Parts of it, which were written at different moments; 0 without an image.
    pub image_parts: usize,
    /// Segments, oldest rows first: as a rule, and nearly always where rows end oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Names and lengths of the logs.
    pub logs: Vec<(String, u64)>,
}

/// A segment in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Name of its file.
    pub name: String,
    /// Number of the first leaf that it may define.
    pub(crate) first_leaf: u64,
    /// Length of its file.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// Rows in it that are gone.
    pub gone: u64,
    /// The leaves that it still serves, by position in its directory; empty if it serves all.
    pub served: Vec<Range<u32>>,
    /// True if its file is in the remote level alone.
    pub is_remote: bool,
    /// Where its file was written, if not for this collection.
    origin: Option<Arc<Origin>>,
}

impl SegmentInfo {
    /// The number of a leaf of the file in this collection.
    pub(super) fn leaf(&self, written: u64) -> u64 {
        let here = self.origin.as_ref().and_then(|origin| origin.leaf(written));
        here.unwrap_or(written)
    }
}

/// Reads the manifest of the durable engine in `dir`, open or not; `None` if there is none.
/// Errors: `Io`, `Corrupt`, `Unsupported`.
pub fn inspect_collection(dir: &Path) -> Result<Option<CollectionSummary>, Error> {
    let store = FileStore::open_dir(dir, Syncing::Off)?;
    if !holds(&store)? {
        return Ok(None);
    }
    let manifest = Manifest::read(&store)?;
    let bytes_of = |prefix: &str| -> Result<u64, Error> {
        Ok(store.list(prefix)?.iter().map(|entry| entry.bytes).sum())
    };
    let listed = store.list(BASE)?;
    let image = manifest.base.image.as_ref();
    let is_of_image = |name: &str| image.is_some_and(|image| image.has(name));
    let of_image = listed.iter().filter(|entry| is_of_image(&entry.name));
    let here: Vec<String> = store.list("")?.into_iter().map(|entry| entry.name).collect();
    let has_remote = here.iter().any(|name| name == REMOTE);
    let segments = manifest.base.segments.iter().map(|segment| SegmentInfo {
        name: segment_name(segment.number),
        first_leaf: segment.first_leaf(),
        bytes: segment.bytes,
        rows: segment.rows,
        gone: segment.deleted,
        served: segment.served.intervals().to_vec(),
        origin: segment.origin.clone(),
        is_remote: has_remote && !here.contains(&segment_name(segment.number)),
    });
    let logs = manifest.logs.iter().map(|&log| {
        let name = log_name(log);
        Ok((name.clone(), bytes_of(&name)?))
    });
    Ok(Some(CollectionSummary {
        dimension: manifest.settings.dimension,
        metric: manifest.settings.metric,
        element: manifest.settings.element,
        memory: manifest.settings.memory,
        code_memory: manifest.settings.code_memory,
        index: manifest.settings.segments,
        deletes: manifest.settings.deletes,
        schema: manifest.settings.schema.clone(),
        deletes_remembered: manifest.settings.deletes_remembered,
        lsn: manifest.known.lsn,
        rows: manifest.known.live,
        digest: manifest.known.digest,
        image_bytes: of_image.map(|entry| entry.bytes).sum(),
        image_parts: image.map_or(0, |image| image.parts().len()),
        segments: segments.collect(),
        logs: logs.collect::<Result<_, Error>>()?,
    }))
}
