//! `snapshot push` and `pull`, and `verify` and `inspect` of places that were pushed to.

use vstream_engine::{Element, Engine, Journaling, Metric, RemoteLevel, Row, Settings};

use crate::stage::Stage;

/// A closed collection in `kept` with a base image and a log after it.
pub fn stage_with_collection() -> Stage {
    let stage = Stage::new("exit 1");
    let settings = Settings::new(2, Metric::L2, Element::F32);
    let place = stage.path("kept");
    let mut engine = Engine::builder()
        .dir(&place)
        .journaling(Journaling::default())
        .create(settings)
        .expect("creates");
    let write = |engine: &mut Engine, ids: std::ops::Range<u64>| {
        for id in ids {
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
    };
    write(&mut engine, 0..40);
    engine.checkpoint().expect("a base image");
    write(&mut engine, 40..50);
    engine.close().expect("closes");
    stage
}

fn json(said: &str) -> serde_json::Value {
    serde_json::from_str(said).expect("JSON")
}

#[test]
fn a_collection_is_pushed_once_and_pulled_whole() {
    let stage = stage_with_collection();
    let push = || json(&stage.run(&["snapshot", "push", "kept", "far/a", "--json"]).out);
    let first = push();
    let files = first["files"].as_u64().expect("files");
    assert!(files >= 4, "{first}");
    assert_eq!((&first["number"], &first["sent-files"]), (&1.into(), &first["files"]));
    let second = push();
    assert_eq!((&second["number"], &second["sent-files"]), (&2.into(), &0.into()));
    let said = stage.run(&["inspect", "far/a"]);
    assert!(said.out.starts_with("far/a: 2 snapshots, the newest is 2: "), "{}", said.out);
    assert!(said.out.contains("  COLLECTION ") && !said.out.contains("LOCK"), "{}", said.out);
    let said = stage.run(&["verify", "far/a"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains(": 50 rows in "), "{}", said.out);
    let said = stage.run(&["snapshot", "pull", "far/a", "back", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(json(&said.out)["fetched-files"], files);
    let said = stage.run(&["verify", "back"]);
    assert!(said.out.contains(": 50 rows in "), "{}", said.out);
    let engine = Engine::open(&stage.path("back")).expect("opens");
    assert_eq!(engine.stats().index.live, 50);
    engine.close().expect("closes");
    let said = stage.run(&["snapshot", "pull", "far/a", "back"]);
    assert_eq!(said.code, Some(2), "it is a collection of its own now: {}", said.out);
}

/// A job's snapshot in `folder`, with one row for each partition.
fn job_snapshot(stage: &Stage, folder: &str, partitions: u64, version: u64) {
    for partition in 0..partitions {
        let settings = Settings::new(2, Metric::L2, Element::F32);
        let mut engine = Engine::create(settings).expect("creates");
        let row = Row {
            id: partition,
            version,
            code: 0,
            shard: 0,
            vector: &[1.0, 2.0],
            fields: Default::default(),
        };
        engine.upsert(&row).expect("accepted");
        engine.snapshot(&stage.path(&format!("{folder}/partition-{partition}"))).expect("writes");
    }
}

#[test]
fn a_job_snapshot_keeps_its_partitions() {
    let stage = Stage::new("exit 1");
    job_snapshot(&stage, "snapshot", 2, 1);
    let url = format!("file://{}", stage.path("far").display());
    assert_eq!(stage.run(&["snapshot", "push", "snapshot", &url]).code, Some(0));
    let said = stage.run(&["verify", &url]);
    assert!(said.out.contains(": 2 rows in "), "{}{}", said.out, said.err);
    assert_eq!(stage.run(&["snapshot", "pull", &url, "back"]).code, Some(0));
    let said = stage.run(&["inspect", "back"]);
    assert!(said.out.starts_with("2 vectors, 2 dimensions, l2, f32\n"), "{}", said.out);
}

/// What two pushes left is never taken for one snapshot, and what one left in part for none.
#[test]
fn partitions_of_two_pushes_are_not_mixed() {
    let stage = Stage::new("exit 1");
    job_snapshot(&stage, "first", 2, 1);
    job_snapshot(&stage, "second", 2, 2);
    job_snapshot(&stage, "smaller", 1, 3);
    assert_eq!(stage.run(&["snapshot", "push", "first", "far"]).code, Some(0));
    // A push that ended between two partitions: the second has a snapshot that the first lacks.
    assert_eq!(
        stage.run(&["snapshot", "push", "second/partition-0", "far/partition-0"]).code,
        Some(0)
    );
    let pulled = json(
        stage.run(&["snapshot", "pull", "far", "a", "--json"]).out.lines().next().expect("a line"),
    );
    assert_eq!(pulled["number"], 1, "the newest that all have");
    let said = stage.run(&["verify", "far"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("its push was interrupted"), "{}", said.out);
    // The next one has a number that none has yet.
    let said = stage.run(&["snapshot", "push", "second", "far", "--json"]);
    let numbers: Vec<_> = said.out.lines().map(|line| json(line)["number"].clone()).collect();
    assert_eq!(numbers, [3, 3]);
    assert_eq!(stage.run(&["snapshot", "pull", "far", "b"]).code, Some(0));
    let said = stage.run(&["verify", "b", "--json"]);
    let pushed = stage.run(&["verify", "second", "--json"]);
    assert_eq!(json(&said.out)["digest"], json(&pushed.out)["digest"]);
    // A snapshot of fewer partitions, or of none, would leave the others there.
    for (folder, to, why) in [
        ("smaller", "far", "partition-1"),
        ("second/partition-0", "far", "partitions of a job"),
        ("second", "far/partition-0", "of a collection"),
    ] {
        let said = stage.run(&["snapshot", "push", folder, to]);
        assert!(said.code == Some(2) && said.err.contains(why), "{folder} {to}: {}", said.err);
    }
    // Nothing is whole yet.
    assert_eq!(
        stage.run(&["snapshot", "push", "first/partition-0", "new/partition-0"]).code,
        Some(0)
    );
    std::fs::create_dir(stage.path("new/partition-1")).expect("a folder");
    for command in [&["verify", "new"][..], &["inspect", "new"], &["snapshot", "pull", "new", "c"]]
    {
        let said = stage.run(command);
        assert!(
            said.code == Some(1) && said.err.contains("interrupted"),
            "{command:?}: {}",
            said.err
        );
    }
}

#[test]
fn a_pull_of_partitions_goes_on_where_it_stopped() {
    let stage = Stage::new("exit 1");
    job_snapshot(&stage, "snapshot", 2, 1);
    assert_eq!(stage.run(&["snapshot", "push", "snapshot", "far"]).code, Some(0));
    // The first partition is whole, and the second was not begun.
    assert_eq!(
        stage.run(&["snapshot", "pull", "far/partition-0", "back/partition-0"]).code,
        Some(0)
    );
    let said = stage.run(&["snapshot", "pull", "far", "back"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = stage.run(&["verify", "back"]);
    assert!(said.out.contains(": 2 rows in "), "{}{}", said.out, said.err);
    // What is not whole is not taken for it.
    std::fs::write(stage.path("back/partition-0/MANIFEST"), "other").expect("a write");
    assert_eq!(stage.run(&["snapshot", "pull", "far", "back"]).code, Some(2));
}

#[test]
fn a_folder_that_is_not_whole_is_not_pushed() {
    let stage = stage_with_collection();
    std::fs::write(stage.path("kept/RESTORING"), "a list").expect("a write");
    let said = stage.run(&["snapshot", "push", "kept", "far"]);
    assert!(said.code == Some(2) && said.err.contains("being restored"), "{}", said.err);
    // A job ended while it put its snapshot there.
    job_snapshot(&stage, "snapshot", 1, 1);
    job_snapshot(&stage, "snapshot/placing", 2, 1);
    for command in [&["snapshot", "push", "snapshot", "far"][..], &["verify", "snapshot"]] {
        let said = stage.run(command);
        assert!(said.code == Some(1) && said.err.contains("placing"), "{command:?}: {}", said.err);
    }
}

#[test]
fn a_pushed_segment_is_described_where_it_is() {
    let stage = Stage::new("exit 1");
    let segment = concat!(env!("CARGO_MANIFEST_DIR"), "/../segment/tests/fixtures/cluster-v1.seg");
    std::fs::create_dir(stage.path("segments")).expect("a folder");
    std::fs::copy(segment, stage.path("segments/one.seg")).expect("a copy");
    assert_eq!(stage.run(&["snapshot", "push", "segments", "far"]).code, Some(0));
    let url = format!("file://{}", stage.path("far/one.seg").display());
    let said = stage.run(&["inspect", &url, "--blocks"]);
    assert!(said.out.starts_with("60 vectors, 20 dimensions, l2"), "{}{}", said.out, said.err);
    let said = stage.run(&["verify", "far"]);
    assert!(said.out.starts_with("All is as it was written: "), "{}{}", said.out, said.err);
}

/// One bit anywhere in what was pushed: every byte of every object, in turn.
#[test]
fn verify_finds_a_flipped_bit_of_any_object() {
    let stage = stage_with_collection();
    assert_eq!(stage.run(&["snapshot", "push", "kept", "far"]).code, Some(0));
    let objects: Vec<_> = std::fs::read_dir(stage.path("far"))
        .expect("a folder")
        .map(|entry| entry.expect("an object").path())
        .collect();
    let mut flipped = 0;
    for path in objects {
        let good = std::fs::read(&path).expect("bytes");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for at in (0..good.len()).step_by(good.len() / 7 + 1) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bad).expect("a write");
            let said = stage.run(&["verify", "far", "--json"]);
            assert_eq!(said.code, Some(1), "byte {at} of {name}: {}", said.out);
            let what = json(&said.out)["findings"][0]["what"].to_string();
            assert!(what.contains(&name), "byte {at} of {name}: {what}");
            flipped += 1;
        }
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(stage.run(&["verify", "far"]).code, Some(1), "{name} is gone");
        std::fs::write(&path, &good).expect("a write");
    }
    assert!(flipped >= 30, "only {flipped}");
    assert_eq!(stage.run(&["verify", "far"]).code, Some(0));
}

#[test]
fn what_cannot_be_moved_is_refused_in_a_sentence() {
    let stage = stage_with_collection();
    let says = |arguments: &[&str], code: i32, text: &str| {
        let said = stage.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{}", said.err);
        assert!(said.err.contains(text), "{}", said.err);
    };
    says(&["snapshot", "push", "kept", "ftp://x"], 2, "is no kind of store");
    says(&["snapshot", "push", "kept", "s3://key@x"], 2, "no credentials");
    says(&["snapshot", "push", "nowhere", "far"], 1, "nowhere");
    says(&["snapshot", "pull", "nowhere", "back"], 1, "nothing was pushed");
    says(&["snapshot", "pull", "data", "back"], 1, "No snapshot was pushed to data");
    let engine = Engine::open(&stage.path("kept")).expect("opens");
    says(&["snapshot", "push", "kept", "far"], 1, "close it first");
    drop(engine);
    says(&["snapshot", "push", "kept", "kept"], 2, "kept has a file COLLECTION");
}

/// A push has the segments of a remote level too: what is pulled needs no other folder, and the original goes on.
#[test]
fn a_remote_level_is_pushed_with_the_rest() {
    const DIMENSION: usize = 64;
    let stage = Stage::new("exit 1");
    let vector =
        |id: u64| -> Vec<f32> { (0..64).map(|at| ((id * 31 + at) % 257) as f32).collect() };
    let settings =
        Settings { memory: Some(1 << 20), ..Settings::new(DIMENSION, Metric::L2, Element::F32) };
    let level = RemoteLevel::at(stage.path("level").to_str().expect("UTF-8"), 0).expect("a folder");
    let kept = stage.path("kept");
    let builder = Engine::builder().dir(&kept);
    let mut engine = builder.remote(level).create(settings).expect("creates");
    let write = |engine: &mut Engine, version: u64| {
        for id in 0..8_000 {
            let vector = vector(id + version);
            let fields = Default::default();
            let row = Row { id, version, code: id, shard: 0, vector: &vector, fields };
            engine.upsert(&row).expect("accepted");
        }
        engine.checkpoint().expect("a segment");
        engine.place_segments().expect("placed");
    };
    write(&mut engine, 1);
    let away = engine.remote_stats().expect("a remote level").remote_segments;
    assert!(away > 0, "no segment is away");
    engine.close().expect("closes");
    let done = |arguments: &[&str]| {
        let said = stage.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.err);
        said.out
    };
    done(&["snapshot", "push", "kept", "far"]);
    assert!(done(&["verify", "far"]).contains(": 8,000 rows in "));
    done(&["snapshot", "pull", "far", "back"]);
    // Neither needs what the other changes.
    let mut engine = Engine::open(&stage.path("kept")).expect("opens");
    write(&mut engine, 2);
    engine.close().expect("closes");
    let mut back = Engine::open(&stage.path("back")).expect("opens");
    let mut rows = 0;
    let counted = back.pin().for_each_row(&mut |row| {
        assert_eq!((row.version, row.vector.to_vec()), (1, vector(row.id + 1)));
        rows += 1;
    });
    counted.expect("rows that can be read");
    assert_eq!(rows, 8_000);
    write(&mut back, 3);
    back.close().expect("closes");
    let said = done(&["verify", "kept"]);
    assert!(said.contains(": 8,000 rows in "), "{said}");
    std::fs::rename(stage.path("level"), stage.path("elsewhere")).expect("renames");
    for arguments in [&["verify", "kept"][..], &["snapshot", "push", "kept", "far"][..]] {
        let said = stage.run(arguments);
        assert!(said.code == Some(1) && said.err.contains("which is not there"), "{}", said.err);
    }
    assert!(!stage.path("level").exists(), "a command that reads makes no folder");
}
