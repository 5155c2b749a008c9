//! Followers of an engine whose base image has several parts.

use vstream_engine::{Durability, Element, Engine, Journaling, Metric, Row, Settings};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::{open, parts, LOG_BYTES_MAX};
use crate::feed::{catch_up, copy, rows};

const DIMENSION: usize = 64;
const ROWS: u64 = 3_200;
const SHARDS: u64 = 32;
const KEPT: u64 = 1 << 30;

/// A follower begins with parts of different moments, and with logs some of whose writes these have already;
/// what comes then are groups of the newest log.
#[test]
fn who_begins_with_parts_follows_from_their_last_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let settings = Settings { image_part_bytes: 8 << 10, recall_guard: false, ..settings };
    let journaling = Journaling {
        durability: Durability::Sync,
        log_bytes_max: LOG_BYTES_MAX,
        background: false,
    };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling);
    let mut writer = builder.create(settings.clone()).expect("an engine");
    let feed = writer.feed(KEPT).expect("a log");
    let mut random = SplitMix(23);
    let vectors = clustered(&mut random, ROWS as usize, DIMENSION, 80);
    let mut change = |writer: &mut Engine, id: u64, version: u64| {
        let vector = &vectors[random.below(ROWS as usize) * DIMENSION..][..DIMENSION];
        // A row moves to another shard, and so to a part of another moment, every third time.
        let shard = ((id + version / 3) % SHARDS) as u16;
        let row = Row { id, version, code: 0, shard, vector, fields: Default::default() };
        match random.below(5) {
            0 if version > 1 => drop(writer.delete(id, version).expect("a delete")),
            _ => drop(writer.upsert(&row).expect("a good row")),
        }
    };
    (0..ROWS).for_each(|id| change(&mut writer, id, 1));
    writer.checkpoint().expect("an image");
    let first = copy(&mut writer);
    let mut old = open(first.path(), &settings);
    let mut begun = 0;
    for turn in 2..60 {
        for id in (turn * 7 % 50..ROWS).step_by(50) {
            change(&mut writer, id, turn);
        }
        writer.commit().expect("a commit");
        let state = copy(&mut writer);
        assert!(catch_up(&mut old, &feed), "turn {turn}");
        assert!(rows(&old) == rows(&writer), "turn {turn}");
        if parts(&writer) > 1 && turn % 5 == 0 {
            begun += 1;
            let new = open(state.path(), &settings);
            let beside = Engine::open_read_only(dir.path()).expect("its rows");
            assert!(rows(&new) == rows(&writer) && rows(&beside) == rows(&writer), "turn {turn}");
            for mut follower in [new, beside] {
                (100..200).for_each(|id| change(&mut writer, id, turn));
                writer.commit().expect("a commit");
                assert!(catch_up(&mut follower, &feed), "turn {turn}");
                assert!(rows(&follower) == rows(&writer), "turn {turn}");
                assert_eq!(follower.sequence(), writer.sequence());
            }
        }
    }
    assert!(begun > 5, "{begun} followers began with parts");
}
