//! Policy `cells`, and the checks of every plan.

use super::boundary;
use super::layout::Layout;
use crate::cells::{self, LiveSample, Retraining, Target};
use crate::error::RouteError;
use crate::template::{Encoder, Inner, Template};
use std::sync::Arc;

/// A plan must reduce the deviation of the loads by at least this much, in units of the mean.
pub(super) const GAIN_MIN: f64 = 0.02;
/// A cell without load counts with this share of the mean cell, so that it does not move.
const LEAST_LOAD: f64 = 1e-6;

/// How a plan chooses what moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Moves single cells from the fullest partitions to the emptiest.
    Cells,
    /// Shifts right boundaries between neighbouring partitions, as in the VStream paper.
    Boundary,
}

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebalance {
    /// Number of partitions, `1..=shards`.
    pub parallelism: u32,
    /// How the plan chooses what moves.
    pub policy: Policy,
    /// A plan is made if the fullest partition has more than this many times the mean load; above
    /// `target`.
    pub trigger: f64,
    /// Planning stops at this many times the mean load, at least 1.
    pub target: f64,
    /// Share of the whole load that one plan may move, above 0. A single cell may always move.
    pub moved_max: f64,
}

impl Rebalance {
    /// Plans above 1.15 times the mean load, stops at 1.05 and moves at most half of all load.
    pub fn new(parallelism: u32) -> Rebalance {
        Rebalance {
            parallelism,
            policy: Policy::Cells,
            trigger: 1.15,
            target: 1.05,
            moved_max: 0.5,
        }
    }

    pub(super) fn validate(&self, shards: u16) -> Result<(), RouteError> {
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

/// The settings of a retraining.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrainSettings {
    /// When cells move, and how many.
    pub limits: Rebalance,
    /// Share of the true neighbours that the visited partitions must hold, in `(0, 1]`.
    pub recall_target: f32,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A new template with the loads before and after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The template, with the next epoch.
    pub template: Template,
    /// Load of the fullest partition divided by the mean, before the move.
    pub before: f64,
    /// The same after the move.
    pub after: f64,
    /// Share of the whole load that changes its partition.
    pub moved: f64,
}

impl Template {
    /// Plans the next template for these loads. `None` if the present template is balanced well
    /// enough or no other one is much better.
    ///
    /// * `loads`: load of each of [`Template::cells`], in any unit, finite and not negative.
    /// * `rows`: rows of each cell, finite and not negative. Queries expect their neighbours in
    ///   proportion to them.
    ///
    /// Cost: O(cells · moved cells + cells · shards). Errors: `Invalid` for wrong numbers, for a
    /// template without cells, and for a template that version 1 wrote, which cannot change.
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

    /// Plans the next template from the rows that are stored now. The plan splits cells that have
    /// grown too large, learns where neighbours are now, and moves cells if the loads call for it.
    /// The plan has a new epoch even if nothing moves.
    ///
    /// Stored rows keep their codes. The older rows of a split cell stay together.
    ///
    /// * `live`: an even sample of the stored rows, at least two for each cell.
    /// * `loads`, `rows`: as in [`Template::rebalance`].
    /// * `settings`: the recall target is that of the encoder, in `(0, 1]`.
    ///
    /// Cost: O(rows · root cells · dimension), held-out rows times rows, and the cost of training
    /// for the rows of split cells. For 8,000 rows of 100 dimensions and 1,024 cells that is some
    /// tenths of a second. Errors: `Invalid` for wrong numbers or rows, and for a template without
    /// cells.
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
        // A split cell passes its whole load on to its first subcell: the rows are there, and the
        // load of the second one is not known yet.
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

    /// The cells of this template, after the limits and the numbers are checked.
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

    /// Builds the template of the next epoch from these cells and this layout.
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

/// Replaces zero loads by a very small one, so that cells without load do not move.
pub(super) fn with_least_load(loads: &[f64]) -> Vec<f64> {
    let total: f64 = loads.iter().sum();
    let idle = (total / loads.len() as f64).max(f64::MIN_POSITIVE) * LEAST_LOAD;
    loads.iter().map(|load| load.max(idle)).collect()
}

/// Finds a better layout. `None` if the present one is good enough or no other is much better.
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
    // The first cell may exceed the budget. Otherwise one hot cell would block every plan.
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
            // A cell that is too large for both partitions may still help. Of such cells the
            // smallest one moves.
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

/// Share of the neighbours of a cell's queries that these shards hold now.
fn neighbor_share(cells: &cells::Cells, cell: usize, shards: std::ops::Range<usize>) -> f32 {
    let row = &cells.affinity[cell * usize::from(cells.shards)..][..usize::from(cells.shards)];
    let sum = |row: &[u8]| row.iter().map(|&a| f32::from(a)).sum::<f32>();
    sum(&row[shards]) / sum(row)
}
