use super::age::{oldest_first, SEGMENTS_MAX};
use super::{choose, Size, ROWS_MIN};
use crate::settings::DeleteOrder;
use vstream_vector::SplitMix;

fn by_size(sizes: &[Size]) -> Vec<usize> {
    choose(sizes, &|_| true, DeleteOrder::Any, u64::MAX)
}

fn live(rows: u64) -> Size {
    Size { rows, dead: 0 }
}

#[test]
fn four_of_a_class_are_merged_the_smallest_first() {
    assert!(by_size(&[]).is_empty());
    assert!(by_size(&[live(500), live(600), live(700)]).is_empty());
    assert_eq!(by_size(&[live(500), live(600), live(700), live(0)]), [0, 1, 2, 3]);
    let sizes = [90_000, 70_000, 5_000, 80_000, 5_000, 6_000, 65_536, 7_000].map(live);
    assert_eq!(by_size(&sizes), [2, 4, 5, 7]);
    let mixed = [live(1_000_000), live(70_000), live(2_000), live(5_000)];
    assert!(by_size(&mixed).is_empty());
    assert_eq!(by_size(&[live(100); 20]).len(), 8);
}

#[test]
fn a_segment_of_the_dead_goes_first() {
    let worn = Size { rows: 1_000, dead: 501 };
    assert_eq!(by_size(&[live(1), live(1), live(1), live(1), worn]), [4]);
    assert!(by_size(&[Size { rows: 1_000, dead: 500 }]).is_empty());
}

#[test]
fn what_does_not_fit_one_segment_is_not_merged() {
    let chosen = |sizes: &[Size], order| choose(sizes, &|_| true, order, 1 << 31);
    let large = [live(900 << 20); 6];
    assert_eq!(chosen(&large, DeleteOrder::Any), [0, 1]);
    assert!(chosen(&[live(1_100 << 20); 6], DeleteOrder::Any).is_empty());
    // The largest cannot grow any more; the smaller ones are merged all the same.
    let mixed: Vec<Size> = large.map(|_| live(1_100 << 20)).into_iter().collect();
    let mixed: Vec<Size> = mixed.into_iter().chain([live(5_000); 4]).collect();
    assert_eq!(chosen(&mixed, DeleteOrder::Any), [6, 7, 8, 9]);
    let many = [live(400 << 20); 64];
    let found = chosen(&many, DeleteOrder::OldestFirst);
    assert!(found.iter().map(|&at| many[at].live_rows()).sum::<u64>() <= 1 << 31, "{found:?}");
}

#[test]
fn segments_that_are_not_free_stay_and_the_others_go_on() {
    let sizes = [live(500); 9];
    let free = |at: usize| at != 1;
    assert_eq!(choose(&sizes, &free, DeleteOrder::Any, 1 << 31), [0, 2, 3, 4, 5, 6, 7, 8]);
    let worn = [live(500), Size { rows: 500, dead: 499 }];
    assert!(choose(&worn, &free, DeleteOrder::Any, 1 << 31).is_empty());
    // Neighbours in age that another keeps apart are not merged with each other.
    let found = choose(&[live(500); 40], &|at| at % 6 != 5, DeleteOrder::OldestFirst, 1 << 31);
    assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1) && !found.contains(&5));
}

#[test]
fn neighbours_in_age_are_merged_up_to_a_span() {
    assert!(oldest_first(&[]).is_empty());
    // 4 x 1,000 are more than an eighth of 20,000.
    assert!(oldest_first(&[live(1_000); 20]).is_empty());
    assert_eq!(oldest_first(&[live(1_000); 32]), [0, 1, 2, 3]);
    assert_eq!(oldest_first(&[live(1_000); 64]), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Small ones that a large one keeps apart are not neighbours.
    let apart = [9_000, 1_000, 1_000, 9_000, 1_000, 1_000, 9_000, 1_000, 9_000].map(live);
    assert!(oldest_first(&apart).is_empty());
    let beside = [9_000, 1_000, 9_000, 1_000, 1_000, 1_000, 1_000, 9_000, 9_000].map(live);
    assert_eq!(oldest_first(&beside), [3, 4, 5, 6]);
}

#[test]
fn what_ends_next_waits_for_its_end() {
    let whole = [live(10_000); 8];
    let with_oldest = |dead: &[u64]| {
        let oldest = dead.iter().map(|&dead| Size { rows: 10_000, dead });
        oldest.chain(whole).collect::<Vec<_>>()
    };
    assert!(oldest_first(&with_oldest(&[9_999])).is_empty());
    assert!(oldest_first(&with_oldest(&[9_999, 8_000])).is_empty());
    // Rows stay in three of them: more is gone than two spans.
    assert_eq!(oldest_first(&with_oldest(&[9_999, 9_999, 9_000])), [0, 1, 2]);
    // Younger ones that were worn out early do not wait.
    let mut early = whole;
    early[5].dead = 6_000;
    assert_eq!(oldest_first(&early), [5]);
}

#[test]
fn beyond_so_many_the_smallest_neighbours_are_merged() {
    // Large ones so far apart that eight neighbours are never three times as many.
    let mut sizes = [live(ROWS_MIN); SEGMENTS_MAX + 1];
    for at in (0..sizes.len()).step_by(4) {
        sizes[at] = live(2_000 * ROWS_MIN);
    }
    assert!(oldest_first(&sizes[..SEGMENTS_MAX]).is_empty());
    sizes[28] = live(1_000 * ROWS_MIN);
    assert_eq!(oldest_first(&sizes), [25, 26, 27, 28]);
}

/// Rows of a piece, the unit of the streams below.
const PIECE: u64 = 64;

/// A stream of rows that end some time.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Pieces of rows that are flushed together.
    flush: u64,
    /// Pieces that come while one lives.
    life: u64,
    /// Pieces by which its end may come later.
    late: u64,
    /// Of 100: pieces that are replaced before their end, at any time.
    replaced: u64,
    /// Of 1,000: pieces that never end.
    lasting: u64,
}

