//! The sizes of the cluster index in a manifest. `manifest.rs` has the bytes.

use vstream_index::ClusterSettings;
use vstream_vector::cursor::{ByteReader, Truncated};

pub(super) fn put_cluster(out: &mut Vec<u8>, of: &ClusterSettings) {
    let rows = [of.leaf_rows_max, of.leaf_rows_min, of.batch_rows];
    let work = [of.reassign_leaves, of.node_leaves_max, of.jobs_per_batch];
    let sizes = rows.into_iter().chain(work).chain([usize::from(of.second_look)]);
    sizes.for_each(|size| out.extend_from_slice(&(size as u64).to_le_bytes()));
}

pub(super) fn take_cluster(input: &mut ByteReader<'_>) -> Result<[u64; 7], Truncated> {
    let mut sizes = [0; 7];
    for size in &mut sizes {
        *size = input.u64()?;
    }
    Ok(sizes)
}

/// `None` if a size is out of range.
pub(super) fn cluster_of(sizes: [u64; 7]) -> Option<ClusterSettings> {
    let size = |at: usize| usize::try_from(sizes[at]).ok();
    Some(ClusterSettings {
        leaf_rows_max: size(0)?,
        leaf_rows_min: size(1)?,
        batch_rows: size(2)?,
        reassign_leaves: size(3)?,
        node_leaves_max: size(4)?,
        jobs_per_batch: size(5)?,
        second_look: match sizes[6] {
            0 => false,
            1 => true,
            _ => return None,
        },
    })
}
