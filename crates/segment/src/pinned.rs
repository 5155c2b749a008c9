//! Writes the rows of a pinned index as a segment.

use std::collections::BTreeMap;

use vstream_index::PinnedRows;
use vstream_store::{Error, Store};
use vstream_vector::kernels;

use crate::rows::LeafRows;
use crate::write::{SegmentSettings, SegmentSummary, SegmentWriter};

/// Most rows of a leaf that is made of rows without a leaf.
const LOOSE_LEAF_ROWS: usize = 384;

/// Writes the rows of a pinned index, leaf by leaf. Rows without a leaf go to the nearest one.
///
/// Cost: two walks over the rows; memory as [`SegmentWriter`], and the rows without a leaf.
/// Errors: those of the writer. No file exists after an error.
pub fn write_pinned(
    store: &dyn Store,
    name: &str,
    settings: SegmentSettings,
    rows: &dyn PinnedRows,
) -> Result<SegmentSummary, Error> {
    let Loose { by_leaf: mut loose, rows: loose_rows, has_fields } = Loose::of(settings, rows);
    let mut writer = SegmentWriter::begin(store, name, settings, has_fields)?;
    let add = |leaf: &mut LeafRows, rows: Vec<usize>| {
        rows.into_iter().for_each(|row| leaf.push(loose_rows.row(row)));
    };
    let mut leaf = LeafRows::new(settings.element, settings.dimension);
    let mut current = None;
    let mut failed = None;
    rows.for_each_leaf_row(&mut |at, row| {
        let Some(at) = at else { return };
        if failed.is_some() {
            return;
        }
        if current != Some(at) {
            add(&mut leaf, current.and_then(|at| loose.remove(&Some(at))).unwrap_or_default());
            failed = writer.arranged(&leaf, None).err();
            leaf.clear();
            current = Some(at);
        }
        leaf.push(row);
    });
    if let Some(error) = failed {
        return Err(error);
    }
    add(&mut leaf, current.and_then(|at| loose.remove(&Some(at))).unwrap_or_default());
    writer.arranged(&leaf, None)?;
    for rows in loose.remove(&None).unwrap_or_default().chunks(LOOSE_LEAF_ROWS) {
        leaf.clear();
        add(&mut leaf, rows.to_vec());
        writer.arranged(&leaf, None)?;
    }
    writer.finish()
}

/// Rows without a leaf, and the leaf that each goes to; `None` if there is no leaf at all.
struct Loose {
    by_leaf: BTreeMap<Option<u32>, Vec<usize>>,
    rows: LeafRows,
    /// Whether any row, in a leaf or not, has fields.
    has_fields: bool,
}

impl Loose {
    fn of(settings: SegmentSettings, pinned: &dyn PinnedRows) -> Loose {
        let dimension = settings.dimension;
        let mut rows = LeafRows::new(settings.element, dimension);
        let mut sums: BTreeMap<u32, (f32, Vec<f32>)> = BTreeMap::new();
        let mut vector = vec![0.0f32; dimension];
        let mut has_fields = false;
        pinned.for_each_leaf_row(&mut |leaf, row| {
            has_fields |= !row.fields.is_empty();
            let Some(leaf) = leaf else { return rows.push(row) };
            row.vector.read(&mut vector);
            let (n, sum) = sums.entry(leaf).or_insert_with(|| (0.0, vec![0.0; dimension]));
            *n += 1.0;
            sum.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x);
        });
        for (n, sum) in sums.values_mut() {
            sum.iter_mut().for_each(|x| *x /= *n);
        }
        let mut by_leaf: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
        for row in 0..rows.len() {
            rows.vector(row).read(&mut vector);
            let distance = |mean: &[f32]| kernels::l2_squared(&vector, mean);
            let nearest = sums
                .iter()
                .map(|(&leaf, (_, mean))| (distance(mean), leaf))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, leaf)| leaf);
            by_leaf.entry(nearest).or_default().push(row);
        }
        Loose { by_leaf, rows, has_fields }
    }
}
