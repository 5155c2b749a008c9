//! The `disk` command end to end, and the peak of a process.

use std::path::Path;
use std::process::{Command, Output};

use vstream_bench::disk::process::{forget_peak, peak_bytes};
use vstream_bench::runbook::Matrix;
use vstream_vector::SplitMix;

fn disk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_disk")).args(arguments).output().expect("starts")
}

fn write(path: &Path, rows: usize, seed: u64) {
    let mut random = SplitMix(seed);
    let values = (0..rows * 64).map(|_| random.below(200) as f32).collect();
    Matrix { dimension: 64, values }.write(path).expect("writes");
}

#[test]
fn the_peak_follows_what_is_allocated_until_it_is_forgotten() {
    forget_peak().expect("Linux");
    let before = peak_bytes().expect("Linux");
    let held = std::hint::black_box(vec![1u8; 256 << 20]);
    let during = peak_bytes().expect("Linux");
    assert!(during >= before + (200 << 20), "{before} {during}");
    drop(held);
    // The kernel sums up what its cores counted only now and then.
    assert!(peak_bytes().expect("Linux") >= during - (16 << 20), "a peak stays");
    forget_peak().expect("Linux");
    assert!(peak_bytes().expect("Linux") < during - (128 << 20), "and is forgotten");
}

#[test]
fn a_plan_is_followed_and_its_fresh_builds_are_processes_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    write(&folder.path().join("base.fbin"), 3_300, 1);
    write(&folder.path().join("query.fbin"), 60, 2);
    let (data, queries, plan) = (at("base.fbin"), at("query.fbin"), at("plan"));
    let given = ["--data", &data, "--queries", &queries];
    let made =
        [&["plan"], &given[..], &["--rows", "3000", "--epochs", "3", "--out", &plan]].concat();
    let output = disk(&made);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (dir, out) = (at("live"), at("found.json"));
    let subject = ["--plan", &plan, "--dir", &dir, "--memory-kib", "2048", "--out", &out];
    let paced = ["--asked", "20", "--fresh-every", "2"];
    let output = disk(&[&["updates"], &given[..], &subject, &paced].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = std::fs::read_to_string(&out).expect("reads");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let pair = &found["epochs"][2]["equal-effort"];
    assert_eq!(pair["fresh"]["live"], 3_000, "{pair:#}");
    assert!(found["epochs"][1]["equal-effort"].is_null());

    // More rows than the cache holds, so that some are read from afar.
    write(&folder.path().join("more.fbin"), 10_300, 1);
    let (data, plan) = (at("more.fbin"), at("more"));
    let given = ["--data", &data, "--queries", &queries];
    let made = [&["plan"], &given[..], &["--rows", "10000", "--out", &plan]].concat();
    let output = disk(&made);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let subject = ["--plan", &plan, "--dir", &dir, "--memory-kib", "1024", "--out", &out];
    let far = ["--address", &at("far"), "--shares", "1,0.5,0"];
    let output = disk(&[&["remote"], &given[..], &subject, &far].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = std::fs::read_to_string(&out).expect("reads");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let reads = |at: usize| found["shares"][at]["all"]["far-reads"].as_f64().expect("a mean");
    assert!(reads(0) == 0.0 && reads(2) > 0.0, "{found:#}");
    assert_eq!(found["shares"][2]["local-bytes"], 0);
    let recall = |at: usize| found["shares"][at]["asked"]["recall"].as_f64().expect("a recall");
    assert!(recall(0) > 0.9 && recall(2) > 0.9, "{found:#}");

    let refused = disk(&[&["updates"], &given[..], &subject, &["--rate", "0"]].concat());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("use a rate above 0"));
    let none = disk(&[&made[..], &["--share", "0.9"]].concat());
    assert!(String::from_utf8_lossy(&none.stderr).contains("share above 0 and at most 0.5"));
}
