//! What a filter does to a search among real words: the second part of `vstream demo`.
//!
//! The words stand in an engine in this process with what can be said of a word without a
//! dictionary: its first letter, its last two letters, its length. Recall is measured against brute
//! force over the rows that match.

use std::time::{Duration, Instant};

use vstream_engine::{
    AttributeKind, Attributes, AttributesBuilder, Effort, Element, Engine, Fields, Filter, Metric,
    Neighbor, Query, Reader, Row, Schema, Scratch, Settings, ValueRef,
};
use vstream_vector::kernels;

use crate::failure::Failure;
use crate::matrix::{Matrix, Names};
use crate::text;

/// Conditions of the table, as SQL; the first one is none.
const CONDITIONS: [&str; 5] =
    ["", "length >= 12", "ending = 'ly'", "letter = 'q'", "letter = 'k' AND length <= 4"];
/// Words whose neighbours are shown, as far as they are there.
const SHOWN: [&str; 3] = ["king", "river", "quickly"];
/// Neighbours that are shown, and those that recall is measured over.
const SHOWN_NEIGHBOURS: usize = 5;
const K: usize = 10;
/// Held-out words that are asked for under every condition: first so many by which the engine
/// learns how far to search, then so many that are counted.
const LEARNT: u64 = 150;
const COUNTED: u64 = 200;

/// Words with their attributes, indexed, and their directions for brute force.
pub(crate) struct Indexed {
    engine: Engine,
    directions: Vec<f32>,
    dimension: usize,
    /// What the inserts took.
    took: Duration,
}

