//! Boundaries of an `lsh` template that follow the load, as in section 3.3 of the VStream paper.
//!
//! 1. Cut the line at [`INTERVALS`] even positions and at the present boundaries. The pieces are
//!    the *intervals*, in which load is counted. Each one belongs to exactly one shard.
//! 2. Shift the boundaries between partitions as policy `boundary` does for cells.
//!
//! Only templates of one family have intervals. With several families, the shards of a row's copies
//! decide which copies exist: a copy that meets another one in a shard is left out. So a shifted
//! boundary would have to make and remove copies, and not only hand them over.

use super::boundary;
use super::layout::Layout;
use super::plan::{with_least_load, Plan, Rebalance, GAIN_MIN};
use crate::cells;
use crate::error::RouteError;
use crate::template::{Encoder, Inner, Template};
use std::sync::Arc;

/// Number of even intervals. Each has 2^52 codes.
const INTERVALS: u64 = 4096;

impl Template {
    /// First code of each interval in which the load of an `lsh` template is counted, ascending
    /// from 0. They change with the boundaries, so with the epoch. Empty for another encoder and
    /// for several families.
    ///
    /// Cost: O(intervals).
    pub fn interval_starts(&self) -> Vec<u64> {
        if !matches!(self.inner.encoder, Encoder::Lsh(_)) || !self.is_movable() {
            return Vec::new();
        }
        let even = (0..INTERVALS).map(|number| number * (1 << 52));
        let mut starts: Vec<u64> = even.collect();
        starts.extend(self.inner.ranges.pairs().map(|(start, _)| start));
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Plans the next `lsh` template for these loads. `None` if the present template is balanced
    /// well enough or no other one is much better. The codes of all rows stay.
    ///
    /// * `loads`: load of each of [`Template::interval_starts`], in any unit, finite and not
    ///   negative.
    /// * `limits`: the policy is always `boundary`.
    ///
    /// Cost: O(intervals · partitions). Errors: `Invalid` for wrong numbers, for another encoder
    /// and for several families.
    pub fn shift_boundaries(
        &self,
        loads: &[f64],
        limits: &Rebalance,
    ) -> Result<Option<Plan>, RouteError> {
        let inner = &*self.inner;
        limits.validate(inner.shards)?;
        let starts = self.interval_starts();
        if starts.is_empty() {
            return Err(RouteError::invalid(
                "Only an lsh template with one family has boundaries that can shift: set families \
                 to 1.",
            ));
        }
        if loads.len() != starts.len() || !loads.iter().all(|x| x.is_finite() && *x >= 0.0) {
            return Err(RouteError::invalid(format!(
                "A plan needs finite loads, 0 or more, one for each of the {} intervals.",
                starts.len()
            )));
        }
        let loads = with_least_load(loads);
        let shards = starts.iter().map(|&start| self.shard_of(start)).collect();
        let before = Layout::new(&loads, inner.shards, limits.parallelism, shards);
        if before.ratio() <= limits.trigger {
            return Ok(None);
        }
        let after = boundary::shift(&before, limits);
        if before.deviation() - after.deviation() < GAIN_MIN || after.ratio() > before.ratio() {
            return Ok(None);
        }
        let ranges = cells::ranges(&starts, &after.shard_of_cell, inner.shards)?;
        let template = Template {
            inner: Arc::new(Inner {
                epoch: inner.epoch + 1,
                shards: inner.shards,
                space: inner.space,
                encoder: inner.encoder.clone(),
                ranges,
            }),
        };
        let (moved, ratio) = (after.moved_since(&before), after.ratio());
        Ok(Some(Plan { template, before: before.ratio(), after: ratio, moved }))
    }
}

#[cfg(test)]
mod tests {
    use crate::{partition_of_shard, Curve, EncoderSpec, Rebalance, RouteSettings, Template};
    use proptest::prelude::*;
    use vstream_vector::{Metric, SplitMix};

    const DIMENSION: usize = 4;
    const SHARDS: u16 = 32;

    fn template(curve: Curve, families: usize) -> Template {
        let encoder = EncoderSpec::Lsh { curve, families, hashes: 4, width: 0.1, bits: 8 };
        let settings = RouteSettings {
            encoder,
            dimension: DIMENSION,
            metric: Metric::L2,
            shards: SHARDS,
            seed: 5,
        };
        Template::train(&settings, &rows(1200, 0.0, 3), 1).expect("the sample is good")
    }

