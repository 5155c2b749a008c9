//! Brings an engine into a case's place, asks it, and compares.
//!
//! 1. Rows are written one by one; in place `deletes` and `drift` the engine settles before the
//!    change, so that what it has learnt is out of date.
//! 2. The first 300 queries come at once. Each is asked once, with `Effort::Auto`. In place `fresh`
//!    the thousand follow at once, and none of them is audited.
//! 3. The engine settles: other queries with `Effort::Auto`, and the audits that they call for,
//!    made by [`Engine::catch_up`] instead of waiting until the share of a core allows them.
//! 4. A thousand queries that were never asked give the recall and the queries per CPU second.

use std::path::PathBuf;

use vstream_engine::{
    AttributesBuilder, Durability, Effort, Engine, Fields, Filter, Journaling, Neighbor, Query,
    Reader, RecallEstimate, Row as Record, Scratch, Settings,
};
use vstream_vector::{Element, SplitMix};

use super::selected::{self, Values};
use super::{Case, DataSet, GroundCache, Place, Row};
use crate::runbook::{Ground, LiveSet, RunbookError, Step};
use crate::times::thread_cpu_seconds;

/// Queries that come first.
const FIRST: usize = 300;
/// Queries that the truth is taken over.
const HELD_OUT: usize = 1_000;
/// Queries between two looks of the guard, and looks.
const PER_ROUND: usize = 512;
const ROUNDS: usize = 8;
/// Rounds end after so many CPU seconds, whatever their number.
const SETTLE_CPU_S: f64 = 20.0;
/// Depth of a truth that serves every k up to it.
const DEPTH: usize = 100;
/// So many of ten rows are deleted in place `deletes`.
const DELETED_IN_TEN: usize = 3;
const SHARDS: u64 = 128;
/// Part of the rows' bytes that memory holds in place `disk`.
const MEMORY_PART: u64 = 5;

/// How cases are run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Folder for the collections of place `disk`.
    pub dir: PathBuf,
    /// Where truths are kept, if anywhere.
    pub ground: Option<PathBuf>,
}

/// Runs one case. Errors: those of the engine and of files.
pub fn run(case: &Case, data: &DataSet, settings: &RunSettings) -> Result<Row, RunbookError> {
    let asked = FIRST + HELD_OUT;
    if data.queries.rows() <= asked || data.base.rows() < 1_000 {
        return Err(RunbookError::BadRequest(format!(
            "{} has {} rows and {} queries. Give 1,000 rows and more than {asked} queries.",
            data.name.name(),
            data.base.rows(),
            data.queries.rows()
        )));
    }
    let cache = GroundCache::new(settings.ground.as_deref());
    let mut stage = Stage::new(case, data, settings)?;
    let ingest = thread_cpu_seconds();
    stage.arrive()?;
    let ingest_us = (thread_cpu_seconds() - ingest) * 1e6 / data.base.rows() as f64;
    // A fresh engine learns nothing from the queries that are counted.
    let is_fresh = case.place == Place::Fresh;
    let first = stage.ask(0..FIRST, if is_fresh { Effort::Unaudited } else { Effort::Auto })?;
    if !is_fresh {
        stage.settle()?;
    }
    let held_out = stage.ask(FIRST..asked, Effort::Unaudited)?;
    let stats = stage.engine.stats();
    let queries: Vec<&[f32]> = (0..asked).map(|row| data.queries.row(row)).collect();
    let depth = if case.k <= DEPTH { DEPTH } else { case.k };
    let candidates = stage.candidates();
    let truth = cache.nearest(data, &candidates, &queries, depth)?;
    let recalls = |asked: &Asked, from: usize| -> Vec<f64> {
        let ground = Ground { metric: data.metric, base: &data.base };
        let answers = asked.answers.iter().enumerate();
        let recall = |(at, answer): (usize, &Vec<Neighbor>)| {
            let nearest = &truth[from + at];
            let nearest = &nearest[..case.k.min(nearest.len())];
            ground.score(&candidates, queries[from + at], nearest, answer).recall
        };
        answers.map(recall).collect()
    };
    let (first_recalls, found) = (recalls(&first, 0), recalls(&held_out, FIRST));
    let mut row = Row::new(case, data, candidates.len(), &found, &first_recalls);
    let estimate = match case.filter {
        None => stats.recall,
        // Queries of one filter fall into one class of selectivity, or into two beside each other.
        Some(_) => most_audited(&stats.recall_filtered),
    };
    row.estimate = estimate.map(|estimate| (estimate.recall, estimate.margin));
    row.audits = estimate.map_or(0, |estimate| estimate.audits);
    row.queries_per_second = HELD_OUT as f64 / held_out.cpu_s;
    row.leaves = held_out.leaves as f64 / HELD_OUT as f64;
    row.rows_scanned = held_out.rows as f64 / HELD_OUT as f64;
    row.exact = held_out.exact as f64 / HELD_OUT as f64;
    row.insert_us = ingest_us;
    row.segments = stats.tree.segments;
    Ok(row)
}

fn most_audited(classes: &[Option<RecallEstimate>]) -> Option<RecallEstimate> {
    classes.iter().flatten().max_by_key(|estimate| estimate.audits).copied()
}

/// Answers and what they cost.
#[derive(Default)]
struct Asked {
    answers: Vec<Vec<Neighbor>>,
    cpu_s: f64,
    leaves: usize,
    rows: usize,
    exact: usize,
}

