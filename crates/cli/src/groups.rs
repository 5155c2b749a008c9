//! Isolated groups that are kept in a directory: search of one, description, and verification.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{json, Map, Value as Json};
use vstream_engine::{attributes_to_json, IdKind, Schema};
use vstream_group::{
    Expression, GroupHit, GroupQuery, GroupStore, PlainTerms, RankBy, StoreSummary, TextQuery,
    TextSearch, VerifiedGroups, With,
};

use crate::arguments::{InspectArguments, SearchArguments, VerifyArguments};
use crate::failure::Failure;
use crate::search::{read_filter, wanted};
use crate::text;

/// Searches one group and prints its best rows.
pub(crate) fn search(
    folder: &Path,
    summary: StoreSummary,
    arguments: &SearchArguments,
) -> Result<(), Failure> {
    let ranked = &arguments.ranked;
    let Some(group) = &ranked.group else {
        let what = "The groups of this collection are isolated: name one with --group.";
        return Err(Failure::settings(what));
    };
    let settings = summary.settings;
    let (schema, hash) = (settings.schema.clone(), settings.name_hash());
    let filter = arguments.r#where.as_deref().map(|text| read_filter(text, &schema, Some(hash)));
    let filter = filter.transpose()?;
    let columns = columns(&arguments.with, &schema)?;
    let words =
        ranked.text.as_deref().map(|words| TextQuery::parse(&schema, words, PlainTerms::Any));
    let words = words.transpose().map_err(|error| Failure::settings(format!("--text: {error}")))?;
    let rank = ranked.rank.as_deref().map(|rank| Expression::parse(&schema, rank)).transpose();
    let rank = rank.map_err(|error| Failure::settings(format!("--rank: {error}")))?;
    let parameters: Vec<(&str, f64)> =
        ranked.param.iter().map(|given| parameter(given)).collect::<Result<_, _>>()?;
    let payload = arguments.with.iter().any(|name| name == "payload");
    let with = With { attributes: !columns.is_empty(), payload, vector: false };
    let query = GroupQuery {
        filter: filter.as_ref(),
        text: words.as_ref().map(TextSearch::new),
        rank: rank.as_ref().map(|expression| RankBy {
            expression,
            parameters: &parameters,
            now_ms: now_ms(),
        }),
        with,
        ..GroupQuery::new(arguments.k)
    };
    let shown = Shown { schema: &schema, columns: &columns, payload, json: arguments.json };
    let store = GroupStore::open_dir(folder, settings)?;
    let reader = store.reader();
    let vectors = wanted(arguments)?;
    for one in &vectors {
        let query = GroupQuery { vector: Some(&one.vector), ..query };
        shown.print(&one.name, &reader.search(group, &query)?.rows)?;
    }
    if vectors.is_empty() {
        shown.print(group, &reader.search(group, &query)?.rows)?;
    }
    Ok(())
}

/// The columns of the attributes to show.
fn columns(names: &[String], schema: &Schema) -> Result<Vec<u16>, Failure> {
    let attributes = names.iter().filter(|name| *name != "payload");
    let column = |name: &String| {
        schema.column(name).ok_or_else(|| {
            let what = format!("--with: The collection has no attribute '{name}'.");
            Failure::settings(what)
        })
    };
    attributes.map(column).collect()
}

/// A parameter and its value, from `w=0.5`.
fn parameter(given: &str) -> Result<(&str, f64), Failure> {
    let parts = given.split_once('=');
    let value = parts.and_then(|(name, value)| Some((name, value.trim().parse::<f64>().ok()?)));
    value.filter(|(_, number)| number.is_finite()).ok_or_else(|| {
        Failure::settings(format!("--param: '{given}' is no parameter. Write it like w=0.5."))
    })
}

/// The present moment, for `freshness`.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What is shown of a row.
struct Shown<'a> {
    schema: &'a Schema,
    columns: &'a [u16],
    payload: bool,
    json: bool,
}

