//! The publish path under loom: every interleaving and every value that the memory model allows.
//!
//! Run with `make model`. Marks are relaxed atomics, as in a row chunk; the root cell is a mutex,
//! which allows no more than `ArcSwap` promises: a load sees some root, a later load no older one.

use std::ops::Deref;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Mutex;
use loom::thread;

use super::Published;
use crate::rows::{by_write, is_visible, Sequence, Visible, NEVER};

/// Stands for `arc_swap::ArcSwap`, whose own inside is not what is checked here.
pub(super) struct ArcSwap<T>(Mutex<Arc<T>>);

/// Stands for `arc_swap::Guard`.
pub(crate) struct Guard<T>(T);

impl<T> ArcSwap<T> {
    pub(super) fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap(Mutex::new(Arc::new(value)))
    }

    pub(super) fn load(&self) -> Guard<Arc<T>> {
        Guard(self.0.lock().expect("no panic under the lock").clone())
    }

    pub(super) fn store(&self, value: Arc<T>) {
        *self.0.lock().expect("no panic under the lock") = value;
    }
}

impl<T> Guard<T> {
    pub(crate) fn into_inner(guard: Guard<T>) -> T {
        guard.0
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The life span of one row, in one place.
struct Life {
    inserted: AtomicU64,
    deleted: AtomicU64,
}

impl Life {
    fn from(inserted: Sequence) -> Arc<Life> {
        Arc::new(Life { inserted: AtomicU64::new(inserted), deleted: AtomicU64::new(NEVER) })
    }

    fn begin(&self, at: Sequence) {
        self.inserted.store(at, Ordering::Relaxed);
    }

    fn end(&self, at: Sequence) {
        self.deleted.store(at, Ordering::Relaxed);
    }

    fn is_visible(&self, inserted: Sequence, deleted: Sequence) -> bool {
        let life = (self.inserted.load(Ordering::Relaxed), self.deleted.load(Ordering::Relaxed));
        is_visible(life, Visible { inserted, deleted })
    }
}

/// What a root of the cluster index is to a reader: leaves, a tail, and how far rows are placed.
struct Places {
    leaves: Vec<Arc<Life>>,
    tail: Vec<Arc<Life>>,
    placed: Sequence,
}

/// Rows that a reader counts at the moment it pins.
fn count(published: &Published<Places>) -> usize {
    let (root, pin) = published.pin();
    let placed = root.leaves.iter().filter(|row| row.is_visible(root.placed, pin)).count();
    placed + root.tail.iter().filter(|row| row.is_visible(pin, pin)).count()
}

/// Runs `write` beside a reader that pins twice; each time exactly one row must be there.
fn always_one(
    places: impl Fn() -> (Places, Vec<Arc<Life>>) + Send + Sync + 'static,
    write: impl Fn(&Published<Places>, &[Arc<Life>]) + Send + Sync + Copy + 'static,
) {
    loom::model(move || {
        let (root, rows) = places();
        let published = Arc::new(Published::new(root, 0));
        published.publish(1);
        let reader = {
            let published = published.clone();
            thread::spawn(move || {
                assert_eq!(count(&published), 1);
                assert_eq!(count(&published), 1);
            })
        };
        write(&published, &rows);
        reader.join().expect("the reader saw one row each time");
    });
}

#[test]
fn an_upsert_replaces_at_one_moment() {
    let places = || {
        let (old, new) = (Life::from(1), Life::from(NEVER));
        let root = Places { leaves: vec![old.clone()], tail: vec![new.clone()], placed: 1 };
        (root, vec![old, new])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(2);
        published.publish(2);
    });
}

#[test]
fn placing_the_tail_moves_a_row_into_a_leaf_that_old_readers_reach() {
    let places = || {
        let (in_tail, in_leaf) = (Life::from(1), Life::from(NEVER));
        let root = Places { leaves: vec![in_leaf.clone()], tail: vec![in_tail.clone()], placed: 0 };
        (root, vec![in_tail, in_leaf])
    };
    always_one(places, |published, rows| {
        rows[1].begin(1);
        let root = Places { leaves: vec![rows[1].clone()], tail: Vec::new(), placed: 2 };
        published.swap(root, 2);
    });
}

#[test]
fn an_upsert_that_fills_the_tail_is_seen_whole() {
    let places = || {
        let (old, new) = (Life::from(1), Life::from(NEVER));
        let root = Places { leaves: vec![old.clone()], tail: vec![new.clone()], placed: 1 };
        (root, vec![old, new])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(2);
        // Placed at once, before the upsert itself was published.
        let leaves = vec![rows[0].clone(), rows[1].clone()];
        published.swap(Places { leaves, tail: Vec::new(), placed: 3 }, 3);
    });
}

