//! The reference of job files, made from what the parser itself asks for.
//!
//! 1. Read the jobs of [`examples`], which together have every key, and keep what was asked.
//! 2. Take the defaults from those of them that give nothing but what a job needs.
//! 3. Add the words of [`words`] and write Markdown.

mod examples;
mod words;

use serde_json::Value;

use crate::document::Document;
use crate::job::JobSettings;
use crate::known::{Form, KnownKey};
use crate::section::Notes;
use crate::units;

/// One row of the reference.
#[derive(Debug)]
struct Entry {
    /// The section and, where it has kinds, the kind in brackets: `vectors[file]`.
    table: String,
    /// The key inside the section.
    key: String,
    form: Option<Form>,
    /// The values that the parser fills in, as a file would give them; none where it fills nothing.
    defaults: Vec<String>,
    is_required: bool,
    is_optional: bool,
}

impl JobSettings {
    /// The reference of job files, as Markdown: every key with its form, default and meaning.
    pub fn reference() -> String {
        text()
    }
}

/// The reference as Markdown.
fn text() -> String {
    let entries = entries();
    let mut text = String::from(words::OPENING);
    text += &format!("\n```yaml\n{}```\n", examples::SHOWN);
    text += words::CONVENTIONS;
    for (table, title, intro) in words::TABLES {
        let depth = if table.contains('[') { "###" } else { "##" };
        text += &format!("\n{depth} {title}\n\n{intro}\n");
        let rows = in_order(&entries, table);
        if !rows.is_empty() {
            text += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
        }
        for row in rows {
            text += &row_text(row);
        }
    }
    text + words::CLOSING
}

/// The rows of a table: `kind`, then what must be given, then the others as the parser asks.
fn in_order<'a>(entries: &'a [Entry], table: &str) -> Vec<&'a Entry> {
    let mut rows: Vec<&Entry> = entries.iter().filter(|entry| entry.table == table).collect();
    rows.sort_by_key(|entry| (entry.key != "kind", !entry.is_required));
    rows
}

fn row_text(entry: &Entry) -> String {
    let Entry { table, key, .. } = entry;
    let value = match entry.form.as_ref().expect("every key that is asked for is read") {
        Form::Section => "section".to_owned(),
        Form::Choice(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        Form::Range(what, low, high) => format!("{what}, {} to {}", grouped(low), grouped(high)),
        Form::Plain(what) => (*what).to_owned(),
    };
    let default = match (entry.is_required, &entry.form) {
        (true, _) => "**required**".to_owned(),
        (false, _) if entry.defaults.is_empty() => "none".to_owned(),
        (false, Some(Form::Section)) if entry.is_optional => "none".to_owned(),
        (false, Some(Form::Section)) => "as below".to_owned(),
        (false, _) => entry.defaults.join(" or "),
    };
    let meaning = words::meaning(table, key).expect("every key has its words");
    format!("| `{key}` | {value} | {default} | {meaning} |\n")
}

/// Digits in groups of three; a bound that is a power of two says which.
fn grouped(bound: &str) -> String {
    let Ok(number) = bound.parse::<u64>() else { return bound.to_owned() };
    if number > 1 << 32 {
        let less = if number.is_power_of_two() { "" } else { " - 1" };
        return format!("2^{}{less}", number.next_power_of_two().trailing_zeros());
    }
    let groups: Vec<String> = bound
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|digits| String::from_utf8_lossy(digits).into_owned())
        .collect();
    groups.join(",")
}

/// Every key of every job in [`examples`], once.
fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (job, is_minimal) in examples::jobs() {
        let (normalised, keys) = read(&job);
        for key in &keys {
            let (section, name) = key.path.rsplit_once('.').unwrap_or(("", &key.path));
            let table = table_of(section, name, &normalised);
            let index = entries
                .iter()
                .position(|entry| entry.table == table && entry.key == name)
                .unwrap_or_else(|| {
                    entries.push(new_entry(table, name, key, &keys));
                    entries.len() - 1
                });
            if entries[index].form.is_none() {
                entries[index].form = key.form.clone();
            }
            let value = normalised.pointer(&pointer(&key.path)).filter(|value| !value.is_null());
            if let Some(value) = value.filter(|_| is_minimal) {
                let default = key.default.as_ref().unwrap_or(value);
                let default = default_text(key.form.as_ref(), default);
                if !entries[index].defaults.contains(&default) {
                    entries[index].defaults.push(default);
                }
            }
        }
    }
    entries
}

fn new_entry(table: String, name: &str, key: &KnownKey, keys: &[KnownKey]) -> Entry {
    let inside = format!("{}.", key.path);
    let must = |key: &KnownKey| {
        !key.is_optional && key.default.is_none() && key.form != Some(Form::Section)
    };
    let is_required = match key.form {
        // A section must be there if something in it must.
        Some(Form::Section) => {
            let is_inside = |one: &&KnownKey| one.path.starts_with(&inside);
            !key.is_optional && keys.iter().filter(is_inside).any(must)
        }
        _ => must(key),
    };
    Entry {
        table,
        key: name.to_owned(),
        form: key.form.clone(),
        defaults: Vec::new(),
        is_required,
        is_optional: key.is_optional,
    }
}

/// The normalised form of a job and the keys that reading it asked for.
fn read(job: &str) -> (Value, Vec<KnownKey>) {
    let document = Document::from_yaml(job).expect("an example is YAML");
    let notes = Notes::default();
    let settings = JobSettings::read(&document, &notes);
    let normalised = serde_json::to_value(settings).expect("plain numbers and texts");
    (normalised, notes.known.into_vec())
}

/// Keys other than `kind` belong to the kind that their section has in this job.
fn table_of(section: &str, name: &str, normalised: &Value) -> String {
    let kind = normalised.pointer(&pointer(section)).and_then(|value| value["kind"].as_str());
    match kind {
        Some(kind) if !section.is_empty() && name != "kind" => format!("{section}[{kind}]"),
        _ => section.to_owned(),
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn default_text(form: Option<&Form>, value: &Value) -> String {
    let text = match (form, value) {
        (Some(Form::Range("duration", ..)), value) => {
            units::duration_text(value.as_u64().unwrap_or(0))
        }
        (Some(Form::Range("size", ..)), value) => units::size_text(value.as_u64().unwrap_or(0)),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    };
    format!("`{text}`")
}

#[cfg(test)]
mod tests;
