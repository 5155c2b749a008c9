//! Plans over random loads.

use super::{Policy, Rebalance};
use crate::partition::partition_of_shard;
use crate::{EncoderSpec, RouteErrorKind, RouteSettings, Template};
use proptest::prelude::*;
use std::sync::OnceLock;
use vstream_vector::{Metric, SplitMix};

const CELLS: usize = 64;
const SHARDS: u16 = 32;

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let settings = RouteSettings {
            encoder: EncoderSpec::Cells { cells: CELLS, recall_target: 0.9 },
            dimension: 4,
            metric: Metric::L2,
            shards: SHARDS,
            seed: 5,
        };
        let mut random = SplitMix(3);
        let sample: Vec<f32> = (0..1200 * 4).map(|_| random.normal()).collect();
        Template::train(&settings, &sample, 1).expect("the sample is good")
    })
}

/// Codes at which something may change, and some in between.
fn codes() -> Vec<u64> {
    let step = u64::MAX / (4 * CELLS as u64);
    (0..=4 * CELLS as u64).flat_map(|i| [i * step, (i * step).saturating_sub(1)]).collect()
}

/// Load of the fullest partition over the mean.
fn ratio(template: &Template, loads: &[f64], parallelism: u32) -> f64 {
    let mut partitions = vec![0.0; parallelism as usize];
    for (cell, load) in loads.iter().enumerate() {
        let shard = template.shard_of((cell as u64) << (64 - CELLS.trailing_zeros()));
        partitions[partition_of_shard(shard, SHARDS, parallelism) as usize] += load;
    }
    let total: f64 = partitions.iter().sum();
    partitions.iter().copied().fold(0.0, f64::max) * f64::from(parallelism) / total
}

fn loads() -> impl Strategy<Value = Vec<f64>> {
    // Many even loads, some with hot cells, some with idle ones.
    let one = prop_oneof![3 => 0.5..2.0f64, 1 => 0.0..20.0f64, 1 => Just(0.0)];
    prop::collection::vec(one, CELLS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn plans_level_the_load_and_then_rest(
        loads in loads(),
        parallelism in 1u32..9,
        boundary in any::<bool>(),
        moved_max in 0.05..1.0f64,
    ) {
        let policy = if boundary { Policy::Boundary } else { Policy::Cells };
        let limits = Rebalance { policy, moved_max, ..Rebalance::new(parallelism) };
        let mut template = template().clone();
        let mut rounds = 0;
        while let Some(plan) = template.rebalance(&loads, &loads, &limits).expect("good loads") {
            rounds += 1;
            prop_assert!(rounds < 50, "it never rests");
            prop_assert_eq!(plan.template.epoch(), template.epoch() + 1);
            let (before, after) = (
                ratio(&template, &loads, parallelism),
                ratio(&plan.template, &loads, parallelism),
            );
            prop_assert!((plan.before - before).abs() < 1e-3 && (plan.after - after).abs() < 1e-3);
            prop_assert!(after <= before + 1e-9);
            let largest = loads.iter().copied().fold(0.0, f64::max) / loads.iter().sum::<f64>();
            prop_assert!(plan.moved <= moved_max.max(largest) + 1e-3 || boundary);
            let moves = plan.template.moves_since(&template);
            for code in codes() {
                let hits: Vec<_> =
                    moves.iter().filter(|m| m.first <= code && code <= m.last).collect();
                let (from, to) = (template.shard_of(code), plan.template.shard_of(code));
                match hits[..] {
                    [] => prop_assert_eq!(from, to),
                    [hit] => prop_assert_eq!((hit.from, hit.to), (from, to)),
                    _ => prop_assert!(false, "code {} moves twice", code),
                }
            }
            let read = Template::from_bytes(&plan.template.to_bytes()).expect("its own bytes");
            prop_assert_eq!(&read, &plan.template);
            template = plan.template;
        }
        // Cells are never divided, so one of them may be too much for everyone else.
        let total: f64 = loads.iter().sum();
        let hottest = loads.iter().copied().fold(0.0, f64::max);
        let alone = hottest * f64::from(parallelism) / total.max(f64::MIN_POSITIVE);
        if !boundary && total > 0.0 {
            let reached = ratio(&template, &loads, parallelism);
            prop_assert!(reached <= (1.2f64).max(1.02 + alone), "{reached}, {alone}");
        }
    }
}

#[test]
fn a_hot_quarter_is_spread_over_all_partitions() {
    let loads: Vec<f64> = (0..CELLS).map(|cell| if cell < 16 { 10.0 } else { 1.0 }).collect();
    for policy in [Policy::Cells, Policy::Boundary] {
        let limits = Rebalance { policy, moved_max: 1.0, ..Rebalance::new(4) };
        let plan = template().rebalance(&loads, &loads, &limits).expect("good loads");
        let plan = plan.expect("there is something to do");
        assert!(plan.before > 2.0 && plan.after < 1.3, "{policy:?}: {plan:?}");
    }
}

#[test]
fn moving_cells_moves_no_more_than_the_surplus() {
    let loads: Vec<f64> = (0..CELLS).map(|cell| if cell < 16 { 4.0 } else { 1.0 }).collect();
    let limits = Rebalance::new(4);
    let plan = template().rebalance(&loads, &loads, &limits).expect("good loads").expect("a plan");
    let mean = loads.iter().sum::<f64>() / 4.0;
    let shards = |cell: usize| template().shard_of((cell as u64) << 58);
    let mut partitions = [0.0; 4];
    for (cell, load) in loads.iter().enumerate() {
        partitions[partition_of_shard(shards(cell), SHARDS, 4) as usize] += load;
    }
    let surplus: f64 = partitions.iter().map(|load| (load - mean).max(0.0)).sum();
    assert!(plan.moved <= surplus / (4.0 * mean) + 0.02, "{} of {surplus}", plan.moved);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let limits = Rebalance::new(2);
    let refused = |template: &Template, loads: &[f64], limits: &Rebalance| {
        let error = template.rebalance(loads, loads, limits).expect_err("it cannot be");
        assert_eq!(error.kind(), RouteErrorKind::Invalid);
    };
    refused(template(), &[1.0; CELLS - 1], &limits);
    refused(template(), &[f64::NAN; CELLS], &limits);
    refused(template(), &[-1.0; CELLS], &limits);
    refused(template(), &[1.0; CELLS], &Rebalance::new(0));
    refused(template(), &[1.0; CELLS], &Rebalance { trigger: 1.0, ..limits });
    let by_id = RouteSettings {
        encoder: EncoderSpec::Id,
        dimension: 4,
        metric: Metric::L2,
        shards: SHARDS,
        seed: 5,
    };
    refused(&Template::unplaced(&by_id), &[], &limits);
    let idle = template().rebalance(&[0.0; CELLS], &[0.0; CELLS], &limits).expect("no load");
    assert!(idle.is_none_or(|plan| plan.after <= plan.before));
}