impl Indexed {
    /// Indexes the first `rows` words. Cost: some 10 us for each.
    ///
    /// Errors: the files cannot be read; what the engine refuses.
    pub(crate) fn new(base: &mut Matrix, names: &Names, rows: u64) -> Result<Indexed, Failure> {
        let attributes = [
            ("letter", AttributeKind::Keyword),
            ("ending", AttributeKind::Keyword),
            ("length", AttributeKind::I64),
        ];
        let schema = Schema::new(attributes).map_err(|refused| Failure::failed(refused.message))?;
        let dimension = base.row(0)?.len();
        let mut settings = Settings::new(dimension, Metric::Cosine, Element::F32);
        settings.schema = schema.clone().into();
        let mut engine = Engine::create(settings)?;
        let (mut builder, mut took) = (AttributesBuilder::default(), Duration::ZERO);
        let mut directions = Vec::with_capacity(rows as usize * dimension);
        for id in 0..rows {
            let (vector, word) = (base.row(id)?, names.of(id));
            let begun = Instant::now();
            let attributes = set(&schema, &word, &mut builder)?;
            let fields = Fields { attributes, ..Fields::NONE };
            engine.upsert(&Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields })?;
            took += begun.elapsed();
            directions.extend(direction(&vector));
        }
        Ok(Indexed { engine, directions, dimension, took })
    }

    /// Some words with their nearest ones under each condition, and a table of recalls.
    pub(crate) fn report(&self, queries: &mut Matrix, names: &Names) -> Result<String, Failure> {
        let rows = self.directions.len() / self.dimension;
        let mut text = format!(
            "A filter at work: {} of the words in one engine of this process ({:.0} us per insert),\n\
             each with its first letter, its last two letters (ending) and its length\n\n",
            text::count(rows as u64),
            self.took.as_secs_f64() * 1e6 / rows as f64
        );
        let mut filters = Vec::new();
        for sql in CONDITIONS {
            let schema = self.engine.reader().schema();
            let read = (!sql.is_empty()).then(|| Filter::from_sql(&*schema, sql, &[]));
            filters.push(read.transpose().map_err(|refused| Failure::failed(refused.message))?);
        }
        let learnt: Vec<Vec<f32>> = (0..LEARNT.min(queries.rows() / 2))
            .map(|row| queries.row(queries.rows() - 1 - row))
            .collect::<Result<_, _>>()?;
        let counted: Vec<Vec<f32>> = (0..COUNTED.min(queries.rows() / 2))
            .map(|row| queries.row(row))
            .collect::<Result<_, _>>()?;
        for filter in &filters {
            let mut asker = self.asker(filter);
            for vector in &learnt {
                asker.ask(vector, Effort::Auto)?;
            }
            self.engine.catch_up();
        }
        for word in SHOWN {
            if let Some(id) = (0..rows as u64).find(|&id| names.of(id) == word) {
                text.push_str(&self.neighbours(id, names, &filters)?);
            }
        }
        text.push_str(&format!(
            "  {:<30} {:>12} {:>12} {:>14}\n",
            "condition", "words", "recall@10", "time per query"
        ));
        for (sql, filter) in CONDITIONS.iter().zip(&filters) {
            let (recall, took) = self.measure(&counted, names, filter)?;
            let matches = self.engine.reader().count(filter.as_ref())?;
            text.push_str(&format!(
                "  {:<30} {:>12} {recall:>12.3} {:>14}\n",
                if sql.is_empty() { "none" } else { sql },
                text::count(matches),
                text::millis(took.as_secs_f64() * 1e3 / counted.len() as f64)
            ));
        }
        text.push_str(&format!(
            "\n  recall against brute force, mean of {} held-out words; the target is {}\n",
            counted.len(),
            Settings::new(self.dimension, Metric::Cosine, Element::F32).recall_target
        ));
        Ok(text)
    }

    /// A word and the words near it, without itself: a line for each condition.
    fn neighbours(
        &self,
        id: u64,
        names: &Names,
        filters: &[Option<Filter>],
    ) -> Result<String, Failure> {
        let mut text = format!("  nearest to {}\n", names.of(id));
        for (sql, filter) in CONDITIONS.iter().zip(filters) {
            let mut asker = self.asker(filter);
            let found = asker.ask(self.direction(id as usize), Effort::Auto)?;
            let others = found.iter().filter(|row| row.id != id).take(SHOWN_NEIGHBOURS);
            let words: Vec<String> = others.map(|row| names.of(row.id)).collect();
            let label = if sql.is_empty() { "of all words" } else { sql };
            text.push_str(&format!("    {label:<28} {}\n", words.join("  ")));
        }
        text.push('\n');
        Ok(text)
    }

    fn direction(&self, row: usize) -> &[f32] {
        &self.directions[row * self.dimension..][..self.dimension]
    }

    fn asker<'a>(&self, filter: &'a Option<Filter>) -> Asker<'a> {
        let (reader, filter) = (self.engine.reader(), filter.as_ref());
        Asker { reader, filter, scratch: Scratch::new(), found: Vec::new() }
    }

    /// Mean recall of some queries, and what they took.
    fn measure(
        &self,
        queries: &[Vec<f32>],
        names: &Names,
        filter: &Option<Filter>,
    ) -> Result<(f64, Duration), Failure> {
        let mut matching = self.matching(names, filter)?;
        let most = K.min(matching.len());
        let (mut hits, mut took) = (0, Duration::ZERO);
        let mut asker = self.asker(filter);
        for vector in queries {
            let begun = Instant::now();
            let found = asker.ask(vector, Effort::Unaudited)?;
            took += begun.elapsed();
            let query = direction(vector);
            for (id, distance) in &mut matching {
                *distance = 1.0 - kernels::inner_product(&query, self.direction(*id as usize));
            }
            if most > 0 {
                matching.select_nth_unstable_by(most - 1, |a, b| a.1.total_cmp(&b.1));
            }
            let nearest = &matching[..most];
            hits += found.iter().filter(|row| nearest.iter().any(|(id, _)| *id == row.id)).count();
        }
        let wanted = most * queries.len();
        Ok((if wanted == 0 { 1.0 } else { hits as f64 / wanted as f64 }, took))
    }

    /// Ids of the rows that match, judged by their words and not by the engine, with room for
    /// distances.
    fn matching(&self, names: &Names, filter: &Option<Filter>) -> Result<Vec<(u64, f32)>, Failure> {
        let (schema, mut builder) = (self.engine.reader().schema(), AttributesBuilder::default());
        let mut matching = Vec::new();
        for id in 0..(self.directions.len() / self.dimension) as u64 {
            let is_in = match filter {
                None => true,
                Some(filter) => filter.holds(id, set(&schema, &names.of(id), &mut builder)?),
            };
            if is_in {
                matching.push((id, 0.0));
            }
        }
        Ok(matching)
    }
}

/// Asks for the rows of a filter, again and again.
struct Asker<'a> {
    reader: Reader,
    filter: Option<&'a Filter>,
    scratch: Scratch,
    found: Vec<Neighbor>,
}

impl Asker<'_> {
    fn ask(&mut self, vector: &[f32], effort: Effort) -> Result<&[Neighbor], Failure> {
        let query = Query { effort, filter: self.filter, ..Query::new(vector, K) };
        self.reader.search(&query, &mut self.scratch, &mut self.found)?;
        Ok(&self.found)
    }
}

