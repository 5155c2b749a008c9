//! Policy `cells`, and what every plan must keep to.

use super::boundary;
use super::layout::Layout;
use crate::cells::{self, LiveSample, Retraining, Target};
use crate::error::RouteError;
use crate::template::{Encoder, Inner, Template};
use std::sync::Arc;

/// A plan must take this off the deviation of the loads, in units of the mean, or it is none.
const GAIN_MIN: f64 = 0.02;
/// A cell without load weighs this share of the mean cell, so that it stays where it is.
const LEAST_LOAD: f64 = 1e-6;

/// How boundaries are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Single cells from the fullest partitions to the emptiest.
    Cells,
    /// Right boundaries between neighbouring partitions, as in the VStream paper.
    Boundary,
}

/// What a plan must keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebalance {
    /// Number of partitions, `1..=shards`.
    pub parallelism: u32,
    /// How boundaries are chosen.
    pub policy: Policy,
    /// Load of the fullest partition over the mean at which something is done, above `target`.
    pub trigger: f64,
    /// Ratio that is good enough, at least 1.
    pub target: f64,
    /// Share of the whole load that one plan may move, above 0; one cell may always move.
    pub moved_max: f64,
}

impl Rebalance {
    /// Acts above 1.15 times the mean, stops at 1.05, moves at most half of all load at once.
    pub fn new(parallelism: u32) -> Rebalance {
        Rebalance {
            parallelism,
            policy: Policy::Cells,
            trigger: 1.15,
            target: 1.05,
            moved_max: 0.5,
        }
    }

    fn validate(&self, shards: u16) -> Result<(), RouteError> {
        if !(1..=u32::from(shards)).contains(&self.parallelism) {
            return Err(RouteError::invalid(format!(
                "The parallelism is {}: set it between 1 and the number of shards, {shards}.",
                self.parallelism
            )));
        }
        if !(self.target >= 1.0 && self.trigger > self.target && self.moved_max > 0.0) {
            return Err(RouteError::invalid(
                "A rebalance needs a target of at least 1, a trigger above it, and a share above \
                 0 that it may move.",
            ));
        }
        Ok(())
    }
}

/// What a retraining keeps to, beside the limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrainSettings {
    /// When and how cells move.
    pub limits: Rebalance,
    /// Share of the true neighbours that the visited partitions must hold, in `(0, 1]`.
    pub recall_target: f32,
    /// Seed of all chance.
    pub seed: u64,
}

/// A new template and what it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The template, one epoch later.
    pub template: Template,
    /// Load of the fullest partition over the mean, as it is.
    pub before: f64,
    /// The same once the rows have moved.
    pub after: f64,
    /// Share of the whole load that changes partition.
    pub moved: f64,
}

impl Template {
    /// Plans the next template for these loads; `None` if the present one is good enough or no other
    /// is better by much.
    ///
    /// * `loads`: what each of [`Template::cells`] costs, in any unit, finite and not negative.
    /// * `rows`: rows that each cell holds, likewise: queries expect their answers accordingly.
    ///
    /// Cost: O(cells · moved cells + cells · shards). Errors: `Invalid` for numbers that cannot be, or
    /// a template that cannot be changed: it has no cells, or an older version wrote it.
    pub fn rebalance(
        &self,
        loads: &[f64],
        rows: &[f64],
        limits: &Rebalance,
    ) -> Result<Option<Plan>, RouteError> {
        let cells = self.cells_to_plan(loads, rows, limits)?;
        if cells.neighbor_counts.by_cell.is_empty() {
            return Err(RouteError::invalid(
                "An older version wrote this template: its ranges stay as they are.",
            ));
        }
        let loads = with_least_load(loads);
        let before = Layout::of_template(self, cells, &loads, limits.parallelism);
        let Some(after) = better_layout(cells, &before, limits) else { return Ok(None) };
        let with_shards = cells.with_shards(&after.shard_of_cell, rows);
        self.plan(with_shards, &before, &after).map(Some)
    }

    /// Plans the next template from what lives now: cells that have grown too large are split, where
    /// neighbours are is learned anew, and cells move if the load asks for it. Nothing may have to
    /// move; the plan is the next epoch all the same.
    ///
    /// Codes of rows stay what they are. Of a cell that is split its older rows stay together.
    ///
    /// * `live`: an even sample of the rows, two for each cell at least.
    /// * `loads`, `rows`: as in [`Template::rebalance`], rows as they are counted.
    /// * `recall_target`: as that of the encoder, in `(0, 1]`.
    /// * `seed`: of all chance in it.
    ///
    /// Cost: O(rows · root cells · dimension), held-out rows times rows, and for the rows of split cells
    /// what training costs: some tenths of a second for 8,000 rows of 100 dimensions and 1,024 cells.
    /// Errors: `Invalid` for numbers or rows that cannot be, or a template without cells.
    pub fn retrain(
        &self,
        live: &LiveSample<'_>,
        loads: &[f64],
        rows: &[f64],
        settings: &RetrainSettings,
    ) -> Result<Plan, RouteError> {
        let inner = &*self.inner;
        let RetrainSettings { limits, recall_target, seed } = *settings;
        let cells = self.cells_to_plan(loads, rows, &limits)?;
        if !(recall_target > 0.0 && recall_target <= 1.0) {
            return Err(RouteError::invalid(format!(
                "The encoder's recall target is {recall_target}: set it above 0 and at most 1."
            )));
        }
        let mut retraining = Retraining::new(cells, &inner.space, live, seed)?;
        let shard_of = |code| self.shard_of(code);
        let retrained = retraining.run(cells, shard_of, rows, limits.parallelism);
        // What a cell had stays with its first part: the rows do, and of the work nothing is known.
        let starts = retrained.cells.starts.iter();
        let loads: Vec<f64> = starts.map(|start| cells.value_at_start(*start, loads)).collect();
        let loads = with_least_load(&loads);
        let before = Layout::of_template(self, &retrained.cells, &loads, limits.parallelism);
        let after =
            better_layout(&retrained.cells, &before, &limits).unwrap_or_else(|| before.clone());
        let target = Target { recall_target, parallelism: limits.parallelism };
        let cut = retraining.calibrate(&retrained, &after.shard_of_cell, target);
        self.plan(cut, &before, &after)
    }

