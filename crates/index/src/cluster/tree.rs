//! The centroid tree as readers see it: root, nodes, leaves.
//!
//! A leaf grows in place (`leaf.rs`). Everything above it is immutable: the writer replaces a copy.

use std::sync::Arc;

use vstream_quantize::scalar8::Centroids;

use super::leaf::Leaf;
use crate::rows::{RowChunk, Sequence};

/// All that readers see. The writer swaps it whole and never changes it.
pub(crate) struct Root {
    pub(crate) tree: Arc<Tree>,
    /// The newest rows, in no leaf yet. Searches scan them exactly.
    pub(crate) tail: Arc<RowChunk>,
    /// Rows in leaves are visible up to this sequence. Later rows are visible in the tail.
    pub(crate) placed: Sequence,
}

/// Inner nodes and their centroids, in rotated space.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Arc<Node>>,
    /// `nodes × padded`: the mean of each node's leaf centroids. Copied only when one changes.
    pub(crate) centroids: Arc<Vec<f32>>,
    pub(crate) leaves: usize,
}

/// A group of near leaves. Immutable: the writer replaces a node to change it.
pub(crate) struct Node {
    pub(crate) leaves: Vec<Arc<Leaf>>,
    /// The leaves' centroids as bytes, which rank the leaves for a query or a row.
    pub(crate) coded: Arc<Centroids>,
    /// Mean of the centroids.
    pub(crate) mean: Vec<f32>,
}

impl Tree {
    pub(crate) fn empty() -> Tree {
        Tree { nodes: Vec::new(), centroids: Arc::default(), leaves: 0 }
    }

    /// Every leaf, node by node.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.nodes.iter().flat_map(|node| node.leaves.iter())
    }
}

impl Node {
    /// A node of these leaves, at least one.
    pub(crate) fn with_leaves(leaves: Vec<Arc<Leaf>>) -> Node {
        let padded = leaves[0].centroid.len();
        let mut rows = Vec::with_capacity(leaves.len() * padded);
        let mut mean = vec![0.0f32; padded];
        for leaf in &leaves {
            rows.extend_from_slice(&leaf.centroid);
            mean.iter_mut().zip(&leaf.centroid).for_each(|(m, &x)| *m += x);
        }
        mean.iter_mut().for_each(|m| *m /= leaves.len() as f32);
        Node { coded: Arc::new(Centroids::build(&rows, padded)), mean, leaves }
    }

    /// This node with another leaf at `child`, which has the same centroid.
    pub(crate) fn with_leaf(&self, child: usize, leaf: Arc<Leaf>) -> Node {
        let mut leaves = self.leaves.clone();
        leaves[child] = leaf;
        Node { coded: self.coded.clone(), mean: self.mean.clone(), leaves }
    }

    /// Bytes of the node without its leaves.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let padded = self.mean.len();
        let leaf = padded + size_of::<Arc<Leaf>>();
        (self.leaves.len() * leaf + padded * size_of::<f32>() + size_of::<Node>()) as u64
    }
}
