//! Which rows live first, and which are replaced in each epoch: a function of the seed.

use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

use super::RowFile;
use crate::runbook::RunbookError;

/// Clusters that a skewed plan divides the rows into.
const CLUSTERS: usize = 64;
/// Clusters that lose rows at a time, and that gain rows.
const TOGETHER: usize = 4;
/// Rows that the clusters are learned from.
const SAMPLE: usize = 20_000;

/// Which rows are replaced by which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Live rows end by chance, and any of the unused rows come.
    Uniform,
    /// Rows end cluster by cluster, four clusters at a time, and others come in the same way, so the
    /// distribution moves away from where it began.
    Skewed,
}

impl Order {
    /// `uniform` or `skewed`.
    pub fn name(self) -> &'static str {
        match self {
            Order::Uniform => "uniform",
            Order::Skewed => "skewed",
        }
    }
}

impl std::str::FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "uniform" => Ok(Order::Uniform),
            "skewed" => Ok(Order::Skewed),
            _ => Err(format!("'{text}' is no order: choose uniform or skewed")),
        }
    }
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct PlanSettings {
    /// Rows that live at every epoch's end, at least 1.
    pub rows: usize,
    /// Epochs; 0: the rows are not replaced.
    pub epochs: usize,
    /// Share of the rows that an epoch replaces, above 0 and at most 0.5.
    pub share: f64,
    /// See [`Order`].
    pub order: Order,
    /// Seed of every choice.
    pub seed: u64,
}

impl PlanSettings {
    /// Rows that an epoch replaces, at least one.
    pub fn change(&self) -> usize {
        ((self.rows as f64 * self.share).round() as usize).max(1)
    }

    /// Rows that live at any time.
    pub fn total(&self) -> usize {
        self.rows + self.epochs * self.change()
    }
}

/// Rows by their number in the data, which is their id as well. A row lives at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are inserted.
    pub first: Vec<u32>,
    /// Per epoch the rows that end, and as many that come.
    pub epochs: Vec<(Vec<u32>, Vec<u32>)>,
}

impl Plan {
    /// Makes a plan over the first `settings.total()` rows of `data`; neighbours stand in for those
    /// that the file lacks. Cost: the rows are read once if the order is skewed. Errors: `BadRequest` for
    /// settings outside of their ranges; those of reading.
    pub fn make(data: &RowFile, settings: &PlanSettings) -> Result<Plan, RunbookError> {
        let PlanSettings { rows, share, order, seed, .. } = *settings;
        if rows == 0 || !(share > 0.0 && share <= 0.5) {
            return Err(RunbookError::BadRequest(format!(
                "A plan of {rows} rows that replaces {share} of them per epoch cannot be made. Use \
                 at least one row and a share above 0 and at most 0.5."
            )));
        }
        if u32::try_from(settings.total()).is_err() {
            let total = settings.total();
            return Err(RunbookError::BadRequest(format!(
                "The plan has {total} rows in all. Lower --rows or --epochs: 4,294,967,295 at most."
            )));
        }
        let mut random = SplitMix(seed);
        match order {
            Order::Uniform => Ok(uniform(settings, &mut random)),
            Order::Skewed => Ok(skewed(settings, clustered(data, settings, &mut random)?, random)),
        }
    }
}

pub(super) fn shuffle(rows: &mut [u32], random: &mut SplitMix) {
    for at in (1..rows.len()).rev() {
        rows.swap(at, random.below(at + 1));
    }
}

fn uniform(settings: &PlanSettings, random: &mut SplitMix) -> Plan {
    let mut order: Vec<u32> = (0..settings.total() as u32).collect();
    shuffle(&mut order, random);
    let (first, unused) = order.split_at(settings.rows);
    let mut live = first.to_vec();
    let mut epochs = Vec::with_capacity(settings.epochs);
    for came in unused.chunks_exact(settings.change()) {
        let ended = (0..came.len()).map(|_| live.swap_remove(random.below(live.len()))).collect();
        live.extend_from_slice(came);
        epochs.push((ended, came.to_vec()));
    }
    Plan { first: first.to_vec(), epochs }
}

/// A window moves over rows in the order of their clusters.
fn skewed(settings: &PlanSettings, clustered: Vec<u32>, mut random: SplitMix) -> Plan {
    let change = settings.change();
    let mut first = clustered[..settings.rows].to_vec();
    shuffle(&mut first, &mut random);
    let pair = |epoch: usize| {
        let (end, new) = (epoch * change, settings.rows + epoch * change);
        (clustered[end..end + change].to_vec(), clustered[new..new + change].to_vec())
    };
    Plan { first, epochs: (0..settings.epochs).map(pair).collect() }
}

/// All rows, four clusters after the other four, by chance within these.
fn clustered(
    data: &RowFile,
    settings: &PlanSettings,
    random: &mut SplitMix,
) -> Result<Vec<u32>, RunbookError> {
    let (total, dimension) = (settings.total(), data.dimension());
    let mut row = vec![0.0; dimension];
    let mut sample = Vec::new();
    for _ in 0..total.min(SAMPLE) {
        data.read(random.below(total), &mut row)?;
        sample.extend_from_slice(&row);
    }
    let clusters = CLUSTERS.min(total);
    let of = KMeansSettings { clusters, iterations: 10, seed: settings.seed, balance: 0.0 };
    let found = KMeans::train(&sample, dimension, of);
    let mut turn: Vec<u32> = (0..found.sizes.len() as u32).collect();
    shuffle(&mut turn, random);
    let mut groups = vec![Vec::new(); turn.len().div_ceil(TOGETHER)];
    for at in 0..total {
        data.read(at, &mut row)?;
        let distance = |centroid: &[f32]| kernels::l2_squared(&row, centroid);
        let distances = found.centroids.chunks_exact(dimension).map(distance).enumerate();
        let nearest =
            distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(cluster, _)| cluster);
        groups[turn[nearest] as usize / TOGETHER].push(at as u32);
    }
    groups.iter_mut().for_each(|group| shuffle(group, random));
    Ok(groups.concat())
}
