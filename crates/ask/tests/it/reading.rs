//! What a reader finds, and what it says where it finds nothing.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use vstream_ask::{AskError, Effort, JobReader, Question, ReadOptions};
use vstream_route::Template;
use vstream_settings::CollectionSettings;

use crate::job::{l2, publish, serve, templates, Partition, Shared};

const DIMENSION: usize = 64;
pub(crate) const COLLECTION: &str = r#"{"dimension": 64, "metric": "l2", "seed": 7}"#;
pub(crate) const K: usize = 10;
pub(crate) const SEED: u64 = 20_261_126;

/// Numbers of a generator (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32).collect()
    }
}

pub(crate) fn rows(random: &mut Random, ids: std::ops::Range<u64>) -> Partition {
    let rows = ids.map(|id| (id, 1, random.vector(), Some(format!("row {id}").into_bytes())));
    Partition { rows: rows.collect(), watermark: 5, offsets: vec![9, 7], ..Partition::default() }
}

pub(crate) fn options(millis: u64) -> ReadOptions {
    ReadOptions { deadline: Duration::from_millis(millis), ..ReadOptions::default() }
}

fn reader(folder: &Path, millis: u64) -> JobReader {
    JobReader::new(&folder.display().to_string(), "", options(millis)).unwrap()
}

/// Three partitions of a thousand rows each, before the first template.
pub(crate) fn job(folder: &Path) -> (Vec<Shared>, Vec<u16>) {
    let mut random = Random(SEED);
    let parts = (0..3u64).map(|i| serve(rows(&mut random, i * 1_000..(i + 1) * 1_000)));
    let (partitions, ports): (Vec<_>, Vec<_>) = parts.unzip();
    publish(folder, &ports, COLLECTION, &templates(0, 0, &[], &[]));
    (partitions, ports)
}

pub(crate) fn exact(partitions: &[Shared], vector: &[f32]) -> Vec<(u64, f32)> {
    let mut all = Vec::new();
    for partition in partitions {
        let partition = partition.lock().unwrap();
        all.extend(partition.rows.iter().map(|row| (row.0, l2(vector, &row.2))));
    }
    all.sort_by(|left, right| left.1.total_cmp(&right.1).then(left.0.cmp(&right.0)));
    all.truncate(K);
    all
}

#[test]
fn answers_are_those_of_all_partitions_together() {
    let folder = tempfile::tempdir().unwrap();
    let (partitions, _) = job(folder.path());
    partitions[1].lock().unwrap().offsets = vec![8, 8, 1];
    let mut reader =
        JobReader::new(&format!("file://{}", folder.path().display()), "", options(20_000))
            .unwrap();
    let mut random = Random(SEED ^ 1);
    for _ in 0..50 {
        let vector = random.vector();
        let question = Question { payload: true, ..Question::new(&vector, K) };
        let answer = reader.search(&question).unwrap();
        let found: Vec<_> = answer.rows.iter().map(|row| (row.id, row.distance)).collect();
        assert_eq!(found, exact(&partitions, &vector), "seed {SEED}");
        for row in &answer.rows {
            let payload = row.fields.fields().payload.map(<[u8]>::to_vec);
            assert_eq!(payload, Some(format!("row {}", row.id).into_bytes()));
        }
        assert_eq!((answer.fan_out, answer.is_partial), (3, false));
        assert_eq!(answer.frontier.watermark, 5);
        assert_eq!(answer.frontier.offsets, [8, 7, -1], "what all have applied");
    }
}

