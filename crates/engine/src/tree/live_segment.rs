//! A live segment: its file, its id table and its tombstones.

use std::path::Path;
use std::sync::Arc;

use vstream_index::RowKey;
use vstream_store::blocks::Block;
use vstream_store::{Access, Cache, FileStore, Store};

use super::graph_view::GraphView;
use super::heat::Heat;
use super::ids::IdTable;
use super::sealed::SealedSegment;
use super::{OnDisk, SegmentEntry, Served};
use crate::error::Error;
use crate::layout::segment_name;
use vstream_segment::row_digest;
use vstream_segment::{Codes, OpenOptions, Segment, SegmentView, Tombstones};

/// How an engine reads its segments.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) cache: Option<Arc<Cache<Block>>>,
    pub(crate) access: Access,
    pub(crate) codes: Codes,
}

/// What is known of the rows of a segment that is opened.
#[derive(Default)]
pub(crate) struct Known<'a> {
    /// A bit per row, set if it is deleted; empty if none is.
    pub(crate) deleted: &'a [u8],
    /// By shard, whether its rows are wanted: others count as deleted. `None` for all.
    pub(crate) wanted: Option<&'a [bool]>,
    /// The table of these rows, and maybe of more, if the file was open before.
    pub(crate) ids: Option<Arc<IdTable>>,
}

/// A segment that serves rows. When a merge takes some of its leaves, a new value serves the others, and
/// shares everything else with this one.
#[derive(Clone)]
pub(crate) struct LiveSegment {
    pub(crate) number: u64,
    pub(crate) segment: Arc<SealedSegment>,
    pub(crate) ids: Arc<IdTable>,
    /// Tombstones with the sequences of the engine; 0 if they existed when the segment was opened.
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) heat: Arc<Heat>,
    pub(crate) on_disk: Arc<OnDisk>,
    /// Number of rows that were not deleted when the segment was opened, and their digest; zeros if their
    /// table was there before.
    pub(crate) opened: (u64, u128),
    /// The leaves that it serves. The rows of the others have tombstones.
    pub(crate) served: Served,
    /// The collection that its file was written for, if not this one.
    pub(crate) origin: Option<u64>,
}

impl LiveSegment {
    /// Opens the segment of a manifest entry. Its table has no row that is deleted.
    ///
    /// Errors: `Corrupt` if the file is not that segment, or if a row of a leaf that it does not serve
    /// is not deleted; those of the store.
    pub(crate) fn open(
        store: &FileStore,
        entry: &SegmentEntry,
        collection: u64,
        known: Known<'_>,
        reading: &Reading,
    ) -> Result<LiveSegment, Error> {
        let segment = open_segment(store, entry, collection, Some(reading))?;
        check_served(store, entry, &segment, known.deleted)?;
        let tombstones = Tombstones::none(segment.rows() as u32);
        (0..segment.rows() as u32).filter(|&row| is_deleted(known.deleted, row)).for_each(|row| {
            tombstones.add(row, 0);
        });
        if let Some(wanted) = known.wanted {
            let mut others = Vec::new();
            for_each_key(&segment, &tombstones, &mut |row, key| {
                if !wanted[usize::from(key.shard)] {
                    others.push(row);
                }
            })?;
            others.into_iter().for_each(|row| {
                tombstones.add(row, 0);
            });
        }
        let mut opened = (0, 0u128);
        let ids = match known.ids {
            Some(ids) => ids,
            None => Arc::new(IdTable::of(
                &segment,
                &|row| tombstones.is_visible(row, 0),
                &mut |id, version| {
                    opened.0 += 1;
                    opened.1 = opened.1.wrapping_add(row_digest(id, version));
                },
            )?),
        };
        let (number, served) = (entry.number, entry.served.clone());
        let segment = Arc::new(segment);
        let (tombstones, heat) = (Arc::new(tombstones), Arc::default());
        let on_disk = Arc::new(OnDisk::begin());
        let origin = entry.origin.as_ref().map(|origin| origin.collection);
        Ok(LiveSegment { number, segment, ids, tombstones, heat, on_disk, opened, served, origin })
    }

