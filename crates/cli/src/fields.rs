//! `vstream inspect`: what the rows of segments carry beside their vectors, column by column.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use serde_json::{json, Value};
use vstream_engine::{AttributeKind, Schema, ValueRef};
use vstream_segment::{Segment, WantedColumns, WantedFields};

use crate::failure::Failure;
use crate::text;

/// Rows that are read at once, and different values of a column that are counted: 32 MB of memory
/// for a column with that many.
const ROWS: u64 = 4096;
const VALUES_MAX: usize = 1 << 20;

/// A column of attributes in one or several segments.
#[derive(Default)]
struct Column {
    kind: &'static str,
    rows: u64,
    bytes: u64,
    /// Hashes of the values; none of a text column, whose texts are as many as its rows.
    values: Option<HashSet<u64>>,
}

impl Column {
    fn note(&mut self, value: &ValueRef<'_>) {
        let Some(values) = self.values.as_mut().filter(|values| values.len() < VALUES_MAX) else {
            return;
        };
        let one = match value {
            ValueRef::Keywords(texts) => {
                values.extend(texts.iter().map(|text| hash(*text)));
                return;
            }
            ValueRef::Keyword(text) | ValueRef::Text(text) => hash(*text),
            ValueRef::I64(number) | ValueRef::Timestamp(number) => hash(*number),
            // 0 and -0 are one value.
            ValueRef::F64(number) => hash((number + 0.0).to_bits()),
            ValueRef::Bool(is_true) => hash(*is_true),
        };
        values.insert(one);
    }

    /// Different values, and whether there may be more.
    fn different(&self) -> Option<(u64, bool)> {
        let values = self.values.as_ref()?;
        Some((values.len().min(VALUES_MAX) as u64, values.len() >= VALUES_MAX))
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The fields of one or several segments.
#[derive(Default)]
pub(crate) struct Fields {
    columns: BTreeMap<u16, Column>,
    names: u64,
    payloads: u64,
    directories: u64,
}

impl Fields {
    /// Adds those of a segment, its rows that are gone included. Cost: its columns are read.
    pub(crate) fn add(&mut self, segment: &Segment) -> Result<(), Failure> {
        let Some(report) = segment.fields_report() else { return Ok(()) };
        for of in &report.columns {
            let column = self.columns.entry(of.column).or_default();
            column.kind = of.kind.name();
            column.rows += u64::from(of.rows);
            column.bytes += of.bytes;
            if of.kind != AttributeKind::Text {
                column.values.get_or_insert_default();
            }
        }
        self.names += report.name_bytes;
        self.payloads += report.payload_bytes;
        self.directories += report.directory_bytes;
        let counted: Vec<u16> = report
            .columns
            .iter()
            .filter(|of| of.kind != AttributeKind::Text)
            .map(|of| of.column)
            .collect();
        let columns = WantedColumns::These(&counted);
        let wanted = WantedFields { names: false, columns, payload: false };
        for from in (0..segment.rows()).step_by(ROWS as usize) {
            let rows: Vec<u32> =
                (from..segment.rows().min(from + ROWS)).map(|row| row as u32).collect();
            for fields in segment.fields(&rows, &wanted)? {
                for (at, value) in fields.fields().attributes.iter() {
                    self.columns.entry(at).or_default().note(&value);
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.directories == 0
    }

    /// As a table; nothing without fields.
    ///
    /// * `schema`: names the columns, if it is known.
    pub(crate) fn as_table(&self, schema: Option<&Schema>) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut table = format!(
            "\n  {:<20} {:>12} {:>12} {:>12} {:>12}\n",
            "fields", "type", "rows", "different", "size"
        );
        let mut line = |name: &str, kind: &str, rows: String, different: String, bytes: u64| {
            let size = text::bytes(bytes);
            table.push_str(&format!(
                "  {name:<20} {kind:>12} {rows:>12} {different:>12} {size:>12}\n"
            ));
        };
        for (at, column) in &self.columns {
            let different = match column.different() {
                None => "-".to_owned(),
                Some((values, false)) => text::count(values),
                Some((values, true)) => format!("≥ {}", text::count(values)),
            };
            line(
                &name(*at, schema),
                column.kind,
                text::count(column.rows),
                different,
                column.bytes,
            );
        }
        for (name, bytes) in [
            ("text ids", self.names),
            ("payloads, texts", self.payloads),
            ("directory", self.directories),
        ] {
            line(name, "", String::new(), String::new(), bytes);
        }
        table
    }

    /// As JSON; `null` without fields.
    pub(crate) fn as_json(&self, schema: Option<&Schema>) -> Value {
        if self.is_empty() {
            return Value::Null;
        }
        let columns = self.columns.iter().map(|(at, column)| {
            json!({
                "name": name(*at, schema),
                "type": column.kind,
                "rows": column.rows,
                "different": column.different().filter(|(_, is_more)| !is_more).map(|(of, _)| of),
                "bytes": column.bytes,
            })
        });
        json!({
            "columns": columns.collect::<Vec<_>>(),
            "id-bytes": self.names,
            "payload-bytes": self.payloads,
            "directory-bytes": self.directories,
        })
    }
}

fn name(column: u16, schema: Option<&Schema>) -> String {
    let named = schema.and_then(|schema| schema.attributes.get(usize::from(column)));
    named.map_or_else(|| format!("column {column}"), |attribute| attribute.name.clone())
}