/// The attributes of a word; words of one letter have no ending.
fn set<'a>(
    schema: &Schema,
    word: &str,
    builder: &'a mut AttributesBuilder,
) -> Result<Attributes<'a>, Failure> {
    let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
    let letters = ends.len() - 1;
    let values = [
        (letters > 0).then(|| ValueRef::Keyword(&word[..ends[1]])),
        (letters > 1).then(|| ValueRef::Keyword(&word[ends[letters - 2]..])),
        Some(ValueRef::I64(letters as i64)),
    ];
    builder.clear();
    for (column, value) in (0..).zip(values) {
        if let Some(value) = value {
            let refused = builder.set(schema, column, &value).map_err(|refused| refused.message);
            refused.map_err(Failure::failed)?;
        }
    }
    Ok(builder.build())
}

/// A vector of length 1.
fn direction(vector: &[f32]) -> Vec<f32> {
    let norm = kernels::norm_squared(vector).sqrt();
    vector.iter().map(|x| x / norm).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use vstream_vector::SplitMix;

    use super::*;

    fn matrix(path: &std::path::Path, rows: &[Vec<f32>]) -> Matrix {
        let mut bytes = [(rows.len() as u32).to_le_bytes(), 64u32.to_le_bytes()].concat();
        rows.iter().flatten().for_each(|x| bytes.extend(x.to_le_bytes()));
        std::fs::write(path, bytes).expect("writes");
        Matrix::open(path).expect("opens")
    }

    #[test]
    fn words_that_match_are_shown_and_recall_is_that_of_brute_force() {
        let (folder, mut random) = (tempfile::tempdir().expect("a folder"), SplitMix(5));
        let mut draw = |rows: usize| -> Vec<Vec<f32>> {
            (0..rows).map(|_| (0..64).map(|_| random.normal()).collect()).collect()
        };
        let (mut base, mut queries) = (
            matrix(&folder.path().join("base.fbin"), &draw(3000)),
            matrix(&folder.path().join("query.fbin"), &draw(400)),
        );
        let mut words = String::new();
        for id in 0..3000 {
            match id {
                17 => writeln!(words, "king"),
                id if id % 2 == 0 => writeln!(words, "word{id}ly"),
                id if id % 7 == 0 => writeln!(words, "queue{id}"),
                id if id % 11 == 0 => writeln!(words, "über"),
                _ => writeln!(words, "something{id}"),
            }
            .expect("a string takes all");
        }
        std::fs::write(folder.path().join("words"), words).expect("writes");
        let names = Names::read(&folder.path().join("words")).expect("reads");
        let indexed = Indexed::new(&mut base, &names, 3000).expect("indexed");
        let report = indexed.report(&mut queries, &names).expect("a report");
        assert!(report.contains("nearest to king") && !report.contains("nearest to river"));
        let near_king: Vec<&str> =
            report.lines().filter(|line| line.contains("ending = 'ly'")).collect();
        let shown =
            near_king[0].trim_start().trim_start_matches("ending = 'ly'").split_whitespace();
        let shown: Vec<&str> = shown.collect();
        assert!(shown.len() == SHOWN_NEIGHBOURS && shown.iter().all(|word| word.ends_with("ly")));
        // Of the table: words that match, and a recall near the target or above.
        let cells: Vec<&str> = near_king[1].split_whitespace().rev().collect();
        let (matching, recall) = (cells[3], cells[2].parse::<f64>().expect("a number"));
        assert_eq!(matching, "1,500", "{report}");
        assert!(recall >= 0.9, "{report}");
    }

    #[test]
    fn letters_are_counted_and_not_bytes() {
        let attributes = [("a", AttributeKind::Keyword), ("b", AttributeKind::Keyword)];
        let mut schema = Schema::new(attributes).expect("a schema");
        schema.add("c", AttributeKind::I64).expect("another");
        let mut builder = AttributesBuilder::default();
        let attributes = set(&schema, "über", &mut builder).expect("a word");
        let values: Vec<ValueRef<'_>> = attributes.iter().map(|(_, value)| value).collect();
        let wanted = [ValueRef::Keyword("ü"), ValueRef::Keyword("er"), ValueRef::I64(4)];
        assert_eq!(values, wanted);
        assert_eq!(set(&schema, "", &mut builder).expect("none").iter().count(), 1);
    }
}