#[test]
fn a_template_says_who_is_asked_and_a_newer_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (partitions, ports) = job(folder.path());
    let settings = CollectionSettings::from_json(
        r#"{"dimension": 64, "metric": "l2", "seed": 7, "encoder": {"kind": "cells", "cells": 16}}"#,
    )
    .unwrap();
    let mut random = Random(SEED ^ 2);
    // Around sixteen centers, so that most queries have few partitions to ask.
    let centers: Vec<Vec<f32>> = (0..16).map(|_| random.vector()).collect();
    let near = |center: usize, random: &mut Random| -> Vec<f32> {
        centers[center].iter().zip(random.vector()).map(|(at, off)| at + 0.1 * off).collect()
    };
    let sample: Vec<f32> = (0..1_600).flat_map(|i| near(i % 16, &mut random)).collect();
    let template = |epoch| Template::train(&settings.route(), &sample, epoch).unwrap().to_bytes();
    // All know the template of run 4: settled, its step 4 of 8.
    let at = |epoch: i64, step: i64| {
        for partition in &partitions {
            let mut partition = partition.lock().unwrap();
            (partition.run, partition.position) = (4, epoch * 8 + step);
        }
    };
    at(1, 4);
    publish(folder.path(), &ports, COLLECTION, &templates(4, 1, &[], &template(1)));
    let mut reader = reader(folder.path(), 20_000);
    let few = (0..16).map(|center| near(center, &mut random)).find(|vector| {
        let answer = reader.search(&Question::new(vector, K)).unwrap();
        let exact = Question { effort: Effort::Exact, ..Question::new(vector, K) };
        assert_eq!(reader.search(&exact).unwrap().fan_out, 3);
        answer.fan_out < 3
    });
    let vector = few.expect("a query that does not ask all");
    // They hear of another one, which the reader does not know: it must look before it answers.
    at(2, 0);
    let known =
        (folder.path().to_owned(), ports.clone(), templates(4, 2, &template(1), &template(2)));
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        let (folder, ports, templates) = known;
        publish(&folder, &ports, COLLECTION, &templates);
    });
    let began = Instant::now();
    let answer = reader.search(&Question::new(&vector, K)).unwrap();
    assert!(answer.fan_out < 3);
    assert!(began.elapsed() >= Duration::from_millis(250), "it waits for what it does not know");
    later.join().unwrap();
}

#[test]
fn answers_from_before_and_after_a_row_may_have_gone_do_not_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let (partitions, _) = job(folder.path());
    partitions[0].lock().unwrap().position = 2 * 8 + 3;
    partitions[1].lock().unwrap().position = 2 * 8 + 2;
    partitions[2].lock().unwrap().position = 2 * 8 + 3;
    let vector = Random(SEED).vector();
    let refused = reader(folder.path(), 2_000).search(&Question::new(&vector, K)).unwrap_err();
    assert!(refused.to_string().ends_with("rows are changing partition"), "{refused}");
    partitions[1].lock().unwrap().position = 2 * 8 + 4;
    reader(folder.path(), 20_000).search(&Question::new(&vector, K)).unwrap();
}

#[test]
fn a_reader_finds_partitions_that_are_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (partitions, mut ports) = job(folder.path());
    let mut reader = reader(folder.path(), 20_000);
    let vector = Random(SEED ^ 3).vector();
    reader.search(&Question::new(&vector, K)).unwrap();
    // The old partition has no time any more; the new one has its rows.
    let rows = partitions[2].lock().unwrap().clone();
    partitions[2].lock().unwrap().without = Some((2, "I am no partition any more.".to_owned()));
    let (moved, port) = serve(rows);
    ports[2] = port;
    let folder_of = folder.path().to_owned();
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        publish(&folder_of, &ports, COLLECTION, &templates(1, 0, &[], &[]));
    });
    let answer = reader.search(&Question::new(&vector, K)).unwrap();
    let all = [partitions[0].clone(), partitions[1].clone(), moved.clone()];
    let found: Vec<_> = answer.rows.iter().map(|row| (row.id, row.distance)).collect();
    assert_eq!(found, exact(&all, &vector));
    assert!(moved.lock().unwrap().asked > 0);
    later.join().unwrap();
}

