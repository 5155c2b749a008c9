//! Seeded k-means (Lloyd), with an optional balance penalty.
//!
//! 1. Move the rows' mean to the origin, so that `|c|² − 2⟨x, c⟩` loses no precision.
//! 2. Start from a random sample of distinct rows.
//! 3. Assign each row to the centroid with the least `distance + λ · rows of that centroid`.
//! 4. Move each centroid to the mean of its rows. An empty one restarts at a row of the largest
//!    cluster.
//! 5. Repeat `iterations` times, or until no row changes its cluster.

#[cfg(test)]
mod tests;

use crate::kernels::{self, TILE_COLUMNS, TILE_ROWS};
use crate::random::SplitMix;

/// The settings of a k-means run.
#[derive(Clone, Copy, Debug)]
pub struct KMeansSettings {
    /// Number of centroids, ≥ 1. The result has fewer if there are fewer rows.
    pub clusters: usize,
    /// Largest number of Lloyd rounds, ≥ 1.
    pub iterations: usize,
    /// Seed of all random numbers in the run.
    pub seed: u64,
    /// Weight of the balance penalty: 0 for plain k-means, 1 for clusters of nearly equal size.
    pub balance: f32,
}

/// Centroids, and the assignment of the rows on which they were trained.
#[derive(Clone, Debug)]
pub struct KMeans {
    /// `clusters × dimension`, row-major.
    pub centroids: Vec<f32>,
    /// Cluster of each row.
    pub assignment: Vec<u32>,
    /// Rows of each cluster.
    pub sizes: Vec<u32>,
}

impl KMeans {
    /// Trains on `rows` (`n × dimension`, row-major, finite, n ≥ 1).
    ///
    /// Cost: O(iterations · n · clusters · dimension), 1.5 to 3 ns per row and centroid at 100
    /// dimensions with AVX-512, and one copy of the rows. Panics if `rows` is not a whole number of rows.
    pub fn train(rows: &[f32], dimension: usize, settings: KMeansSettings) -> KMeans {
        assert!(
            dimension > 0 && rows.len().is_multiple_of(dimension),
            "rows must be n × dimension"
        );
        let n = rows.len() / dimension;
        assert!(n > 0, "k-means needs at least one row");
        let clusters = settings.clusters.clamp(1, n);
        let mean = mean(rows, dimension);
        let mut centred = rows.to_vec();
        for row in centred.chunks_exact_mut(dimension) {
            row.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
        }
        let mut random = SplitMix(settings.seed);
        let mut training = Training {
            rows: &centred,
            dimension,
            balance: settings.balance,
            centroids: start(&centred, dimension, clusters, &mut random),
            assignment: vec![0; n],
            sizes: vec![0; clusters],
        };
        training.assign();
        for _ in 0..settings.iterations {
            training.update(&mut random);
            if !training.assign() {
                break;
            }
        }
        let Training { mut centroids, assignment, sizes, .. } = training;
        for centroid in centroids.chunks_exact_mut(dimension) {
            centroid.iter_mut().zip(&mean).for_each(|(x, m)| *x += m);
        }
        KMeans { centroids, assignment, sizes }
    }
}

/// Mean of `rows` (`n × dimension`, row-major), summed in double precision. Zeros if there are no
/// rows.
pub fn mean(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; dimension];
    for row in rows.chunks_exact(dimension) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let n = (rows.len() / dimension).max(1) as f64;
    sums.iter().map(|sum| (sum / n) as f32).collect()
}

fn start(rows: &[f32], dimension: usize, clusters: usize, random: &mut SplitMix) -> Vec<f32> {
    let n = rows.len() / dimension;
    let mut order: Vec<usize> = (0..n).collect();
    for i in 0..clusters {
        let j = i + random.below(n - i);
        order.swap(i, j);
    }
    let mut centroids = Vec::with_capacity(clusters * dimension);
    for &row in &order[..clusters] {
        centroids.extend_from_slice(&rows[row * dimension..(row + 1) * dimension]);
    }
    centroids
}

struct Training<'a> {
    rows: &'a [f32],
    dimension: usize,
    balance: f32,
    centroids: Vec<f32>,
    assignment: Vec<u32>,
    sizes: Vec<u32>,
}

impl Training<'_> {
    /// Assigns every row to a cluster. True if any row changed its cluster.
    fn assign(&mut self) -> bool {
        let clusters = self.sizes.len();
        let mut choice = Choice::new(self.assignment.len(), clusters, self.balance);
        let mut changed = false;
        let mut assign = |row: usize, costs: &mut [f32]| {
            let best = choice.choose(costs);
            changed |= self.assignment[row] != best as u32;
            self.assignment[row] = best as u32;
        };
        // With fewer centroids than half a tile, the empty lanes cost more than interleaving saves.
        if clusters < TILE_COLUMNS / 2 {
            let mut costs = vec![0.0f32; clusters];
            for (i, row) in self.rows.chunks_exact(self.dimension).enumerate() {
                kernels::l2_squared_batch(row, &self.centroids, &mut costs);
                assign(i, &mut costs);
            }
        } else {
            let columns = Columns::interleave(&self.centroids, self.dimension);
            let mut costs = vec![0.0f32; TILE_ROWS * columns.width()];
            for (tile, rows) in self.rows.chunks(self.dimension * TILE_ROWS).enumerate() {
                columns.costs(rows, &mut costs);
                let count = rows.len() / self.dimension;
                for (i, costs) in costs.chunks_exact_mut(columns.width()).take(count).enumerate() {
                    assign(tile * TILE_ROWS + i, &mut costs[..clusters]);
                }
            }
        }
        self.sizes = choice.sizes;
        changed
    }

    /// Moves every centroid to the mean of its rows.
    fn update(&mut self, random: &mut SplitMix) {
        let dimension = self.dimension;
        self.centroids.fill(0.0);
        for (row, &c) in self.rows.chunks_exact(dimension).zip(&self.assignment) {
            let centroid = &mut self.centroids[c as usize * dimension..][..dimension];
            centroid.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
        for (centroid, &size) in self.centroids.chunks_exact_mut(dimension).zip(&self.sizes) {
            if size > 0 {
                centroid.iter_mut().for_each(|x| *x /= size as f32);
            }
        }
        for c in 0..self.sizes.len() {
            if self.sizes[c] == 0 {
                let row = self.row_of_largest(random);
                let row = &self.rows[row * dimension..][..dimension];
                self.centroids[c * dimension..][..dimension].copy_from_slice(row);
            }
        }
    }

    /// A random row of the largest cluster.
    fn row_of_largest(&self, random: &mut SplitMix) -> usize {
        let (largest, &size) =
            self.sizes.iter().enumerate().max_by_key(|(_, &size)| size).expect("≥ 1 cluster");
        let wanted = random.below(size as usize);
        let members = self.assignment.iter().enumerate().filter(|(_, &c)| c as usize == largest);
        let (row, _) =
            members.into_iter().nth(wanted).expect("a cluster has as many rows as sized");
        row
    }
}

