//! A plan and its truth in files, of which a measured process reads what it needs.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::truth::{self, Truth};
use super::{Plan, PlanSettings, RowFile, K};
use crate::runbook::{Matrix, RunbookError};

/// What a folder with a plan is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Rows that live.
    pub rows: usize,
    /// Epochs.
    pub epochs: usize,
    /// Rows that each replaces.
    pub change: usize,
    /// `uniform` or `skewed`.
    pub order: String,
    /// Of the plan.
    pub seed: u64,
    /// Numbers per row.
    pub dimension: usize,
    /// Rows that ever live and are neighbours of rows of the file, which has too few.
    pub neighbours: usize,
    /// Queries whose truth is known: the last ones of the first `queries` in the file.
    pub scored: usize,
    /// Queries that are used at all. Those that are not scored are asked beside the writes, and the
    /// guard learns from them.
    pub queries: usize,
}

/// A plan in a folder.
#[derive(Debug)]
pub struct Kept {
    /// Its numbers.
    pub about: About,
    folder: PathBuf,
    order: File,
    truth: File,
}

impl Kept {
    /// Makes a plan and its truth and writes them to `folder`; half of the queries are scored.
    ///
    /// Cost and memory: see [`truth::visit`]. Errors: `BadRequest` for fewer than two queries, those of
    /// [`Plan::make`], `Io`.
    pub fn write(
        folder: &Path,
        data: &RowFile,
        queries: &Matrix,
        settings: &PlanSettings,
    ) -> Result<About, RunbookError> {
        let scored = queries.rows() / 2;
        if scored == 0 {
            return Err(RunbookError::BadRequest(
                "There are fewer than two queries. Give --queries a larger file.".to_owned(),
            ));
        }
        let plan = Plan::make(data, settings)?;
        fs::create_dir_all(folder).map_err(RunbookError::io("make", folder))?;
        let mut order = Output::create(folder, "order.u32")?;
        let parts = plan.epochs.iter().flat_map(|(ended, came)| [ended, came]);
        for row in std::iter::once(&plan.first).chain(parts).flatten() {
            order.write(&row.to_le_bytes())?;
        }
        order.finish()?;
        let last: Vec<u32> =
            (queries.rows() - scored..queries.rows()).map(|at| at as u32).collect();
        let mut out = Output::create(folder, "truth.bin")?;
        truth::visit(data, &plan, &queries.picked(&last), &mut |truth| {
            for near in truth {
                for at in 0..K {
                    let (row, distance) =
                        near.get(at).copied().unwrap_or((u32::MAX, f32::INFINITY));
                    out.write(&row.to_le_bytes())?;
                    out.write(&distance.to_le_bytes())?;
                }
            }
            Ok(())
        })?;
        out.finish()?;
        let about = About {
            rows: settings.rows,
            epochs: settings.epochs,
            change: settings.change(),
            order: settings.order.name().to_owned(),
            seed: settings.seed,
            dimension: data.dimension(),
            neighbours: settings.total().saturating_sub(data.rows()),
            scored,
            queries: queries.rows(),
        };
        let text = serde_json::to_string_pretty(&about).expect("numbers and texts");
        let path = folder.join("plan.json");
        fs::write(&path, text + "\n").map_err(RunbookError::io("write", &path))?;
        Ok(about)
    }

    /// Opens what [`Kept::write`] wrote. Errors: `Io`; `BadRequest` if a file is not whole.
    pub fn open(folder: &Path) -> Result<Kept, RunbookError> {
        let path = folder.join("plan.json");
        let text = fs::read_to_string(&path).map_err(RunbookError::io("read", &path))?;
        let spoiled = |what: String| {
            RunbookError::BadRequest(format!("{what} Make the plan again: disk plan."))
        };
        let about: About = serde_json::from_str(&text)
            .map_err(|error| spoiled(format!("{} is no plan: {error}.", path.display())))?;
        let opened = |name: &str, bytes: usize| {
            let path = folder.join(name);
            let file = File::open(&path).map_err(RunbookError::io("read", &path))?;
            let found = file.metadata().map_err(RunbookError::io("read", &path))?.len();
            if found != bytes as u64 {
                let path = path.display();
                return Err(spoiled(format!("{path} has {found} bytes instead of {bytes}.")));
            }
            Ok(file)
        };
        let order = opened("order.u32", 4 * (about.rows + 2 * about.epochs * about.change))?;
        let truth = opened("truth.bin", (about.epochs + 1) * about.scored * K * 8)?;
        Ok(Kept { about, folder: folder.to_path_buf(), order, truth })
    }

