use std::collections::HashMap;
use std::time::Duration;

use vstream_vector::SplitMix;

use super::{now_ms, RememberedDelete, RememberedDeletes, QUEUE_SPARE};
use crate::settings::DELETES_REMEMBERED_MAX;

#[test]
fn the_newest_delete_of_an_id_counts() {
    let mut remembered = RememberedDeletes::new(Duration::from_secs(3600));
    let (mut newest, mut random) = (HashMap::new(), SplitMix(3));
    let now = now_ms();
    for turn in 0..20_000 {
        let (id, version) = (random.below(500) as u64, random.below(1_000) as u64);
        if random.below(10) == 0 {
            remembered.forget(id);
            newest.remove(&id);
            continue;
        }
        remembered.note(RememberedDelete { id, version, at_ms: now });
        let last = newest.entry(id).or_insert(version);
        *last = version.max(*last);
        let deleted = newest.get(&id).copied();
        assert_eq!(remembered.version_of(id), deleted, "seed 3, turn {turn}");
        assert!(!remembered.is_dead(id, deleted.unwrap_or(0)), "a row of the delete's own version");
        assert_eq!(remembered.is_dead(id, version), deleted > Some(version), "turn {turn}");
    }
    assert!(remembered.order.len() <= 2 * remembered.len() + QUEUE_SPARE + 1);
    let listed: HashMap<u64, u64> =
        remembered.list().into_iter().map(|delete| (delete.id, delete.version)).collect();
    assert_eq!(listed, newest);
}

#[test]
fn what_was_kept_long_enough_goes() {
    let mut remembered = RememberedDeletes::new(Duration::from_secs(10));
    let now = now_ms();
    remembered.note(RememberedDelete { id: 1, version: 9, at_ms: now - 20_000 });
    remembered.note(RememberedDelete { id: 2, version: 9, at_ms: now - 5_000 });
    assert!(!remembered.is_dead(1, 3) && remembered.is_dead(2, 3));
    remembered.note(RememberedDelete { id: 3, version: 9, at_ms: now });
    assert_eq!(remembered.len(), 2, "the oldest is gone");
    // An id that is deleted again stays for the whole time after that.
    remembered.note(RememberedDelete { id: 2, version: 9, at_ms: now + 4_000 });
    remembered.note(RememberedDelete { id: 4, version: 9, at_ms: now + 8_000 });
    assert_eq!(remembered.version_of(2), Some(9));
}

#[test]
fn the_oldest_go_above_the_limit() {
    let mut remembered = RememberedDeletes::new(Duration::from_secs(3600));
    let now = now_ms();
    for id in 0..DELETES_REMEMBERED_MAX as u64 + 100 {
        remembered.note(RememberedDelete { id, version: 1, at_ms: now + id / 1_000 });
    }
    assert_eq!(remembered.len(), DELETES_REMEMBERED_MAX);
    assert_eq!((remembered.version_of(99), remembered.version_of(100)), (None, Some(1)));
}