    /// The cells of this template, if it and the numbers allow for a plan.
    fn cells_to_plan(
        &self,
        loads: &[f64],
        rows: &[f64],
        limits: &Rebalance,
    ) -> Result<&cells::Cells, RouteError> {
        limits.validate(self.inner.shards)?;
        let Encoder::Cells(cells) = &self.inner.encoder else {
            return Err(RouteError::invalid(
                "Only the encoder cells has ranges that can change hands.",
            ));
        };
        for (name, numbers) in [("loads", loads), ("rows", rows)] {
            if numbers.len() != cells.len() || !numbers.iter().all(|x| x.is_finite() && *x >= 0.0) {
                return Err(RouteError::invalid(format!(
                    "A plan needs finite {name}, 0 or more, one for each of the {} cells.",
                    cells.len()
                )));
            }
        }
        Ok(cells)
    }

    /// The next epoch, with these cells in this layout.
    fn plan(
        &self,
        cells: cells::Cells,
        before: &Layout,
        after: &Layout,
    ) -> Result<Plan, RouteError> {
        let inner = &*self.inner;
        let ranges = cells::ranges(&cells.starts, &after.shard_of_cell, inner.shards)?;
        let template = Template {
            inner: Arc::new(Inner {
                epoch: inner.epoch + 1,
                shards: inner.shards,
                space: inner.space,
                encoder: Encoder::Cells(cells),
                ranges,
            }),
        };
        let (moved, ratio) = (after.moved_since(before), after.ratio());
        Ok(Plan { template, before: before.ratio(), after: ratio, moved })
    }
}

/// Loads without zeros: a cell without load stays where it is.
fn with_least_load(loads: &[f64]) -> Vec<f64> {
    let total: f64 = loads.iter().sum();
    let idle = (total / loads.len() as f64).max(f64::MIN_POSITIVE) * LEAST_LOAD;
    loads.iter().map(|load| load.max(idle)).collect()
}

/// A better layout, if the present one is not good enough and another is better by much.
fn better_layout<'a>(
    cells: &cells::Cells,
    before: &Layout<'a>,
    limits: &Rebalance,
) -> Option<Layout<'a>> {
    if before.ratio() <= limits.trigger {
        return None;
    }
    let after = match limits.policy {
        Policy::Cells => move_cells(cells, before.clone(), limits),
        Policy::Boundary => boundary::shift(before, limits),
    };
    let gain = before.deviation() - after.deviation();
    (gain >= GAIN_MIN && after.ratio() <= before.ratio()).then_some(after)
}

/// Steps 2 and 3 of policy `cells`.
fn move_cells<'a>(cells: &cells::Cells, mut layout: Layout<'a>, limits: &Rebalance) -> Layout<'a> {
    let mean = layout.mean();
    let budget = limits.moved_max * mean * layout.partitions.len() as f64;
    // The first cell may be larger than the budget: else one hot cell would block every plan.
    let mut left = f64::INFINITY;
    let mut moved = vec![false; layout.loads.len()];
    loop {
        let by_load =
            |&a: &usize, &b: &usize| layout.partitions[a].total_cmp(&layout.partitions[b]);
        let all = 0..layout.partitions.len();
        let (Some(full), Some(empty)) = (all.clone().max_by(by_load), all.min_by(by_load)) else {
            return layout;
        };
        let (surplus, room) = (layout.partitions[full] - mean, mean - layout.partitions[empty]);
        if layout.partitions[full] <= limits.target * mean {
            return layout;
        }
        let fits = surplus.min(room).min(left);
        let halves = (layout.partitions[full] - layout.partitions[empty]).min(left);
        let mut best: Option<(bool, f32, f64, usize)> = None;
        for cell in (0..moved.len()).filter(|&c| !moved[c] && layout.partition(c) == full) {
            let load = layout.loads[cell];
            if load >= halves {
                continue;
            }
            // What is too large for both may still help; then the smallest of them does least harm.
            let (good, size) = (load <= fits, if load <= fits { load } else { -load });
            let share =
                if good { neighbor_share(cells, cell, layout.shards_of(empty)) } else { 0.0 };
            let better = best.is_none_or(|(was, near, large, _)| {
                (good, share, size).partial_cmp(&(was, near, large))
                    == Some(std::cmp::Ordering::Greater)
            });
            if better {
                best = Some((good, share, size, cell));
            }
        }
        let Some((_, _, _, cell)) = best else { return layout };
        moved[cell] = true;
        left = left.min(budget) - layout.loads[cell];
        layout.move_cell(cell, empty);
    }
}

/// Share of the answers to a cell's queries in these shards, by the present cut.
fn neighbor_share(cells: &cells::Cells, cell: usize, shards: std::ops::Range<usize>) -> f32 {
    let row = &cells.affinity[cell * usize::from(cells.shards)..][..usize::from(cells.shards)];
    let sum = |row: &[u8]| row.iter().map(|&a| f32::from(a)).sum::<f32>();
    sum(&row[shards]) / sum(row)
}
