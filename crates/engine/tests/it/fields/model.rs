//! Random writes, flushes, merges and restarts against a map; then every way to read.

use vstream_engine::{
    verify, Applied, Condition, Effort, Element, Engine, Filter, IdKind, IfVersion, IndexKind,
    Metric, Query, Row, RowId, Scratch, Settings, With, WithAttributes,
};
use vstream_vector::SplitMix;

use super::{
    draw, filter, journaling, matching, name_of, nearest, rows, settings, vector_of, Change, Kept,
    Model,
};

const WRITES: u64 = 8_000;
const IDS: u64 = 1_500;

struct Run {
    dir: tempfile::TempDir,
    engine: Engine,
    settings: Settings,
    model: Model,
    random: SplitMix,
    seed: u64,
}

impl Run {
    fn new(settings: Settings, seed: u64) -> Run {
        println!("seed {seed}: {:?} {:?}", settings.element, settings.memory);
        let dir = tempfile::tempdir().expect("a directory");
        let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
        let engine = builder.create(settings.clone()).expect("an engine");
        Run { dir, engine, settings, model: Model::new(), random: SplitMix(seed), seed }
    }

    fn id(&mut self) -> u64 {
        // Now and then the same few ids again and again.
        let few = if self.random.below(5) == 0 { 40 } else { IDS };
        self.random.below(few as usize) as u64
    }

    fn write(&mut self, step: u64) {
        let id = self.id();
        // Now and then an old version comes late and must change nothing.
        let version = if self.random.below(40) == 0 { step / 2 } else { step };
        let before = self.model.get(&id).map(|row| row.version);
        let is_late = before.is_some_and(|before| before > version);
        match self.random.below(20) {
            0..3 => {
                let died = self.engine.delete(id, version).expect("a delete");
                assert_eq!(died, before.is_some() && !is_late, "seed {}, step {step}", self.seed);
                if died {
                    self.model.remove(&id);
                }
            }
            3..8 => self.update(id, version, is_late),
            8..11 => self.upsert_if(id, version, is_late),
            11 if step.is_multiple_of(9) => self.delete_where(version),
            _ => {
                let row = self.row(id, version);
                let applied = self.upsert(id, &row, &Condition::default());
                self.keep(id, row, applied, before, is_late);
            }
        }
    }

    fn row(&mut self, id: u64, version: u64) -> Kept {
        let vector = vector_of(&mut self.random);
        Kept { version, vector, fields: draw(&mut self.random, &self.settings, id) }
    }

    fn upsert(&mut self, id: u64, row: &Kept, condition: &Condition<'_>) -> Applied {
        let (version, vector, fields) = (row.version, &row.vector, row.fields.fields());
        let row = Row { id, version, code: id, shard: (id % 128) as u16, vector, fields };
        self.engine.upsert_if(&row, condition).expect("a good row")
    }

    fn keep(&mut self, id: u64, row: Kept, applied: Applied, before: Option<u64>, is_late: bool) {
        let expected = match before {
            None => Applied::Inserted,
            Some(_) if is_late => Applied::Stale,
            Some(_) => Applied::Replaced,
        };
        assert_eq!(applied, expected, "seed {}, row {id} of {}", self.seed, row.version);
        if applied.is_applied() {
            self.model.insert(id, row);
        }
    }

    fn update(&mut self, id: u64, version: u64, is_late: bool) {
        let mut change = Change::draw(&mut self.random, &self.settings.schema);
        let check = name_of(&self.settings, id).1;
        let row = RowId { id, check };
        let applied = change.give(|update| self.engine.update(row, version, update));
        let applied = applied.expect("a good update");
        let Some(before) = self.model.get_mut(&id) else {
            assert_eq!(applied, Applied::Missing, "seed {}", self.seed);
            return;
        };
        if is_late {
            assert_eq!(applied, Applied::Stale, "seed {}", self.seed);
            return;
        }
        assert_eq!(applied, Applied::Replaced, "seed {}", self.seed);
        before.version = version;
        before.fields = change.over(&self.settings.schema, &before.fields);
    }

    fn upsert_if(&mut self, id: u64, version: u64, is_late: bool) {
        let filter = filter(&mut self.random, IDS);
        let row = self.row(id, version);
        let there = self.model.get(&id);
        let wanted = [
            IfVersion::Any,
            IfVersion::Absent,
            IfVersion::Present,
            IfVersion::Is(there.map_or(1, |row| row.version)),
        ][self.random.below(4)];
        let with_filter = self.random.below(2) == 0;
        let condition = Condition { filter: with_filter.then_some(&filter), version: wanted };
        let before = there.map(|row| row.version);
        let is_version = match wanted {
            IfVersion::Any => true,
            IfVersion::Absent => there.is_none(),
            IfVersion::Present | IfVersion::Is(_) => there.is_some(),
        };
        let matches = there.is_none_or(|row| filter.holds(id, row.fields.fields().attributes));
        let holds = is_version && (!with_filter || matches);
        let applied = self.upsert(id, &row, &condition);
        if !is_late && !holds {
            assert_eq!(applied, Applied::ConditionFailed, "seed {}, {condition:?}", self.seed);
            return;
        }
        self.keep(id, row, applied, before, is_late);
    }

    fn delete_where(&mut self, version: u64) {
        let filter = Filter::And(vec![
            filter(&mut self.random, IDS),
            Filter::Not(Box::new(filter(&mut self.random, IDS))),
            filter(&mut self.random, IDS),
        ]);
        let dies = matching(&self.model, Some(&filter)).filter(|(_, row)| row.version <= version);
        let dies: Vec<u64> = dies.map(|(id, _)| id).collect();
        let removed = self.engine.delete_where(&filter, version).expect("a delete");
        assert_eq!(removed, dies.len() as u64, "seed {}, {filter:?}", self.seed);
        dies.iter().for_each(|id| drop(self.model.remove(id)));
    }

