//! The reference has every key of the parser, with the parser's own defaults, and is up to date.

use std::path::Path;

use super::*;

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/job-file.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == text(),
        "docs/guide/job-file.md is not what the parser says. Write it again:\n\
         cargo run -q -p vstream-cli -- reference > docs/guide/job-file.md"
    );
}

#[test]
fn the_jobs_are_accepted() {
    let jobs = examples::jobs().map(|(job, _)| job).chain([examples::SHOWN.to_owned()]);
    for job in jobs {
        // A generated stream needs an end, which has no default.
        let mut document = Document::from_yaml(&job).expect("YAML");
        if job.contains("kind: generator") {
            document.set("vectors.limit=1").expect("sets");
        }
        let job = JobSettings::from_document(&document);
        assert!(job.is_ok(), "{job:?}");
    }
}

#[test]
fn every_kind_is_in_some_job() {
    let entries = entries();
    for entry in entries.iter().filter(|entry| entry.key == "kind") {
        let Some(Form::Choice(kinds)) = &entry.form else { panic!("{entry:?}") };
        for kind in kinds {
            let has_kind = |job: &(String, bool)| {
                let section = pointer(&entry.table);
                read(&job.0).0.pointer(&section).is_some_and(|value| value["kind"] == *kind)
            };
            assert!(examples::jobs().any(|job| has_kind(&job)), "no job has {entry:?} {kind}");
        }
    }
}

#[test]
fn every_key_has_its_row_and_its_words() {
    let entries = entries();
    for entry in &entries {
        assert!(entry.form.is_some(), "{entry:?} is asked for but not read");
        let table = words::TABLES.iter().find(|table| table.0 == entry.table);
        assert!(table.is_some(), "{entry:?} has no table");
        assert!(words::meaning(&entry.table, &entry.key).is_some(), "{entry:?} has no words");
    }
    for (table, key, _) in words::MEANINGS {
        let is_used = |entry: &&Entry| entry.key == *key && entry.table.ends_with(table);
        assert!(entries.iter().any(|entry| is_used(&entry)), "{table} has no key {key}");
    }
}

/// An absent key becomes the default that the reference states.
#[test]
fn defaults_are_what_the_parser_fills_in() {
    let mut compared = 0;
    for (job, is_minimal) in examples::jobs() {
        let (normalised, keys) = read(&job);
        let given = Document::from_yaml(&job).expect("YAML").root;
        for key in keys.iter().filter(|_| is_minimal) {
            let pointer = pointer(&key.path);
            let (Some(default), None) = (&key.default, given.pointer(&pointer)) else { continue };
            let Some(filled) = normalised.pointer(&pointer).filter(|value| !value.is_null()) else {
                assert!(key.is_optional, "{key:?} has a default that is not filled in");
                continue;
            };
            let same = match (&key.form, filled, default) {
                (Some(Form::Plain("path")), filled, default) => {
                    let path = std::path::absolute(default.as_str().expect("a path"));
                    filled.as_str().map(Path::new) == path.ok().as_deref()
                }
                // Some settings keep 32 bits.
                (_, Value::Number(filled), Value::Number(default)) => {
                    let (filled, default) = (filled.as_f64(), default.as_f64());
                    filled.zip(default).is_some_and(|(one, other)| (one - other).abs() < 1e-6)
                }
                (_, filled, default) => filled == default,
            };
            assert!(same, "{key:?} becomes {filled}");
            compared += 1;
        }
    }
    assert!(compared > 60, "only {compared} defaults");
}