#[test]
fn a_split_moves_a_neighbours_row_in_place() {
    let places = || {
        let (at_neighbour, in_new_leaf) = (Life::from(1), Life::from(NEVER));
        let root = Places { leaves: vec![at_neighbour.clone()], tail: Vec::new(), placed: 1 };
        (root, vec![at_neighbour, in_new_leaf])
    };
    always_one(places, |published, rows| {
        rows[1].begin(2);
        rows[0].end(2);
        let leaves = vec![rows[0].clone(), rows[1].clone()];
        published.swap(Places { leaves, tail: Vec::new(), placed: 2 }, 2);
    });
}

#[test]
fn a_merge_moves_a_row_into_a_leaf_that_old_readers_reach() {
    let places = || {
        let (in_merged, at_neighbour) = (Life::from(1), Life::from(NEVER));
        let leaves = vec![in_merged.clone(), at_neighbour.clone()];
        (Places { leaves, tail: Vec::new(), placed: 1 }, vec![in_merged, at_neighbour])
    };
    always_one(places, |published, rows| {
        rows[1].begin(2);
        let leaves = vec![rows[1].clone()];
        published.swap(Places { leaves, tail: Vec::new(), placed: 2 }, 2);
    });
}

/// The row changes and gets another lane in its leaf; no root is swapped.
#[test]
fn an_update_in_a_leaf_shows_one_lane_of_the_row() {
    let places = || {
        let (old, new) = (Life::from(1), Life::from(NEVER));
        let leaves = vec![old.clone(), new.clone()];
        (Places { leaves, tail: Vec::new(), placed: 1 }, vec![old, new])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(by_write(2));
        published.publish(2);
    });
}

/// The same, and then a batch copies the new lane to a leaf that old readers do not reach.
#[test]
fn an_update_is_seen_once_when_its_leaf_is_rewritten() {
    let places = || {
        let (old, new, copy) = (Life::from(1), Life::from(NEVER), Life::from(NEVER));
        let leaves = vec![old.clone(), new.clone()];
        (Places { leaves, tail: Vec::new(), placed: 1 }, vec![old, new, copy])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(by_write(2));
        published.publish(2);
        rows[2].begin(by_write(2));
        let leaves = vec![rows[2].clone()];
        published.swap(Places { leaves, tail: Vec::new(), placed: 3 }, 3);
    });
}

/// The defect that the mark of an update avoids: a reader of the same root would miss both lanes.
#[test]
#[should_panic(expected = "left == right")]
fn an_update_without_its_mark_is_noticed() {
    let places = || {
        let (old, new) = (Life::from(1), Life::from(NEVER));
        let leaves = vec![old.clone(), new.clone()];
        (Places { leaves, tail: Vec::new(), placed: 1 }, vec![old, new])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(2);
        published.publish(2);
    });
}

/// The defect that the stress test found first: without the root's own sequence, a reader between
/// swap and publish sees a row's new place and still its old life. The model must notice.
#[test]
#[should_panic(expected = "left == right")]
fn a_root_that_is_swapped_without_its_sequence_is_noticed() {
    let places = || {
        let (old, new) = (Life::from(1), Life::from(NEVER));
        let root = Places { leaves: vec![old.clone()], tail: vec![new.clone()], placed: 1 };
        (root, vec![old, new])
    };
    always_one(places, |published, rows| {
        rows[0].end(2);
        rows[1].begin(2);
        let leaves = vec![rows[0].clone(), rows[1].clone()];
        published.swap(Places { leaves, tail: Vec::new(), placed: 3 }, 1);
        published.publish(3);
    });
}
