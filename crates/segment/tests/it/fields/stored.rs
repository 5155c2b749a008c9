//! Fields come back as they were, by row and on walks, also of a segment that was written again.

use std::sync::Arc;

use vstream_attribute::{Fields, FieldsBuffer};
use vstream_index::{IndexRow, PinnedRows, VectorRef};
use vstream_segment::{
    write_pinned, FoundRow, LeafRows, Segment, SegmentKind, SegmentWriter, Tombstones,
    WantedColumns, WantedFields,
};
use vstream_store::codec::Tier;
use vstream_store::Cache;
use vstream_vector::{Element, SplitMix};

use super::rows::{Rows, AUTHORS, BODY, PRICE, SKU};
use crate::{memory, on_demand, open, resident, settings};

/// The fields of a row, without those that are not wanted.
fn only(fields: &FieldsBuffer, wanted: &WantedFields<'_>) -> FieldsBuffer {
    let fields = fields.fields();
    let mut out = FieldsBuffer::default();
    if wanted.names {
        out.set_name(fields.name, fields.check);
    }
    for (column, value) in fields.attributes.iter() {
        let is_wanted = match wanted.columns {
            WantedColumns::All => true,
            WantedColumns::None => false,
            WantedColumns::These(columns) => columns.contains(&column),
        };
        if is_wanted {
            out.push(column, &value);
        }
    }
    if wanted.payload {
        out.set_payload(fields.payload);
    }
    out
}

fn check_walks(segment: &Segment, rows: &Rows) {
    let tombstones = Tombstones::none(rows.len() as u32);
    let view = segment.at(&tombstones, 0);
    let mut next = 0;
    view.for_each_row(&mut |IndexRow { key, fields, .. }| {
        assert_eq!(key, rows.keys[next]);
        assert_eq!(fields, rows.fields[next].fields(), "row {next}");
        next += 1;
    })
    .unwrap();
    assert_eq!(next, rows.len());
    let mut next = 0;
    view.for_each_with_fields(None, &mut |row, key, fields| {
        assert_eq!((row as usize, key), (next, rows.keys[next]));
        assert_eq!(fields, rows.fields[next].fields(), "row {next}");
        next += 1;
    })
    .unwrap();
    assert_eq!(next, rows.len());
    let reader = segment.reader_with(Arc::new(Cache::new(1 << 20)));
    let some: Vec<u32> = (0..rows.len() as u32).filter(|row| row % 13 < 2).collect();
    let mut seen = Vec::new();
    segment
        .for_each_of(&some, &reader, &mut |row, held| {
            assert_eq!(held.fields, rows.fields[row as usize].fields(), "row {row}");
            seen.push(row);
        })
        .unwrap();
    assert_eq!(seen, some);
}

#[test]
fn fields_come_back() {
    let store = memory();
    for (seed, n, dimension, kind) in
        [(31, 10_000, 100, SegmentKind::Cluster), (32, 700, 768, SegmentKind::Flat)]
    {
        let rows = Rows::random(seed, n, dimension);
        let name = format!("{seed}.seg");
        let summary = rows.write(&store, &name, settings(dimension, kind, Tier::Hot));
        assert!(summary.column_bytes > 0 && summary.name_bytes > 0 && summary.payload_bytes > 0);
        let segment = open(&store, &name, on_demand());
        assert!(segment.has_fields());
        segment.verify().unwrap();
        assert!(segment.memory().fields > 0);
        let report = segment.fields_report().unwrap();
        let columns: u64 = report.columns.iter().map(|column| column.bytes).sum();
        assert_eq!(
            (columns, report.name_bytes, report.payload_bytes, report.directory_bytes),
            (summary.column_bytes, summary.name_bytes, summary.payload_bytes, summary.fields_bytes)
        );
        let present = |column| {
            rows.fields.iter().filter(|row| row.fields().attributes.get(column).is_some()).count()
        };
        for column in &report.columns {
            assert_eq!(column.rows as usize, present(column.column), "{column}");
        }
        check_walks(&segment, &rows);
        let mut random = SplitMix(seed);
        let columns = [SKU, PRICE, BODY, AUTHORS];
        let all = WantedColumns::All;
        for wanted in [
            WantedFields::ALL,
            WantedFields { names: true, columns: WantedColumns::None, payload: false },
            WantedFields { names: false, columns: WantedColumns::None, payload: true },
            WantedFields { names: false, columns: WantedColumns::These(&columns), payload: false },
            WantedFields { names: true, columns: all, payload: false },
        ] {
            let numbers: Vec<u32> = (0..40).map(|_| random.below(n) as u32).collect();
            let before = segment.io();
            let fields = segment.fields(&numbers, &wanted).unwrap();
            assert!(segment.io().rounds - before.rounds <= 1, "one round of reads");
            for (&row, fields) in numbers.iter().zip(&fields) {
                let expected = only(&rows.fields[row as usize], &wanted);
                assert_eq!(
                    fields.fields(),
                    expected.fields(),
                    "seed {seed}, row {row}, {wanted:?}"
                );
            }
        }
        let ids: Vec<u64> = (0..50).map(|at| rows.keys[at * 13].id).chain([1, 2]).collect();
        let found = segment.find_rows(&ids).unwrap();
        for (at, found) in found[..50].iter().enumerate() {
            let (row, check) = (at as u32 * 13, rows.fields[at * 13].fields().check);
            let version = rows.keys[row as usize].version;
            assert_eq!(*found, Some(FoundRow { row, version, check }));
            assert_eq!(segment.find_row(ids[at]).unwrap(), *found);
        }
        assert_eq!(&found[50..], [None, None]);
    }
}