struct Stage<'a> {
    case: &'a Case,
    data: &'a DataSet,
    engine: Engine,
    reader: Reader,
    scratch: Scratch,
    live: LiveSet,
    /// The filter of the case, and what rows carry for it.
    selected: Option<(Filter, Values)>,
    attributes: AttributesBuilder,
    /// Next query of the stream, behind those that are held out.
    next: usize,
    /// Removed with the engine's files.
    _dir: Option<tempfile::TempDir>,
}

impl<'a> Stage<'a> {
    fn new(
        case: &'a Case,
        data: &'a DataSet,
        settings: &RunSettings,
    ) -> Result<Stage<'a>, RunbookError> {
        let mut chosen = Settings::new(data.base.dimension, data.metric, Element::F32);
        chosen.recall_target = case.target;
        let selected = case.filter.map(|one| (one.filter(), Values::new(data)));
        if selected.is_some() {
            chosen.schema = selected::schema().into();
        }
        let mut dir = None;
        let engine = if case.place == Place::Disk {
            chosen.memory = Some((data.base.values.len() * 4) as u64 / MEMORY_PART);
            std::fs::create_dir_all(&settings.dir)
                .map_err(RunbookError::io("make", &settings.dir))?;
            let made = tempfile::tempdir_in(&settings.dir)
                .map_err(RunbookError::io("make a folder in", &settings.dir))?;
            let journaling = Journaling { durability: Durability::None, ..Journaling::default() };
            let folder = made.path().join("collection");
            dir = Some(made);
            Engine::builder().dir(&folder).journaling(journaling).create(chosen)
        } else {
            Engine::create(chosen)
        };
        let engine = engine.map_err(RunbookError::engine(0))?;
        let reader = engine.reader();
        let (scratch, live) = (Scratch::new(), LiveSet::new(data.base.rows()));
        let (next, attributes) = (FIRST + HELD_OUT, AttributesBuilder::default());
        Ok(Stage {
            case,
            data,
            engine,
            reader,
            scratch,
            live,
            selected,
            attributes,
            next,
            _dir: dir,
        })
    }

    /// The live rows that match, by what they were given.
    fn candidates(&mut self) -> LiveSet {
        let mut candidates = self.live.clone();
        let Some((filter, values)) = &self.selected else { return candidates };
        for (tag, row) in self.live.iter() {
            values.set(row, &mut self.attributes);
            if !filter.holds(tag, self.attributes.build()) {
                candidates.apply(&Step::Delete(tag as usize..tag as usize + 1));
            }
        }
        candidates
    }

    /// Writes the rows, and changes them as the place says.
    fn arrive(&mut self) -> Result<(), RunbookError> {
        let rows = self.data.base.rows();
        match self.case.place {
            Place::Memory | Place::Fresh | Place::Disk => (0..rows).try_for_each(|at| self.put(at)),
            Place::Tombstones => {
                (0..rows).try_for_each(|at| self.put(at))?;
                self.settle()?;
                let mut chance = SplitMix(1);
                for tag in 0..rows {
                    if chance.below(10) < DELETED_IN_TEN {
                        self.engine.delete(tag as u64, 2).map_err(RunbookError::engine(0))?;
                        self.live.apply(&Step::Delete(tag..tag + 1));
                    }
                }
                Ok(())
            }
            Place::Drift => {
                let order = self.data.drift();
                let (known, new) = order.split_at(rows * 3 / 5);
                known.iter().try_for_each(|&row| self.put(row as usize))?;
                self.settle()?;
                new.iter().try_for_each(|&row| self.put(row as usize))
            }
        }
    }

    fn put(&mut self, row: usize) -> Result<(), RunbookError> {
        let (id, vector) = (row as u64, self.data.base.row(row));
        let shard = (id % SHARDS) as u16;
        let mut fields = Fields::NONE;
        if let Some((_, values)) = &self.selected {
            values.set(row, &mut self.attributes);
            fields.attributes = self.attributes.build();
        }
        let record = Record { id, version: 1, code: 0, shard, vector, fields };
        self.engine.upsert(&record).map_err(RunbookError::engine(0))?;
        self.live.apply(&Step::Insert(row..row + 1));
        Ok(())
    }

    /// Asks queries of the stream and has the guard audit them.
    fn settle(&mut self) -> Result<(), RunbookError> {
        let begin = thread_cpu_seconds();
        for _ in 0..ROUNDS {
            for _ in 0..PER_ROUND {
                let row = self.next;
                self.ask(row..row + 1, Effort::Auto)?;
                self.next += 1;
                if self.next == self.data.queries.rows() {
                    self.next = FIRST + HELD_OUT;
                }
            }
            self.engine.catch_up();
            if thread_cpu_seconds() - begin > SETTLE_CPU_S {
                break;
            }
        }
        Ok(())
    }

    fn ask(&mut self, rows: std::ops::Range<usize>, effort: Effort) -> Result<Asked, RunbookError> {
        let mut asked = Asked::default();
        for row in rows {
            let query = Query {
                vector: self.data.queries.row(row),
                k: self.case.k,
                effort,
                filter: self.selected.as_ref().map(|(filter, _)| filter),
                radius: None,
            };
            let mut answer = Vec::with_capacity(self.case.k);
            let begin = thread_cpu_seconds();
            let found = self.reader.search(&query, &mut self.scratch, &mut answer);
            asked.cpu_s += thread_cpu_seconds() - begin;
            let found = found.map_err(RunbookError::engine(0))?;
            asked.leaves += found.leaves;
            asked.rows += found.rows;
            asked.exact += found.exact;
            asked.answers.push(answer);
        }
        Ok(asked)
    }
}