#[test]
fn what_is_wrong_is_said_at_once_and_what_may_change_after_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let vector = Random(SEED).vector();
    let none = reader(folder.path(), 100).search(&Question::new(&vector, K)).unwrap_err();
    assert!(
        matches!(&none, AskError::Unavailable(why)
        if why.ends_with("no job has published where it answers")),
        "{none}"
    );
    let (partitions, _) = job(folder.path());
    let mut patient = reader(folder.path(), 60_000);
    let began = Instant::now();
    let mut nothing = vector.clone();
    nothing[3] = f32::NAN;
    let mut other = CollectionSettings::from_json(COLLECTION).unwrap();
    let of_it = Question { of: Some(&other.clone()), ..Question::new(&vector, K) };
    assert_eq!(patient.search(&of_it).unwrap().rows.len(), K);
    other.schema =
        vstream_attribute::Schema::new([("size", vstream_attribute::AttributeKind::I64)]).unwrap();
    let of_other = Question { of: Some(&other), ..Question::new(&vector, K) };
    assert_eq!(patient.search(&of_other).unwrap_err(), AskError::Changed);
    for (vector, k, why) in [
        (&vector[..5], K, "the vector has 5 elements; the collection has 64"),
        (&nothing[..], K, "element 3 of the vector is not finite"),
        (&vector[..], 0, "k is 0: ask for 1 to 1000 rows"),
        (&vector[..], 1_001, "k is 1001: ask for 1 to 1000 rows"),
    ] {
        let refused = patient.search(&Question::new(vector, k)).unwrap_err();
        assert_eq!(refused, AskError::Refused(why.to_owned()));
    }
    let unlimited = Question { radius: Some(f32::NAN), ..Question::new(&vector, K) };
    let refused = patient.search(&unlimited).unwrap_err();
    assert!(refused.to_string().starts_with("the radius is not a number"), "{refused}");
    partitions[1].lock().unwrap().key = "a secret".to_owned();
    let refused = patient.search(&Question::new(&vector, K)).unwrap_err();
    let locked = AskError::Locked("a partition of the job does not take this key".to_owned());
    assert_eq!(refused, locked);
    assert_eq!(patient.greet().unwrap_err(), locked);
    partitions[1].lock().unwrap().key = String::new();
    partitions[2].lock().unwrap().without = Some((1, "No such leaf.".to_owned()));
    let refused = patient.search(&Question::new(&vector, K)).unwrap_err();
    assert_eq!(refused, AskError::Refused("No such leaf.".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(30), "none of these waits for the deadline");
    partitions[2].lock().unwrap().without = Some((2, "Other searches took too long.".to_owned()));
    let busy = reader(folder.path(), 2_000).search(&Question::new(&vector, K)).unwrap_err();
    assert!(busy.to_string().ends_with("Other searches took too long."), "{busy}");
    for bad in ["s3://user:secret@bucket/folder", "hdfs://name/folder"] {
        assert!(matches!(JobReader::new(bad, "", options(1)), Err(AskError::Refused(_))));
    }
    for millis in [0, 60_001] {
        assert!(JobReader::new("here", "", options(millis)).is_err());
    }
}

/// Whatever a partition sends: an answer or an error, and a reader that goes on.
#[test]
fn damaged_replies_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (partitions, _) = job(folder.path());
    let vector = Random(SEED ^ 4).vector();
    partitions[0].lock().unwrap().damage = Some(|asked, reply| {
        let mut random = Random(asked as u64);
        match random.next() % 3 {
            0 => reply.truncate((random.next() as usize) % reply.len()),
            1 => reply.push(7),
            _ => {
                // In front of distances and payloads, whose damage nobody can see.
                let at = (random.next() as usize) % 23;
                reply[at] ^= 1 << (random.next() % 8);
            }
        }
    });
    let mut hasty = reader(folder.path(), 100);
    let mut failed = 0;
    for _ in 0..60 {
        failed += usize::from(hasty.search(&Question::new(&vector, K)).is_err());
    }
    partitions[0].lock().unwrap().damage = None;
    let answer = reader(folder.path(), 20_000).search(&Question::new(&vector, K)).unwrap();
    assert_eq!(answer.rows.len(), K);
    assert!(failed > 0, "some damage was seen");
}

#[test]
fn half_a_file_is_none_and_a_strange_one_is_said() {
    let folder = tempfile::tempdir().unwrap();
    job(folder.path());
    let path = folder.path().join("vstream-reads/PARTITIONS");
    let whole = std::fs::read(&path).unwrap();
    let vector = Random(SEED).vector();
    let why = || {
        let error = reader(folder.path(), 50).search(&Question::new(&vector, K)).unwrap_err();
        error.to_string()
    };
    for length in [0, 5, 12, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(why().ends_with("no job has published where it answers"), "{length} bytes");
    }
    let mut wrong = whole.clone();
    wrong[40] ^= 1;
    std::fs::write(&path, &wrong).unwrap();
    assert!(why().ends_with("no job has published where it answers"));
    std::fs::write(&path, b"something else altogether").unwrap();
    assert!(why().contains("does not begin as a published file of VStream"));
    std::fs::write(&path, whole).unwrap();
    reader(folder.path(), 20_000).search(&Question::new(&vector, K)).unwrap();
}
