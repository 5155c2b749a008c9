//! The publish path: a root that is swapped whole, and a sequence that is stored last.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::Arc;

#[cfg(not(loom))]
use arc_swap::ArcSwap;
#[cfg(not(loom))]
pub(crate) use arc_swap::Guard;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;

#[cfg(loom)]
use self::model::ArcSwap;
#[cfg(loom)]
pub(crate) use self::model::Guard;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

use crate::rows::Sequence;

#[cfg(loom)]
mod model;

/// What readers and the writer share: the current root and the newest published sequence.
pub(crate) struct Published<R> {
    root: ArcSwap<Rooted<R>>,
    sequence: AtomicU64,
}

/// A root, and the sequence up to which all marks were made when it was swapped in.
pub(crate) struct Rooted<R> {
    root: R,
    sequence: Sequence,
}

impl<R> Deref for Rooted<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.root
    }
}

impl<R> Published<R> {
    /// * `sequence`: with which it begins.
    pub(crate) fn new(root: R, sequence: Sequence) -> Published<R> {
        Published {
            root: ArcSwap::from_pointee(Rooted { root, sequence }),
            sequence: AtomicU64::new(sequence),
        }
    }

    /// A root and a sequence such that all marks up to the sequence, and none that the root lacks,
    /// are on rows reachable from the root.
    ///
    /// The sequence was published while the root was current; or it is that of the root itself,
    /// when the writer has swapped the root and not yet published. Without the second, a reader
    /// in that gap would see a row's new place and still its old life. Retries only when the root
    /// is swapped between two loads.
    pub(crate) fn pin(&self) -> (Guard<Arc<Rooted<R>>>, Sequence) {
        let mut root = self.root.load();
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            let again = self.root.load();
            if Arc::ptr_eq(&root, &again) {
                let sequence = sequence.max(root.sequence);
                return (root, sequence);
            }
            root = again;
        }
    }

    /// The current root, where its age does not matter.
    pub(crate) fn root(&self) -> Guard<Arc<Rooted<R>>> {
        self.root.load()
    }

    /// The newest published sequence, where what it makes visible does not matter.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Swaps the root after all marks up to `sequence` were made, and publishes that sequence.
    pub(crate) fn swap(&self, root: R, sequence: Sequence) {
        self.root.store(Arc::new(Rooted { root, sequence }));
        self.publish(sequence);
    }

    /// Makes everything up to `sequence` visible under the current root.
    pub(crate) fn publish(&self, sequence: Sequence) {
        self.sequence.store(sequence, Ordering::Release);
    }
}
