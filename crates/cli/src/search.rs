//! `vstream search`: searches a snapshot without Flink, through the same engine.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value as Json};
use vstream_engine::{
    attributes_to_json, Answer, Effort, Engine, Filter, IdKind, IndexKind, NameHash,
    Names as FilterNames, Neighbor, Query, Reader, Schema, Scratch, Settings, StoredRow, Test,
    With, WithAttributes,
};
use vstream_vector::SplitMix;

use crate::arguments::{Ranked, SearchArguments};
use crate::failure::Failure;
use crate::groups;
use crate::matrix::{Matrix, Names};
use crate::snapshot::{self, Part};
use crate::text;

/// Seed of `--random`: the same rows every time.
const SEED: u64 = 42;

/// A vector to search for, and what it is called.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) vector: Vec<f32>,
}

/// One answer as JSON, as the jobs write theirs.
#[derive(Serialize)]
struct AnswerLine<'a> {
    query: &'a str,
    /// Numbers, or texts in a collection of string ids.
    ids: Vec<Json>,
    distances: Vec<f32>,
    /// What was asked for of each row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<Json>,
}

/// A row of an answer.
struct Found {
    neighbor: Neighbor,
    row: StoredRow,
}

/// Searches for each wanted vector and prints its neighbours.
pub(crate) fn search(arguments: &SearchArguments) -> Result<(), Failure> {
    if !arguments.asks() {
        return Err(Failure::settings("Say what to search for: --vector, --query-id or --random."));
    }
    let folder = arguments.folder();
    if let Some(summary) = vstream_group::inspect_groups(folder)? {
        return groups::search(folder, summary, arguments);
    }
    let parts = snapshot::open(folder)?;
    let schema = parts[0].summary.schema.clone();
    let filter = arguments.r#where.as_deref().map(|text| read_filter(text, &schema, None));
    let filter = in_group(arguments, &schema, filter.transpose()?)?;
    let shown = Shown::new(&arguments.with, schema)?;
    let wanted = wanted(arguments)?;
    let names = match &arguments.names {
        Some(path) => Names::read(path)?,
        None => Names::default(),
    };
    let engines: Vec<Engine> =
        parts.iter().map(|part| restore(part, arguments.exact)).collect::<Result<_, _>>()?;
    let readers: Vec<Reader> = engines.iter().map(Engine::reader).collect();
    let effort = if arguments.exact { Effort::Exact } else { Effort::Auto };
    for Wanted { name, vector } in &wanted {
        let filter = filter.as_ref();
        let query = Query { vector, k: arguments.k, effort, filter, radius: None };
        let answer = search_all(&readers, &query, &shown.with)?;
        if arguments.json {
            let line = AnswerLine {
                query: name,
                ids: answer.iter().map(|found| shown.id(&found.row)).collect(),
                distances: answer.iter().map(|found| found.neighbor.distance).collect(),
                rows: shown.rows(&answer),
            };
            text::print_line(&serde_json::to_string(&line).expect("plain values"))?;
        } else {
            text::print(&table(name, &answer, &names, &shown))?;
        }
    }
    Ok(())
}

/// Keeps to a shared group. Errors: the snapshot has none, or words are asked for.
fn in_group(
    arguments: &SearchArguments,
    schema: &Schema,
    filter: Option<Filter>,
) -> Result<Option<Filter>, Failure> {
    let Ranked { group, text, rank, .. } = &arguments.ranked;
    if text.is_some() || rank.is_some() {
        let what = "--text and --rank search a collection of isolated groups.";
        return Err(Failure::settings(what));
    }
    let Some(group) = group else { return Ok(filter) };
    let column = schema.group_column().ok_or_else(|| {
        Failure::settings(format!(
            "--group: There are no groups in {}.",
            arguments.folder().display()
        ))
    })?;
    let of_group = Filter::Attribute(column, Test::KeywordIn(vec![group.clone()]));
    Ok(Some(Filter::And([of_group].into_iter().chain(filter).collect())))
}

/// Reads a filter: JSON if it begins as an object.
///
/// * `hash`: that of string ids, unless the schema has its key.
pub(crate) fn read_filter(
    text: &str,
    schema: &Schema,
    hash: Option<NameHash>,
) -> Result<Filter, Failure> {
    let hash = hash.unwrap_or_else(|| schema.name_hash());
    let names = FilterNames { schema, hash: Some(&hash) };
    let read = match text.trim_start().starts_with('{') {
        true => Filter::from_json(names, text),
        false => Filter::from_sql(names, text, &[]),
    };
    read.map(Filter::simplify).map_err(|refused| Failure::settings(format!("--where: {refused}")))
}

/// What is shown of a row beside id and distance.
struct Shown {
    schema: Arc<Schema>,
    columns: Vec<u16>,
    with: With,
}

