//! `inspect` and `search` on snapshots that the engine wrote.

use std::sync::Arc;

use vstream_engine::{
    AttributeKind, AttributesBuilder, Element, Engine, Fields, IdKind, Journaling, Metric, Row,
    Schema, Settings, ValueRef,
};

use crate::stage::Stage;

/// A job's snapshot of two partitions: ids 0..100 and 100..200, row i = (i + 1, 1, 2, 3); id 5 is
/// in both, older and a little elsewhere in the second.
fn stage_with_snapshot() -> Stage {
    let stage = Stage::new("exit 1");
    for partition in 0..2u64 {
        let mut engine =
            Engine::create(Settings::new(4, Metric::L2, Element::F32)).expect("creates");
        let mut write = |id: u64, version: u64, first: f32| {
            let vector = [first, 1.0, 2.0, 3.0];
            let row = Row {
                id,
                version,
                code: id,
                shard: (id % 7) as u16,
                vector: &vector,
                fields: Default::default(),
            };
            engine.upsert(&row).expect("accepted");
        };
        for id in partition * 100..(partition + 1) * 100 {
            write(id, 10, (id + 1) as f32);
        }
        if partition == 1 {
            write(5, 9, 6.5);
        }
        engine.snapshot(&stage.path(&format!("snapshot/partition-{partition}"))).expect("writes");
    }
    stage
}