    /// This segment without some more of its leaves, ascending; `None` if it serves no other.
    pub(crate) fn without(&self, leaves: &[u32]) -> Option<LiveSegment> {
        let all = self.segment.leaves()?.leaves() as u32;
        let served = self.served.without(all, leaves)?;
        Some(LiveSegment { served, ..self.clone() })
    }

    /// The leaves that it serves; none of a graph.
    pub(crate) fn served_leaves(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.segment.leaves().map_or(0, |segment| segment.leaves() as u32);
        (0..all).filter(|&leaf| self.served.contains(leaf))
    }

    /// True if it serves a leaf of a part of the codes.
    pub(crate) fn serves_part(&self, segment: &Segment, part: usize) -> bool {
        self.served.meets(&segment.part_leaves(part))
    }

    /// Releases the codes of which it serves no leaf. Who reads an older view reads them from the file.
    pub(crate) fn release_unserved_codes(&self) {
        let Some(segment) = self.segment.leaves() else { return };
        let unserved = (0..segment.parts()).filter(|&part| !self.serves_part(segment, part));
        unserved.for_each(|part| segment.release_codes(part));
    }

    /// Bytes of the codes that it serves and that are in no memory.
    pub(crate) fn code_bytes_away(&self) -> u64 {
        let Some(segment) = self.segment.leaves() else { return 0 };
        let served = (0..segment.parts()).filter(|&part| self.serves_part(segment, part));
        let states = served.map(|part| segment.part(part)).filter(|state| !state.is_held);
        states.map(|state| state.bytes).sum()
    }

    /// Digest of the rows whose bit is not set, among which is none that was deleted when it was opened.
    /// Cost: a walk over the id table.
    pub(crate) fn digest_without(&self, bits: &[u8]) -> u128 {
        let mut digest = 0u128;
        self.ids.for_each(&mut |id, version, row| {
            if !is_deleted(bits, row) {
                digest = digest.wrapping_add(row_digest(id, version));
            }
        });
        digest
    }

    /// The live row of an id, as the writer sees it.
    ///
    /// * `bucket`: of the id, see [`IdTable::approach`].
    pub(super) fn find_in(&self, bucket: usize, id: u64) -> Option<u32> {
        self.ids.find_in(bucket, id).filter(|&row| self.is_live(row))
    }

    /// The ids of the rows that live, in no order.
    pub(in crate::tree) fn live_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.ids.rows().filter(|&(_, row)| self.is_live(row)).map(|(id, _)| id)
    }

    /// True if the writer sees the row.
    pub(super) fn is_live(&self, row: u32) -> bool {
        self.tombstones.is_visible(row, u64::MAX - 1)
    }

    /// Calls `visit` with number and key of every row that lives now. Decodes no vectors. Errors:
    /// `Corrupt`, those of the store.
    pub(crate) fn for_each_live_key(
        &self,
        visit: &mut dyn FnMut(u32, RowKey),
    ) -> Result<(), Error> {
        for_each_key(&self.segment, &self.tombstones, visit)
    }

    /// Number of live rows now.
    pub(crate) fn live_rows(&self) -> u64 {
        self.segment.rows() - self.tombstones.count()
    }

    /// The segment as seen by a reader that pinned the sequence `pin`; `None` if it is a graph.
    pub(crate) fn leaves_at(&self, pin: u64) -> Option<SegmentView<'_>> {
        self.segment.leaves().map(|segment| segment.at(&self.tombstones, pin))
    }

    /// The graph as seen by a reader that pinned the sequence `pin`; `None` if it has leaves.
    pub(crate) fn graph_at(&self, pin: u64) -> Option<GraphView<'_>> {
        self.segment.graph().map(|graph| GraphView::new(graph, &self.tombstones, pin))
    }

    /// A bit per row, set if the row was deleted at or before the sequence `until` or is of a leaf that
    /// is not served, and the number of set bits.
    pub(crate) fn delete_bitmap(&self, until: u64) -> (Vec<u8>, u64) {
        let mut bits = vec![0u8; (self.segment.rows() as usize).div_ceil(8)];
        self.tombstones.for_each(&mut |row, sequence| {
            if sequence <= until {
                bits[row as usize / 8] |= 1 << (row % 8);
            }
        });
        if let Some(segment) = self.segment.leaves() {
            let others = self.served.others(segment.leaves() as u32).unwrap_or_default();
            let rows = others.into_iter().flat_map(|leaves| segment.rows_of_leaves(leaves));
            rows.for_each(|row| bits[row as usize / 8] |= 1 << (row % 8));
        }
        let deleted = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        (bits, deleted)
    }
}