impl Shown {
    fn new(names: &[String], schema: Arc<Schema>) -> Result<Shown, Failure> {
        let payload = names.iter().any(|name| name == "payload");
        let column = |name: &String| {
            schema.column(name).ok_or_else(|| {
                let known: Vec<&str> =
                    schema.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
                Failure::settings(format!(
                    "--with: The collection has no attribute '{name}'. It has: {}.",
                    known.join(", ")
                ))
            })
        };
        let attributes = names.iter().filter(|name| *name != "payload");
        let columns: Vec<u16> = attributes.map(column).collect::<Result<_, _>>()?;
        let attributes = WithAttributes::Of(columns.clone());
        let with = With { attributes, payload, vector: false };
        Ok(Shown { schema, columns, with })
    }

    fn id(&self, row: &StoredRow) -> Json {
        match self.schema.id {
            IdKind::U64 => row.id.into(),
            IdKind::String => row.fields.fields().name.into(),
        }
    }

    /// Attributes and payload of each row; nothing if nothing was asked for.
    fn rows(&self, answer: &[Found]) -> Vec<Json> {
        if self.columns.is_empty() && !self.with.payload {
            return Vec::new();
        }
        answer.iter().map(|found| Json::Object(self.row(&found.row))).collect()
    }

    fn row(&self, row: &StoredRow) -> Map<String, Json> {
        let fields = row.fields.fields();
        let mut shown = attributes_to_json(&self.schema, fields.attributes);
        if let (true, Some(payload)) = (self.with.payload, fields.payload) {
            let read = serde_json::from_slice(payload);
            let text = || String::from_utf8_lossy(payload).into_owned().into();
            shown.insert("payload".to_owned(), read.unwrap_or_else(|_| text()));
        }
        shown
    }
}

/// The vectors to search for; none if none was asked for.
pub(crate) fn wanted(arguments: &SearchArguments) -> Result<Vec<Wanted>, Failure> {
    if let Some(text) = &arguments.what.vector {
        let vector = serde_json::from_str(text).map_err(|error| {
            Failure::settings(format!(
                "--vector: '{text}' is not a JSON array of numbers ({error}). Write it like \
                 \"[0.1, 0.2]\"."
            ))
        })?;
        return Ok(vec![Wanted { name: "vector".to_owned(), vector }]);
    }
    if arguments.what.query_id.is_none() && arguments.what.random.is_none() {
        return Ok(Vec::new());
    }
    let mut queries = Matrix::open(&arguments.queries)?;
    let rows = match (arguments.what.query_id, arguments.what.random) {
        (Some(row), _) => vec![row],
        (None, count) => {
            let mut chance = SplitMix(SEED);
            (0..count.unwrap_or(1)).map(|_| chance.next() % queries.rows()).collect()
        }
    };
    rows.into_iter()
        .map(|row| Ok(Wanted { name: format!("query {row}"), vector: queries.row(row)? }))
        .collect()
}

fn restore(part: &Part, exact: bool) -> Result<Engine, Failure> {
    let summary = &part.summary;
    let mut settings = Settings::new(summary.dimension, summary.metric, summary.element);
    // A few queries are over before a guard has learnt anything.
    settings.recall_guard = false;
    settings.schema = summary.schema.clone();
    if exact {
        settings.index = IndexKind::Flat;
    }
    Ok(Engine::restore(settings, &part.folder)?)
}

/// The nearest rows of all partitions; a row that lives in several counts once, in its newest
/// version.
fn search_all(readers: &[Reader], query: &Query<'_>, with: &With) -> Result<Vec<Found>, Failure> {
    let mut scratch = Scratch::new();
    let mut newest: HashMap<u64, Found> = HashMap::new();
    for reader in readers {
        let Answer { neighbors, rows, .. } = reader.answer(query, with, &mut scratch)?;
        for (neighbor, row) in neighbors.into_iter().zip(rows) {
            let is_newer = |held: &Found| held.neighbor.version < neighbor.version;
            if newest.get(&neighbor.id).is_none_or(is_newer) {
                newest.insert(neighbor.id, Found { neighbor, row });
            }
        }
    }
    let mut answer: Vec<Found> = newest.into_values().collect();
    answer.sort_by(|a, b| a.neighbor.order(&b.neighbor));
    answer.truncate(query.k);
    Ok(answer)
}

fn table(name: &str, answer: &[Found], names: &Names, shown: &Shown) -> String {
    let mut table = format!("{name}\n");
    let rows = shown.rows(answer);
    for (rank, Found { neighbor, row }) in answer.iter().enumerate() {
        let name = match shown.schema.id {
            IdKind::U64 => names.of(neighbor.id),
            IdKind::String => row.fields.fields().name.to_owned(),
        };
        table.push_str(&format!("  {:>4}  {name:<24} {:.6}", rank + 1, neighbor.distance));
        if let Some(shown) = rows.get(rank) {
            table.push_str(&format!("  {shown}"));
        }
        table.push('\n');
    }
    table
}