/// What a planner made of a stream.
#[derive(Debug, Default)]
struct Played {
    flushed: u64,
    /// Pieces written by merges.
    merged: u64,
    /// Pieces in segments that were dropped whole.
    dropped: u64,
    segments: usize,
    /// Pieces that are gone and still stored, over those that live: the mean after each flush.
    gone: f64,
}

impl Played {
    /// How often a row is written.
    fn amplification(&self) -> f64 {
        (self.flushed + self.merged) as f64 / self.flushed as f64
    }

    /// The share of rows whose space comes back without a merge.
    fn dropped(&self) -> f64 {
        self.dropped as f64 / self.flushed as f64
    }
}

/// Flushes the stream for six of its lives and lets `choose` plan after each. Segments are lists of
/// the times at which their pieces end.
fn play(stream: Stream, choose: fn(&[Size]) -> Vec<usize>, seed: u64) -> Played {
    let mut random = SplitMix(seed);
    let mut segments: Vec<Vec<u64>> = Vec::new();
    let mut played = Played::default();
    let flushes = stream.life * 6 / stream.flush;
    for flush in 1..=flushes {
        let now = flush * stream.flush;
        segments
            .push((now - stream.flush..now).map(|came| end(stream, came, &mut random)).collect());
        played.flushed += stream.flush;
        loop {
            let is_gone = |ends: &Vec<u64>| ends.iter().all(|&end| end <= now);
            let gone = segments.iter().filter(|&ends| is_gone(ends)).map(Vec::len);
            played.dropped += gone.sum::<usize>() as u64;
            segments.retain(|ends| !is_gone(ends));
            let size = |ends: &Vec<u64>| Size {
                rows: ends.len() as u64 * PIECE,
                dead: ends.iter().filter(|&&end| end <= now).count() as u64 * PIECE,
            };
            let chosen = choose(&segments.iter().map(size).collect::<Vec<_>>());
            let Some(&first) = chosen.first() else { break };
            let parts = chosen.iter().map(|&at| std::mem::take(&mut segments[at]));
            let merged: Vec<u64> = parts.flatten().filter(|&end| end > now).collect();
            played.merged += merged.len() as u64;
            segments[first] = merged;
            segments.retain(|ends| !ends.is_empty());
        }
        played.segments = played.segments.max(segments.len());
        let stored: usize = segments.iter().map(Vec::len).sum();
        let live = segments.iter().flatten().filter(|&&end| end > now).count();
        played.gone += (stored - live) as f64 / live as f64 / flushes as f64;
    }
    played
}

/// When a piece that came at that time ends.
fn end(stream: Stream, came: u64, random: &mut SplitMix) -> u64 {
    if (random.below(1_000) as u64) < stream.lasting {
        return u64::MAX;
    }
    if (random.below(100) as u64) < stream.replaced {
        return came + 1 + random.below(stream.life as usize) as u64;
    }
    came + stream.life + random.below(stream.late as usize + 1) as u64
}

/// Every row ends when its time has come, in the order of the stream or nearly so.
#[test]
fn under_a_time_to_live_segments_are_dropped_whole() {
    for flushes in [40, 100, 250, 500] {
        for (flush, late) in [(16, 0), (16, 16), (16, 64), (40, 20)] {
            let life = flushes * flush;
            let stream = Stream { flush, life, late, replaced: 0, lasting: 0 };
            let (by_age, by_size) = (play(stream, oldest_first, 7), play(stream, by_size, 7));
            let what = format!("{stream:?}: {by_age:?}, by size {by_size:?}");
            // Once by the flush and once per class up to a span.
            let classes = (flushes as f64 / 8.0).log(4.0);
            assert!(by_age.amplification() <= 1.2 + classes.max(0.0), "{what}");
            assert!(by_age.amplification() <= 0.75 * by_size.amplification(), "{what}");
            // But for those that live at the end.
            assert!(by_age.dropped() >= 0.8, "{what}");
            assert!(by_age.dropped() >= 2.0 * by_size.dropped(), "{what}");
            assert!(by_age.gone <= 0.15, "{what}");
            assert!(by_age.segments <= 48, "{what}");
        }
    }
}

/// Rows that are replaced early, and rows that never end, cost what they would cost otherwise.
#[test]
fn rows_out_of_order_keep_segments_few_and_full() {
    let mut random = SplitMix(11);
    for seed in 0..60 {
        let flush = 16 + random.below(48) as u64;
        let stream = Stream {
            flush,
            life: flush * (20 + random.below(300) as u64),
            late: random.below(200) as u64,
            replaced: random.below(101) as u64,
            lasting: random.below(30) as u64,
        };
        let (by_age, by_size) = (play(stream, oldest_first, seed), play(stream, by_size, seed));
        let what = format!("{stream:?}: {by_age:?}, by size {by_size:?}");
        assert!(by_age.segments <= SEGMENTS_MAX, "{what}");
        assert!(by_age.gone <= 0.7, "{what}");
        assert!(by_age.amplification() <= 1.1 * by_size.amplification(), "{what}");
    }
}