/// Centroids in tiles of interleaved columns, with their squared norms.
struct Columns {
    dimension: usize,
    /// Tile by tile, and within a tile dimension by dimension.
    columns: Vec<[f32; TILE_COLUMNS]>,
    norms: Vec<[f32; TILE_COLUMNS]>,
}

impl Columns {
    fn interleave(centroids: &[f32], dimension: usize) -> Columns {
        let tiles = (centroids.len() / dimension).div_ceil(TILE_COLUMNS);
        let mut columns = vec![[0.0f32; TILE_COLUMNS]; tiles * dimension];
        let mut norms = vec![[0.0f32; TILE_COLUMNS]; tiles];
        for (c, centroid) in centroids.chunks_exact(dimension).enumerate() {
            let (tile, lane) = (c / TILE_COLUMNS, c % TILE_COLUMNS);
            norms[tile][lane] = kernels::norm_squared(centroid);
            for (column, &x) in columns[tile * dimension..].iter_mut().zip(centroid) {
                column[lane] = x;
            }
        }
        Columns { dimension, columns, norms }
    }

    /// Lanes of one row of costs, including lanes without a centroid.
    fn width(&self) -> usize {
        self.norms.len() * TILE_COLUMNS
    }

    /// Writes `|c|² − 2⟨x, c⟩` of up to `TILE_ROWS` rows and all centroids. This is the squared
    /// distance without the row's own norm, which does not change the nearest centroid.
    fn costs(&self, rows: &[f32], costs: &mut [f32]) {
        let last = rows.len() / self.dimension - 1;
        let views: [&[f32]; TILE_ROWS] =
            std::array::from_fn(|r| &rows[r.min(last) * self.dimension..][..self.dimension]);
        let mut products = [[0.0; TILE_COLUMNS]; TILE_ROWS];
        let tiles = self.columns.chunks_exact(self.dimension).zip(&self.norms);
        for (tile, (columns, norms)) in tiles.enumerate() {
            kernels::inner_product_tile(views, columns, &mut products);
            for (r, products) in products.iter().enumerate() {
                let from = r * self.width() + tile * TILE_COLUMNS;
                let costs = &mut costs[from..from + TILE_COLUMNS];
                for (cost, (norm, product)) in costs.iter_mut().zip(norms.iter().zip(products)) {
                    *cost = norm - 2.0 * product;
                }
            }
        }
    }
}

/// Chooses clusters for one row after another. A fuller cluster costs more.
struct Choice {
    sizes: Vec<u32>,
    balance: f32,
    /// Rows of each cluster if all had the same size.
    target: f32,
    /// Running mean of the difference between a row's mean cost and least cost. It gives the
    /// penalty the unit of a distance.
    scale: f32,
    rows: usize,
}

impl Choice {
    fn new(rows: usize, clusters: usize, balance: f32) -> Choice {
        let target = rows as f32 / clusters as f32;
        Choice { sizes: vec![0; clusters], balance, target, scale: 0.0, rows: 0 }
    }

    /// The cluster of least cost. `costs` is that of one row; the call changes it.
    fn choose(&mut self, costs: &mut [f32]) -> usize {
        if self.balance > 0.0 {
            let weight = self.balance * self.scale / self.target;
            let spread = costs.iter().sum::<f32>() / costs.len() as f32 - costs[least(costs)];
            self.rows += 1;
            self.scale += (spread - self.scale) / self.rows.min(1000) as f32;
            for (cost, &size) in costs.iter_mut().zip(&self.sizes) {
                *cost += weight * size as f32;
            }
        }
        let best = least(costs);
        self.sizes[best] += 1;
        best
    }
}

/// Index of the first least value; 0 if all values are NaN.
fn least(costs: &[f32]) -> usize {
    let mut lanes = [f32::INFINITY; 16];
    let mut chunks = costs.chunks_exact(16);
    for chunk in &mut chunks {
        for (lane, &cost) in lanes.iter_mut().zip(chunk) {
            *lane = if cost < *lane { cost } else { *lane };
        }
    }
    let rest = chunks.remainder().iter().copied();
    let least = lanes.into_iter().chain(rest).fold(f32::INFINITY, f32::min);
    costs.iter().position(|&cost| cost == least).unwrap_or(0)
}