    fn rows(count: usize, drift: f32, seed: u64) -> Vec<f32> {
        let mut random = SplitMix(seed);
        (0..count * DIMENSION).map(|_| random.normal() + drift).collect()
    }

    fn codes(template: &Template, rows: &[f32]) -> Vec<u64> {
        let mut places = Vec::new();
        let code = |row| {
            template.place(0, row, &mut places).expect("a good row");
            places[0].code
        };
        rows.chunks_exact(DIMENSION).map(code).collect()
    }

    fn loads(template: &Template, codes: &[u64]) -> Vec<f64> {
        let starts = template.interval_starts();
        let mut loads = vec![0.0; starts.len()];
        codes.iter().for_each(|code| loads[starts.partition_point(|s| s <= code) - 1] += 1.0);
        loads
    }

    /// Rows of the fullest partition over the mean.
    fn ratio(template: &Template, codes: &[u64], parallelism: u32) -> f64 {
        let mut partitions = vec![0.0f64; parallelism as usize];
        for &code in codes {
            let shard = template.shard_of(code);
            partitions[partition_of_shard(shard, SHARDS, parallelism) as usize] += 1.0;
        }
        let fullest = partitions.iter().copied().fold(0.0, f64::max);
        fullest * f64::from(parallelism) / codes.len() as f64
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn boundaries_follow_drifting_rows_and_every_code_keeps_one_shard(
            drift in 0.0..0.7f32, seed in any::<u64>(), parallelism in 2u32..6, curve in 0usize..5,
        ) {
            let old = template(Curve::ALL[curve], 1);
            let rows = rows(2000, drift, seed);
            let codes = codes(&old, &rows);
            let limits = Rebalance { moved_max: 1.0, ..Rebalance::new(parallelism) };
            let before = ratio(&old, &codes, parallelism);
            let Some(plan) = old.shift_boundaries(&loads(&old, &codes), &limits).expect("good loads")
            else { return Ok(()) };
            let new = plan.template;
            prop_assert_eq!(new.epoch(), old.epoch() + 1);
            prop_assert!(ratio(&new, &codes, parallelism) <= before);
            prop_assert!((plan.after - ratio(&new, &codes, parallelism)).abs() < 1e-3);
            prop_assert_eq!(&Template::from_bytes(&new.to_bytes()).expect("good bytes"), &new);
            let moves = new.moves_since(&old);
            let mut probes = codes.clone();
            probes.extend(moves.iter().flat_map(|m| {
                [m.first, m.last, m.first.saturating_sub(1), m.last.saturating_add(1)]
            }));
            for code in probes {
                let held: Vec<_> =
                    moves.iter().filter(|m| (m.first..=m.last).contains(&code)).collect();
                let expected = (old.shard_of(code), new.shard_of(code));
                match held[..] {
                    [] => prop_assert_eq!(expected.0, expected.1),
                    [one] => prop_assert_eq!((one.from, one.to), expected),
                    _ => prop_assert!(false, "two moves hold the code {code}"),
                }
            }
        }
    }

    #[test]
    fn drifting_rows_are_level_after_a_shift() {
        let old = template(Curve::Hilbert, 1);
        let codes = codes(&old, &rows(20_000, 0.5, 9));
        let limits = Rebalance { moved_max: 1.0, ..Rebalance::new(4) };
        let plan = old.shift_boundaries(&loads(&old, &codes), &limits).expect("good loads");
        let new = plan.expect("the rows have drifted").template;
        let (before, after) = (ratio(&old, &codes, 4), ratio(&new, &codes, 4));
        println!("max/mean {before:.2} before, {after:.2} after");
        assert!(before > 1.15 && after < 1.1, "max/mean {before} before, {after} after");
        let rest = new.shift_boundaries(&loads(&new, &codes), &limits).expect("good loads");
        assert!(rest.is_none(), "a steady load moves once");
    }

    #[test]
    fn several_families_are_refused() {
        let template = template(Curve::Hilbert, 2);
        assert!(template.interval_starts().is_empty());
        let error = template.shift_boundaries(&[], &Rebalance::new(2)).expect_err("two families");
        assert!(error.message().contains("set families to 1"), "{error}");
    }
}