/// A compaction reads leaves with their fields and writes them again.
#[test]
fn fields_survive_being_written_again() {
    let store = memory();
    let rows = Rows::random(51, 5000, 64);
    let settings = settings(64, SegmentKind::Cluster, Tier::Hot);
    let first = rows.write(&store, "first.seg", settings);
    let segment = open(&store, "first.seg", resident());
    let mut writer = SegmentWriter::create_with_fields(&store, "again.seg", settings).unwrap();
    let mut leaf = LeafRows::new(Element::F32, 64);
    for at in 0..segment.leaves() {
        leaf.clear();
        segment.for_each_in_leaf(at, segment.uncached(), &mut |_, row| leaf.push(row)).unwrap();
        writer.leaf(&leaf).unwrap();
    }
    let again = writer.finish().unwrap();
    assert_eq!(again, first, "the same rows give the same areas");
    let again = open(&store, "again.seg", resident());
    again.verify().unwrap();
    check_walks(&again, &rows);
}

/// An index in memory: every seventh row is in no leaf.
struct Pinned<'a> {
    rows: &'a Rows,
    has_fields: bool,
}

impl PinnedRows for Pinned<'_> {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.for_each_leaf_row(&mut |_, row| visit(row));
    }

    fn for_each_leaf_row(&self, visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>)) {
        let leaves = self.rows.leaves.iter().zip(0..);
        let leaf_of: Vec<u32> =
            leaves.flat_map(|(&rows, leaf)| std::iter::repeat_n(leaf, rows)).collect();
        for is_loose in [true, false] {
            for row in (0..self.rows.len()).filter(|row| row.is_multiple_of(7) == is_loose) {
                let vector = VectorRef::F32(&self.rows.vectors[row]);
                let mut held = IndexRow::plain(self.rows.keys[row], vector);
                if self.has_fields {
                    held.fields = self.rows.fields[row].fields();
                }
                visit((!is_loose).then_some(leaf_of[row]), held);
            }
        }
    }
}

/// A flush writes the fields of all rows, and a segment of version 1 if no row has some.
#[test]
fn a_pinned_index_gives_its_fields() {
    let store = memory();
    let rows = Rows::random(71, 3000, 48);
    let settings = settings(48, SegmentKind::Cluster, Tier::Hot);
    for has_fields in [true, false] {
        let name = format!("{has_fields}.seg");
        write_pinned(&store, &name, settings, &Pinned { rows: &rows, has_fields }).unwrap();
        let segment = open(&store, &name, resident());
        segment.verify().unwrap();
        assert_eq!(segment.has_fields(), has_fields);
        assert_eq!(segment.fields_report().is_some(), has_fields);
        let tombstones = Tombstones::none(3000);
        let mut seen = 0;
        segment
            .at(&tombstones, 0)
            .for_each_row(&mut |IndexRow { key, fields, .. }| {
                let row = rows.keys.iter().position(|held| *held == key).unwrap();
                let expected = if has_fields { rows.fields[row].fields() } else { Fields::NONE };
                assert_eq!(fields, expected, "row {row}");
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 3000);
    }
}

/// Rows without any field in a segment for fields cost next to nothing.
#[test]
fn rows_without_fields_may_be_in_a_segment_for_fields() {
    let store = memory();
    let mut rows = Rows::random(61, 2000, 32);
    for fields in &mut rows.fields[..1990] {
        fields.clear();
    }
    let summary = rows.write(&store, "a.seg", settings(32, SegmentKind::Cluster, Tier::Hot));
    assert!(summary.column_bytes < 4_000, "{summary:?}");
    let segment = open(&store, "a.seg", resident());
    segment.verify().unwrap();
    check_walks(&segment, &rows);
}