    fn check(&mut self) {
        let (reader, mut scratch) = (self.engine.reader(), Scratch::new());
        let chosen = filter(&mut self.random, IDS);
        let says = format!("seed {}, {chosen:?}", self.seed);
        for filter in [None, Some(&chosen)] {
            let matches: Vec<u64> = matching(&self.model, filter).map(|(id, _)| id).collect();
            assert_eq!(reader.count(filter), Ok(matches.len() as u64), "{says}");
            let vector = vector_of(&mut self.random);
            let expected = nearest(&self.model, &vector, filter, 10);
            let query = Query { effort: Effort::Exact, filter, ..Query::new(&vector, 10) };
            let with = With { attributes: WithAttributes::All, payload: true, vector: false };
            let answer = reader.answer(&query, &with, &mut scratch).expect("an answer");
            assert_eq!(answer.neighbors, expected, "{says}");
            for (row, found) in answer.rows.iter().zip(&expected) {
                let kept = &self.model[&found.id];
                assert_eq!(
                    (row.id, row.version, &row.fields),
                    (found.id, kept.version, &kept.fields)
                );
            }
            if let Some(middle) = expected.get(expected.len() / 2) {
                let radius = Some(middle.distance);
                let near = reader.answer(&Query { radius, ..query }, &with, &mut scratch);
                let within = expected.iter().filter(|row| row.distance <= middle.distance);
                let within: Vec<_> = within.copied().collect();
                assert_eq!(near.expect("an answer").neighbors, within, "{says}");
            }
            self.scroll(filter, &matches);
        }
        self.get();
    }

    /// All pages of one moment, of a size that changes from page to page.
    fn scroll(&mut self, filter: Option<&Filter>, matches: &[u64]) {
        let moment = self.engine.reader().read_snapshot();
        let with = With { attributes: WithAttributes::Of(vec![1, 3]), ..With::default() };
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let limit = 1 + self.random.below(400);
            let page = moment.scroll(filter, after, limit, &with).expect("a page");
            assert!(page.rows.len() <= limit);
            for row in &page.rows {
                let kept = self.model[&row.id].fields.fields().attributes;
                let chosen: Vec<_> = kept.iter().filter(|(at, _)| [1, 3].contains(at)).collect();
                let found = row.fields.fields();
                assert_eq!(found.attributes.iter().collect::<Vec<_>>(), chosen);
                assert_eq!((row.vector.as_ref(), found.payload), (None, None));
            }
            seen.extend(page.rows.iter().map(|row| row.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, matches, "seed {}, {filter:?}", self.seed);
    }

    fn get(&mut self) {
        let ids: Vec<u64> = (0..50).map(|_| self.id()).collect();
        let row_of = |&id: &u64| RowId { id, check: name_of(&self.settings, id).1 };
        let asked: Vec<RowId> = ids.iter().map(row_of).collect();
        let found = self.engine.reader().get(&asked, &With::everything()).expect("rows");
        assert_eq!(found.len(), ids.len());
        for (id, row) in ids.iter().zip(found) {
            let kept = row.map(|row| {
                let vector = row.vector.expect("it was asked for");
                Kept { version: row.version, vector, fields: row.fields }
            });
            assert_eq!(kept.as_ref(), self.model.get(id), "seed {}, row {id}", self.seed);
        }
    }

    fn restart(&mut self) {
        self.engine.detach().expect("closed");
        let opened = Engine::builder()
            .dir(self.dir.path())
            .adjust(&mut |settings, journaling| {
                settings.recall_guard = false;
                journaling.background = false;
            })
            .open();
        self.engine = opened.expect("it opens");
        assert_eq!(self.engine.schema(), &self.settings.schema);
        assert_eq!(rows(&self.engine), self.model, "seed {}", self.seed);
    }
}

fn run(settings: Settings, seed: u64) {
    let mut run = Run::new(settings, seed);
    let (mut checkpoints, mut restarts) = (0, 0);
    for step in 1..=WRITES {
        run.write(step);
        match run.random.below(1_000) {
            0..8 => run.engine.commit().expect("a commit"),
            8..10 => {
                run.engine.checkpoint().expect("a checkpoint");
                checkpoints += 1;
            }
            10 => run.engine.compact().expect("a compaction"),
            11 => {
                run.restart();
                restarts += 1;
            }
            12..22 => run.check(),
            _ => {}
        }
    }
    run.check();
    assert!(checkpoints > 3 && restarts > 1, "{checkpoints} checkpoints, {restarts} restarts");
    assert_eq!(rows(&run.engine), run.model, "seed {seed}");
    run.engine.detach().expect("closed");
    let verified = verify(run.dir.path()).expect("a collection");
    assert_eq!((verified.findings, verified.rows), (vec![], run.model.len() as u64));
    run.restart();
}

#[test]
fn rows_in_memory_are_a_map() {
    run(settings(Metric::L2, Element::F32, IndexKind::Cluster, IdKind::U64), 21);
    run(settings(Metric::L2, Element::U8, IndexKind::Flat, IdKind::String), 22);
}

#[test]
fn rows_in_segments_are_a_map() {
    let memory = Some(512 << 10);
    for (element, index, id, seed) in [
        (Element::F32, IndexKind::Cluster, IdKind::String, 23),
        (Element::F16, IndexKind::Cluster, IdKind::U64, 24),
        (Element::F32, IndexKind::Flat, IdKind::U64, 25),
    ] {
        run(Settings { memory, ..settings(Metric::L2, element, index, id) }, seed);
    }
}