impl Shown<'_> {
    fn print(&self, name: &str, hits: &[GroupHit]) -> Result<(), Failure> {
        if self.json {
            return text::print_line(&self.as_json(name, hits).to_string());
        }
        let mut table = format!("{name}\n");
        for (place, hit) in hits.iter().enumerate() {
            let id = match self.id(hit) {
                Json::String(id) => id,
                id => id.to_string(),
            };
            table.push_str(&format!("  {:>4}  {id:<24}", place + 1));
            if let Some(distance) = hit.distance {
                table.push_str(&format!(" {distance:.6}"));
            }
            if let Some(score) = hit.score {
                table.push_str(&format!("  score {score:.6}"));
            }
            if !self.columns.is_empty() || self.payload {
                table.push_str(&format!("  {}", Json::Object(self.row(hit))));
            }
            table.push('\n');
        }
        text::print(&table)
    }

    fn as_json(&self, name: &str, hits: &[GroupHit]) -> Json {
        let mut line = json!({
            "query": name,
            "ids": hits.iter().map(|hit| self.id(hit)).collect::<Vec<_>>(),
            "distances": hits.iter().map(|hit| hit.distance).collect::<Vec<_>>(),
        });
        if hits.iter().any(|hit| hit.score.is_some()) {
            line["scores"] = hits.iter().map(|hit| hit.score).collect();
        }
        if !self.columns.is_empty() || self.payload {
            line["rows"] = hits.iter().map(|hit| Json::Object(self.row(hit))).collect();
        }
        line
    }

    fn id(&self, hit: &GroupHit) -> Json {
        match self.schema.id {
            IdKind::U64 => hit.row.id.into(),
            IdKind::String => hit.row.name.as_str().into(),
        }
    }

    fn row(&self, hit: &GroupHit) -> Map<String, Json> {
        let mut row = attributes_to_json(self.schema, hit.row.attributes());
        row.retain(|name, _| {
            self.schema.column(name).is_some_and(|column| self.columns.contains(&column))
        });
        if let (true, Some(payload)) = (self.payload, &hit.row.payload) {
            let text = || String::from_utf8_lossy(payload).into_owned().into();
            let payload = serde_json::from_slice(payload).unwrap_or_else(|_| text());
            row.insert("payload".to_owned(), payload);
        }
        row
    }
}

/// Prints what a directory of groups holds.
pub(crate) fn inspect(summary: &StoreSummary, arguments: &InspectArguments) -> Result<(), Failure> {
    let settings = &summary.settings;
    let (log, log_bytes) = &summary.log;
    if arguments.json {
        let runs = summary.runs.iter().map(|run| {
            json!({
                "name": run.name,
                "bytes": run.bytes,
                "rows": run.rows,
                "tombstones": run.tombstones,
                "groups": run.groups,
            })
        });
        let attributes = settings.schema.attributes.iter();
        let attributes = attributes.map(|one| (one.name.clone(), one.kind.name().into()));
        let description = json!({
            "groups": { "mode": "isolated" },
            "dimension": settings.dimension,
            "metric": settings.metric.name(),
            "element": settings.element.name(),
            "id": if settings.schema.id == IdKind::String { "string" } else { "u64" },
            "attributes": attributes.collect::<Map<String, Json>>(),
            "runs": runs.collect::<Vec<_>>(),
            "log": { "name": log, "bytes": log_bytes },
        });
        let description = serde_json::to_string_pretty(&description);
        return text::print_line(&description.expect("plain values"));
    }
    let mut table = format!(
        "isolated groups, {} dimensions, {}, {}\n\n  {:<20} {:>12} {:>10} {:>12} {:>12}\n",
        settings.dimension,
        settings.metric,
        settings.element,
        "file",
        "rows",
        "deleted",
        "groups",
        "size"
    );
    for run in &summary.runs {
        table.push_str(&format!(
            "  {:<20} {:>12} {:>10} {:>12} {:>12}\n",
            run.name,
            text::count(run.rows),
            text::count(run.tombstones),
            text::count(run.groups),
            text::bytes(run.bytes)
        ));
    }
    let size = text::bytes(*log_bytes);
    table.push_str(&format!("  {log:<20} {:>12} {:>10} {:>12} {size:>12}\n", "", "", ""));
    text::print(&table)
}

/// Prints what a look at every byte found. Errors: there is damage.
pub(crate) fn report(found: &VerifiedGroups, arguments: &VerifyArguments) -> Result<(), Failure> {
    if arguments.json {
        let finding = |what: &String, damage| json!({ "what": what, "damage": damage });
        let damage = found.damage.iter().map(|what| finding(what, true));
        let findings = damage.chain(found.left_over.iter().map(|what| finding(what, false)));
        let report = json!({
            "rows": found.rows,
            "files": found.files,
            "bytes": found.bytes,
            "findings": findings.collect::<Vec<_>>(),
        });
        text::print_line(&report.to_string())?;
    } else if found.damage.is_empty() && found.left_over.is_none() {
        text::print(&format!(
            "All is as it was written: {} rows in {} files, {}\n",
            text::count(found.rows),
            found.files,
            text::bytes(found.bytes)
        ))?;
    } else {
        let lines = found.damage.iter().map(|what| format!("damage: {what}\n"));
        let left_over = found.left_over.iter().map(|what| format!("left over: {what}\n"));
        text::print(&lines.chain(left_over).collect::<String>())?;
    }
    if found.damage.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!("{} is damaged: restore it from elsewhere.", arguments.folder)))
}
