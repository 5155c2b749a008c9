//! A reader of a job whose checkpoints are in an object store, against a real server that speaks S3:
//! `make test-s3` starts one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vstream_ask::{AskError, JobReader, Question};
use vstream_store::remote::Location;

use crate::job::{publish, serve, templates};
use crate::reading::{exact, job, options, rows, Random, COLLECTION, K, SEED};

/// Copies what was published in a folder to a bucket, as a job with checkpoints there publishes it.
fn copy(folder: &Path, checkpoints: &str) {
    let to = Location::parse(checkpoints).unwrap().join("vstream-reads").open().expect("a store");
    for entry in fs::read_dir(folder.join("vstream-reads")).expect("a folder") {
        let entry = entry.expect("an entry");
        let bytes = fs::read(entry.path()).expect("bytes");
        to.replace(entry.file_name().to_str().unwrap(), &bytes).expect("a write");
    }
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_job_with_checkpoints_in_a_bucket_is_asked_and_followed() {
    let server = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let checkpoints = format!("{server}/ask-{now}");
    let nobody = JobReader::new(&checkpoints, "", options(300)).unwrap().collection();
    let Err(AskError::Unavailable(why)) = nobody else { panic!("{nobody:?}") };
    assert!(why.contains(&checkpoints) && why.contains("no job has published"), "{why}");

    let folder = tempfile::tempdir().unwrap();
    let (partitions, mut ports) = job(folder.path());
    copy(folder.path(), &checkpoints);
    let mut reader = JobReader::new(&checkpoints, "", options(20_000)).unwrap();
    let mut random = Random(SEED ^ 3);
    let ask = |reader: &mut JobReader, vector: &[f32]| -> Vec<u64> {
        let answer = reader.search(&Question::new(vector, K)).unwrap();
        answer.rows.iter().map(|row| row.id).collect()
    };
    let ids = |found: Vec<(u64, f32)>| found.into_iter().map(|row| row.0).collect::<Vec<u64>>();
    for _ in 0..20 {
        let vector = random.vector();
        assert_eq!(ask(&mut reader, &vector), ids(exact(&partitions, &vector)));
    }

    // A partition is elsewhere by now: what the bucket says is found within the time of a look.
    let (moved, port) = serve(rows(&mut random, 5_000..6_000));
    ports[2] = port;
    publish(folder.path(), &ports, COLLECTION, &templates(0, 0, &[], &[]));
    copy(folder.path(), &checkpoints);
    let partitions = [partitions[0].clone(), partitions[1].clone(), moved];
    let vector = random.vector();
    let wanted = ids(exact(&partitions, &vector));
    let begun = Instant::now();
    while ask(&mut reader, &vector) != wanted {
        assert!(begun.elapsed() < Duration::from_secs(60), "it asks the old partition");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_store_that_is_away_is_said_to_be() {
    let server = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let bucket = server.split('?').next().expect("an address");
    // Nobody listens at this port.
    let away = format!("{bucket}/ask?endpoint=http://127.0.0.1:9");
    let begun = Instant::now();
    let asked = JobReader::new(&away, "", options(1_000)).unwrap().collection();
    assert!(matches!(asked, Err(AskError::Unavailable(_))), "{asked:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "it does not wait for ever");
}