    /// `count` of the first rows, in their order from `from` on.
    pub fn first(&self, from: usize, count: usize) -> Result<Vec<u32>, RunbookError> {
        assert!(from + count <= self.about.rows, "first rows");
        self.words(&self.order, from, count)
    }

    /// The rows that end and that come in an epoch, from 0 on.
    pub fn epoch(&self, epoch: usize) -> Result<(Vec<u32>, Vec<u32>), RunbookError> {
        assert!(epoch < self.about.epochs, "an epoch of the plan");
        let change = self.about.change;
        let from = self.about.rows + 2 * epoch * change;
        Ok((
            self.words(&self.order, from, change)?,
            self.words(&self.order, from + change, change)?,
        ))
    }

    /// Whether each row lives after `epochs` epochs; a bit per row of the plan.
    pub fn live(&self, epochs: usize) -> Result<Live, RunbookError> {
        let mut live = Live::new(self.about.rows + self.about.epochs * self.about.change);
        self.first(0, self.about.rows)?.into_iter().for_each(|row| live.set(row, true));
        for epoch in 0..epochs {
            live.follow(&self.epoch(epoch)?);
        }
        Ok(live)
    }

    /// The true ten of each scored query after `epochs` epochs.
    pub fn truth(&self, epochs: usize) -> Result<Truth, RunbookError> {
        let words = 2 * K * self.about.scored;
        let words = self.words(&self.truth, epochs * words, words)?;
        let pair = |pair: &[u32]| (pair[0], f32::from_bits(pair[1]));
        let near = |near: &[u32]| {
            near.chunks_exact(2).map(pair).filter(|&(row, _)| row != u32::MAX).collect()
        };
        Ok(words.chunks_exact(2 * K).map(near).collect())
    }

    fn words(&self, file: &File, from: usize, count: usize) -> Result<Vec<u32>, RunbookError> {
        let mut bytes = vec![0u8; 4 * count];
        file.read_exact_at(&mut bytes, 4 * from as u64)
            .map_err(RunbookError::io("read", &self.folder))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}

/// A set of rows, a bit each.
#[derive(Clone, Debug)]
pub struct Live(Vec<u64>);

impl Live {
    fn new(rows: usize) -> Live {
        Live(vec![0; rows.div_ceil(64)])
    }

    fn set(&mut self, row: u32, lives: bool) {
        let (word, bit) = (row as usize / 64, 1 << (row % 64));
        assert_ne!(self.0[word] & bit != 0, lives, "row {row} lives once");
        self.0[word] ^= bit;
    }

    /// Lets the rows of an epoch end and come.
    pub fn follow(&mut self, (ended, came): &(Vec<u32>, Vec<u32>)) {
        ended.iter().for_each(|&row| self.set(row, false));
        came.iter().for_each(|&row| self.set(row, true));
    }

    /// Whether a row lives; false for numbers beyond the plan.
    pub fn has(&self, row: u64) -> bool {
        self.0.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// The rows that live, in ascending order.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..64 * self.0.len() as u32).filter(|&row| self.has(u64::from(row)))
    }
}

struct Output {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Output {
    fn create(folder: &Path, name: &str) -> Result<Output, RunbookError> {
        let path = folder.join(name);
        let file = File::create(&path).map_err(RunbookError::io("write", &path))?;
        Ok(Output { path, out: BufWriter::with_capacity(1 << 20, file) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RunbookError> {
        self.out.write_all(bytes).map_err(RunbookError::io("write", &self.path))
    }

    fn finish(mut self) -> Result<(), RunbookError> {
        self.out.flush().map_err(RunbookError::io("write", &self.path))
    }
}
