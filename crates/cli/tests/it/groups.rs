//! `search`, `inspect` and `verify` on a directory of isolated groups.

use std::fs;
use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Element, Engine, Fields, Grouping, IdKind, Metric, Row,
    Schema, Settings, ValueRef,
};
use vstream_group::{GroupSettings, GroupStore, RowRef};

use crate::stage::Stage;

const SUBJECTS: [&str; 4] =
    ["Your invoice of May", "Lunch on Friday", "Invoice overdue", "Notes of the meeting"];

/// Two mailboxes of 64 messages; message i of a mailbox is at (i, 0, 0, 0).
fn mailboxes() -> Stage {
    let stage = Stage::new("exit 1");
    let attributes = [("subject", AttributeKind::Text), ("stars", AttributeKind::I64)];
    let mut schema = Schema::new(attributes).expect("a schema");
    schema.id = IdKind::String;
    schema.set_grouping(Grouping::Isolated).expect("groups");
    let settings = GroupSettings::new(4, Metric::L2, Element::F32);
    let settings = GroupSettings { schema: schema.clone(), ..settings };
    let mut store = GroupStore::open_dir(&stage.path("mail"), settings).expect("a store");
    let hash = store.settings().name_hash();
    let mut builder = AttributesBuilder::default();
    for (group, from) in [("ann", 0), ("bob", 100)] {
        for at in 0..64usize {
            let name = format!("{group}-{at}");
            let id = hash.hash(&name).expect("an id");
            builder.clear();
            builder.set(&schema, 0, &ValueRef::Text(SUBJECTS[at % 4])).expect("a value");
            builder.set(&schema, 1, &ValueRef::I64(at as i64 % 5)).expect("a value");
            let attributes = builder.build();
            let fields = Fields { name: &name, check: id.check, attributes, payload: Some(b"{}") };
            let vector = [(from + at) as f32, 0.0, 0.0, 0.0];
            let row = RowRef { id: id.id, version: 1, vector: &vector, fields };
            store.upsert(group, &row).expect("a good row");
        }
        store.flush().expect("a run");
    }
    store.commit().expect("a commit");
    stage
}

#[test]
fn one_group_is_searched_by_vector_words_and_rank() {
    let stage = mailboxes();
    let said =
        stage.run(&["search", "mail", "--group", "ann", "--vector", "[100, 0, 0, 0]", "-k2"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("ann-63") && said.out.contains("ann-62"), "{}", said.out);
    assert!(!said.out.contains("bob"), "{}", said.out);
    let words = [
        "search",
        "mail",
        "--group",
        "bob",
        "--text",
        "invoice -overdue",
        "--rank",
        "attribute(stars) * $w",
        "--param",
        "w=2",
        "--where",
        "stars >= 3",
        "--with",
        "subject,payload",
        "-k",
        "5",
        "--json",
    ];
    let said = stage.run(&words);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let scores: Vec<f64> =
        json["scores"].as_array().expect("scores").iter().filter_map(|x| x.as_f64()).collect();
    assert_eq!(scores.len(), 5);
    assert!(scores.iter().all(|score| [6.0, 8.0].contains(score)), "{scores:?}");
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    for row in json["rows"].as_array().expect("rows") {
        assert_eq!(row["subject"], SUBJECTS[0]);
        assert_eq!(row["payload"], serde_json::json!({}));
        assert!(row.get("stars").is_none());
    }
}

#[test]
fn what_cannot_be_asked_of_groups_is_said() {
    let stage = mailboxes();
    for (arguments, wanted) in [
        (&["search", "mail", "--text", "invoice"][..], "--group"),
        (&["search", "mail", "--group", "ann"], "vector"),
        (&["search", "mail", "--group", "ann", "--text", "title:x"], "title"),
        (&["search", "mail", "--group", "ann", "--rank", "closenes"], "--rank"),
        (&["search", "mail", "--group", "ann", "--rank", "$w", "--param", "w=x"], "--param"),
        (&["search", "mail", "--group", "ann", "--text", "x", "--with", "color"], "color"),
    ] {
        let said = stage.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {} {}", said.out, said.err);
        assert!(said.err.contains(wanted), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn groups_are_described_and_verified() {
    let stage = mailboxes();
    let said = stage.run(&["inspect", "mail"]);
    assert!(said.out.starts_with("isolated groups, 4 dimensions, l2, f32\n"), "{}", said.out);
    let said = stage.run(&["inspect", "mail", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["attributes"]["subject"], "text");
    let runs = json["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.iter().filter_map(|run| run["rows"].as_u64()).sum::<u64>(), 128);
    let said = stage.run(&["verify", "mail"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("128 rows in 4 files"), "{}", said.out);
    let run = stage.path("mail").join(runs[0]["name"].as_str().expect("a name"));
    let whole = fs::read(&run).expect("a run");
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&run, &bytes).expect("writes");
        let said = stage.run(&["verify", "mail", "--json"]);
        assert_eq!(said.code, Some(1), "byte {at} of {}: {}", whole.len(), said.out);
        let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(json["findings"].as_array().map(Vec::len), Some(1), "byte {at}: {json}");
    }
}

#[test]
fn a_shared_group_of_a_snapshot_is_searched() {
    let stage = Stage::new("exit 1");
    let mut schema = Schema::default();
    schema.set_grouping(Grouping::Shared).expect("groups");
    let settings = Settings::new(4, Metric::L2, Element::F32);
    let mut engine =
        Engine::create(Settings { schema: Arc::new(schema.clone()), ..settings }).expect("creates");
    let mut builder = AttributesBuilder::default();
    for id in 0..60u64 {
        builder.clear();
        let group = ValueRef::Keyword(["ann", "bob", "eve"][id as usize % 3]);
        builder.set(&schema, 0, &group).expect("a value");
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let vector = [id as f32, 0.0, 0.0, 0.0];
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
    }
    engine.snapshot(&stage.path("notes")).expect("writes");
    let asked = ["search", "notes", "--vector", "[0, 0, 0, 0]", "-k", "3", "--json"];
    let said = stage.run(&[&asked[..], &["--group", "bob"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["ids"], serde_json::json!([1, 4, 7]));
    let said = stage.run(&asked);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["ids"], serde_json::json!([0, 1, 2]));
    let said = stage.run(&[&asked[..], &["--text", "x"]].concat());
    assert_eq!(said.code, Some(2));
}