/// Calls `visit` with number and key of every row without a tombstone. Decodes no vectors. Errors:
/// `Corrupt`, those of the store.
fn for_each_key(
    segment: &SealedSegment,
    tombstones: &Tombstones,
    visit: &mut dyn FnMut(u32, RowKey),
) -> Result<(), Error> {
    const NOW: u64 = u64::MAX - 1;
    if let Some(segment) = segment.leaves() {
        return Ok(segment.at(tombstones, NOW).for_each_key(None, visit)?);
    }
    if let Some(graph) = segment.graph() {
        graph.for_each_key(&mut |row, key| {
            if tombstones.is_visible(row, NOW) {
                visit(row, key);
            }
        })?;
    }
    Ok(())
}

/// True if the bit of `row` is set; `delete_bitmap` may be empty.
pub(crate) fn is_deleted(delete_bitmap: &[u8], row: u32) -> bool {
    delete_bitmap.get(row as usize / 8).is_some_and(|bits| bits >> (row % 8) & 1 == 1)
}

/// Errors with `Corrupt` if `entry` serves leaves that its segment does not have, or if a row of another
/// leaf is not deleted. A graph has no leaves, and serves all its rows.
pub(crate) fn check_served(
    store: &FileStore,
    entry: &SegmentEntry,
    segment: &SealedSegment,
    delete_bitmap: &[u8],
) -> Result<(), Error> {
    let are_gone = match segment.leaves() {
        Some(segment) => {
            let others = entry.served.others(segment.leaves() as u32);
            others.is_some_and(|others| {
                let mut rows = others.into_iter().flat_map(|leaves| segment.rows_of_leaves(leaves));
                rows.all(|row| is_deleted(delete_bitmap, row))
            })
        }
        None => entry.served.intervals().is_empty(),
    };
    if !are_gone {
        return Err(Error::corrupt(
            Path::new(&store.describe(&segment_name(entry.number))),
            "the leaves that are served are not those of its living rows",
        ));
    }
    Ok(())
}

/// Opens the file of a segment; without `reading`, for one walk over it.
/// Errors: `Corrupt` if the file is not the segment of `entry`, those of the store.
pub(crate) fn open_segment(
    store: &FileStore,
    entry: &SegmentEntry,
    collection: u64,
    reading: Option<&Reading>,
) -> Result<SealedSegment, Error> {
    let access = reading.map_or(Access::Cached, |reading| reading.access);
    let file = store.open(&segment_name(entry.number), access)?;
    let name = file.name().to_owned();
    let options = OpenOptions {
        cache: reading.and_then(|reading| reading.cache.clone()),
        codes: reading.map_or(Codes::OnDemand, |reading| reading.codes),
    };
    let segment = SealedSegment::open(file, options, entry)?;
    let found = (segment.identity(), segment.bytes(), segment.rows(), segment.digest());
    if found != (entry.identity(collection), entry.bytes, entry.rows, entry.digest) {
        return Err(Error::corrupt(Path::new(&name), "this is not the segment that is named"));
    }
    Ok(segment)
}