#[test]
fn a_job_snapshot_is_described() {
    let stage = stage_with_snapshot();
    let said = stage.run(&["inspect", "snapshot"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("201 vectors, 4 dimensions, l2, f32\n"), "{}", said.out);
    assert!(said.out.contains("partition-1"));
    let said = stage.run(&["inspect", "snapshot/partition-0", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((&json["rows"], &json["metric"]), (&100.into(), &"l2".into()));
    assert_eq!(json["partitions"][0]["files"].as_array().map(Vec::len), Some(7));
}

/// Rows of a partition that is not there are missed, by whoever reads a snapshot or sends it away.
#[test]
fn a_partition_that_is_missing_is_noticed() {
    let manifest = "snapshot/partition-0/MANIFEST";
    let removals: [&dyn Fn(&Stage); 2] =
        [&|stage| std::fs::remove_file(stage.path(manifest)).expect("removes"), &|stage| {
            std::fs::remove_dir_all(stage.path("snapshot/partition-0")).expect("removes")
        }];
    for remove in removals {
        let stage = stage_with_snapshot();
        remove(&stage);
        for arguments in [
            &["verify", "snapshot"][..],
            &["inspect", "snapshot"],
            &["search", "snapshot", "--vector", "[1, 1, 2, 3]"],
            &["snapshot", "push", "snapshot", "far"],
        ] {
            let said = stage.run(arguments);
            assert_eq!(said.code, Some(1), "{arguments:?}: {} {}", said.out, said.err);
            assert!(said.err.contains("partition-0"), "{arguments:?}: {}", said.err);
        }
        assert!(!stage.path("far").exists(), "nothing is sent");
    }
}

#[test]
fn a_segment_is_described_block_by_block() {
    let stage = Stage::new("exit 1");
    let segment = concat!(env!("CARGO_MANIFEST_DIR"), "/../segment/tests/fixtures/cluster-v1.seg");
    let said = stage.run(&["inspect", segment, "--blocks"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("60 vectors, 20 dimensions, l2, f32, cluster with 2 leaves"));
    assert_eq!(said.out.matches("\n  leaf ").count(), 3, "{}", said.out);
    assert!(said.out.contains("  leaf 0: 32 rows, decimal pack, "), "{}", said.out);
    let said = stage.run(&["inspect", segment, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((&json["rows"], &json["leaves"]), (&60.into(), &2.into()));
    let bytes = std::fs::read(segment).expect("a fixture");
    std::fs::write(stage.path("torn.seg"), &bytes[..bytes.len() - 1]).expect("writes");
    let said = stage.run(&["inspect", "torn.seg"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("torn.seg"), "{}", said.err);
}

#[test]
fn all_partitions_are_searched_and_an_id_appears_once() {
    let stage = stage_with_snapshot();
    for effort in [&["--exact"][..], &[]] {
        let mut arguments = vec![
            "search",
            "--snapshot",
            "snapshot",
            "--vector",
            "[6, 1, 2, 3]",
            "-k",
            "3",
            "--json",
        ];
        arguments.extend(effort);
        let said = stage.run(&arguments);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let answer: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(answer["distances"], serde_json::json!([0.0, 1.0, 1.0]));
        assert_eq!(answer["ids"], serde_json::json!([5, 4, 6]), "the newest version of 5, once");
    }
}

#[test]
fn queries_come_from_a_file_and_ids_get_names() {
    let stage = stage_with_snapshot();
    let names: String = (0..200).map(|i| format!("word{i}\n")).collect();
    stage.write("names.txt", &names);
    let said = stage.run(&[
        "search",
        "--snapshot",
        "snapshot",
        "--query-id",
        "9",
        "-k",
        "2",
        "--queries",
        "data/query.fbin",
        "--names",
        "names.txt",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let first = said.out.lines().nth(1).expect("a neighbour");
    assert!(first.contains("word9 ") && first.ends_with("0.000000"), "{}", said.out);
    let random = || {
        let arguments = ["search", "--snapshot", "snapshot", "--random", "3", "--queries"];
        stage.run(&[&arguments[..], &["data/query.fbin"]].concat()).out
    };
    assert_eq!(random(), random(), "chance has a fixed seed");
    assert_eq!(random().lines().count(), 33);
}

#[test]
fn what_cannot_be_searched_is_refused_in_a_sentence() {
    let stage = stage_with_snapshot();
    let says = |arguments: &[&str], code: i32| {
        let said = stage.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{}", said.err);
        said.err
    };
    let search = |vector: &'static str, k: &'static str| {
        ["search", "--snapshot", "snapshot", "--vector", vector, "-k", k]
    };
    assert!(says(&search("1, 2", "1"), 2).contains("is not a JSON array of numbers"));
    assert!(says(&search("[1, 2]", "1"), 1).contains("dimension"));
    assert!(says(&search("[1, 2, 3, 4]", "0"), 1).contains("k is 0"));
    assert!(says(&["inspect", "data"], 2).contains("There is no snapshot in data."));
    let beyond =
        ["search", "--snapshot", "snapshot", "--query-id", "10", "--queries", "data/query.fbin"];
    assert!(says(&beyond, 2).contains("Give a row from 0 to 9."));
    let manifest = stage.path("snapshot/partition-0/MANIFEST");
    let mut bytes = std::fs::read(&manifest).expect("reads");
    bytes[9] ^= 1;
    std::fs::write(&manifest, bytes).expect("writes");
    assert!(says(&["inspect", "snapshot"], 1).contains("MANIFEST"));
}

#[test]
fn inspect_names_the_files_of_a_collection() {
    let stage = stage_with_snapshot();
    let place = stage.path("kept");
    let settings = Settings { memory: Some(1 << 16), ..Settings::new(2, Metric::L2, Element::F32) };
    let mut engine = Engine::builder()
        .dir(&place)
        .journaling(Journaling::default())
        .create(settings)
        .expect("creates");
    for id in 0..50 {
        let row = Row {
            id,
            version: 1,
            code: id,
            shard: 0,
            vector: &[id as f32, 1.0],
            fields: Default::default(),
        };
        engine.upsert(&row).expect("accepted");
    }
    engine.checkpoint().expect("a segment");
    engine.delete(7, 1).expect("a delete");
    engine
        .upsert(&Row {
            id: 60,
            version: 1,
            code: 0,
            shard: 0,
            vector: &[1.0, 1.0],
            fields: Default::default(),
        })
        .expect("ok");
    engine.checkpoint().expect("another");
    engine.close().expect("closes");
    let said = stage.run(&["inspect", "kept"]);
    assert!(said.out.starts_with("50 vectors after write 52, 2 dimensions"), "{}", said.out);
    assert!(said.out.contains("integer pack 0."), "{}", said.out);
    assert!(said.out.contains(" leaves in 2 of 2 segments, "), "{}", said.out);
    assert!(said.out.contains("left over            0 leaves with 0 rows"), "{}", said.out);
    let said = stage.run(&["inspect", "kept", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let first = &json["segments"][0];
    assert_eq!(first["name"], "segment-0000000001");
    assert_eq!((&first["rows"], &first["gone"]), (&50.into(), &1.into()));
    let leaves = &json["leaves"];
    let own = &first["leaves"];
    assert_eq!(own["runs"], own["defined"], "the first segment defines its leaves");
    assert!(own["defined"].as_u64() > Some(0) && leaves["left-over-rows"] == 0, "{leaves}");
    let mean = leaves["rows-per-leaf"]["mean"].as_f64().expect("a number");
    let defined = leaves["defined"].as_f64().expect("a number");
    assert!((mean * defined - 51.0).abs() < 1e-6, "{leaves}");
    let codecs = first["codecs"].as_object().expect("codecs");
    let raw = codecs.values().map(|of| of["raw-bytes"].as_u64().expect("a number"));
    assert_eq!(raw.sum::<u64>(), 50 * 2 * 4);
    assert_eq!(json["segments"].as_array().expect("a list").len(), 2);
    assert_eq!(json["logs"].as_array().expect("a list").len(), 1);
    std::fs::write(place.join("segment-0000000001"), b"torn").expect("writes");
    let said = stage.run(&["inspect", "kept"]);
    assert!(said.code != Some(0) && said.err.contains("segment-0000000001"), "{}", said.err);
}

#[test]
fn inspect_counts_what_rows_carry() {
    let stage = Stage::new("exit 1");
    let place = stage.path("shop");
    let attributes = [("price", AttributeKind::F64), ("colour", AttributeKind::Keyword)];
    let schema = Schema::new(attributes).expect("a schema");
    let schema = Arc::new(Schema { id: IdKind::String, id_key: [0xab; 16], ..schema });
    let (memory, schema_of) = (Some(1 << 16), schema.clone());
    let plain = Settings::new(64, Metric::L2, Element::F32);
    let settings = Settings { memory, schema: schema_of, ..plain };
    let mut engine = Engine::builder()
        .dir(&place)
        .journaling(Journaling::default())
        .create(settings)
        .expect("creates");
    let (hash, mut builder) = (schema.name_hash(), AttributesBuilder::default());
    for number in 0..300usize {
        let vector: Vec<f32> = (0..64).map(|at| ((number * 31 + at * 7) % 97) as f32).collect();
        builder.clear();
        builder.set(&schema, 0, &ValueRef::F64((number % 7) as f64)).expect("a value");
        if number % 3 > 0 {
            let colour = ["red", "green", "blue"][number % 2 + number % 3 - 1];
            builder.set(&schema, 1, &ValueRef::Keyword(colour)).expect("a value");
        }
        let name = format!("thing {number}");
        let hashed = hash.hash(&name).expect("a name");
        let payload = (number % 2 == 0).then_some(&b"a payload that is not looked into"[..]);
        let attributes = builder.build();
        let fields = Fields { name: &name, check: hashed.check, attributes, payload };
        let row = Row { id: hashed.id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("accepted");
        // Two segments, whose values are counted together.
        if number == 150 {
            engine.checkpoint().expect("a segment");
        }
    }
    engine.checkpoint().expect("another");
    engine.close().expect("closes");
    let said = stage.run(&["inspect", "shop"]);
    for part in ["price", "colour", "text ids", "payloads, texts", "different"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let said = stage.run(&["inspect", "shop", "--json"]);
    assert!(!said.out.contains("abababab"), "the key of the ids is shown: {}", said.out);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["schema"]["id"], "string");
    let segments = json["segments"].as_array().expect("a list");
    let fields = &json["fields"];
    let columns = fields["columns"].as_array().expect("a list");
    let counts = |at: usize| {
        let of = |key: &str| columns[at][key].clone();
        (of("name"), of("type"), of("rows"), of("different"))
    };
    assert_eq!(counts(0), ("price".into(), "f64".into(), 300.into(), 7.into()));
    assert_eq!(counts(1), ("colour".into(), "keyword".into(), 200.into(), 3.into()));
    // Every text id is there as it is, and every block has a checksum.
    assert!(fields["id-bytes"].as_u64().expect("bytes") > 300 * 7, "{fields}");
    assert!(fields["payload-bytes"].as_u64().expect("bytes") > 0, "{fields}");
    let of_file: u64 = segments.iter().map(|of| of["bytes"].as_u64().expect("bytes")).sum();
    let of_fields = columns.iter().map(|of| of["bytes"].as_u64().expect("bytes")).sum::<u64>();
    assert!(of_fields > 0 && of_fields < of_file);
    // A segment alone does not know the names of its columns.
    let name = format!("shop/{}", segments[0]["name"].as_str().expect("a name"));
    let said = stage.run(&["inspect", &name, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["fields"]["columns"][1]["name"], "column 1");
}

/// One bit anywhere in a snapshot or a collection is found, and its file is named.
#[test]
fn verify_finds_a_flipped_bit() {
    let stage = stage_with_snapshot();
    let settings = Settings::new(2, Metric::L2, Element::F32);
    let place = stage.path("kept");
    let mut engine = Engine::builder()
        .dir(&place)
        .journaling(Journaling::default())
        .create(settings)
        .expect("creates");
    for id in 0..50 {
        let row = Row {
            id,
            version: 1,
            code: id,
            shard: 0,
            vector: &[id as f32, 1.0],
            fields: Default::default(),
        };
        engine.upsert(&row).expect("accepted");
    }
    engine.close().expect("closes");
    for (folder, rows) in [("snapshot", 201), ("snapshot/partition-1", 101), ("kept", 50)] {
        let said = stage.run(&["verify", folder]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains(&format!("{rows} rows")), "{}", said.out);
    }
    for file in ["snapshot/partition-1/shard-003.rows", "kept/log-0000000001", "kept/COLLECTION"] {
        let path = stage.path(file);
        let good = std::fs::read(&path).expect("bytes");
        for at in [0, good.len() / 3, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, &bad).expect("a write");
            let folder = file.split_once('/').expect("a folder").0;
            let said = stage.run(&["verify", folder, "--json"]);
            assert_eq!(said.code, Some(1), "byte {at} of {file}: {}", said.out);
            let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
            let what = json["findings"][0]["what"].as_str().expect("a sentence");
            assert!(what.contains(file), "byte {at} of {file}: {what}");
        }
        std::fs::write(&path, &good).expect("a write");
    }
    assert_eq!(stage.run(&["verify", "nowhere"]).code, Some(1));
}
