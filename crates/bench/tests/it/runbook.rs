//! The `runbook` command from a matrix file to its table, and its refusals.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use vstream_bench::runbook::Matrix;
use vstream_vector::SplitMix;

fn runbook(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runbook"));
    command.args(arguments.split_whitespace()).current_dir(folder);
    command.output().expect("starts")
}

fn matrix(rows: usize, seed: u64, path: &Path) {
    let mut chance = SplitMix(seed);
    let values = (0..rows * 8).map(|_| chance.normal()).collect();
    Matrix { dimension: 8, values }.write(path).expect("writes");
}

fn said(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn a_runbook_is_made_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("small")).expect("creates");
    matrix(1_500, 1, &at.join("small/base.fbin"));
    matrix(50, 2, &at.join("small/query.fbin"));

    let made = "generate delete-cluster --data small/base.fbin --rows 1200 --out book.yaml";
    let made = runbook(at, made);
    assert!(made.status.success(), "{}", said(&made.stderr));
    let text = said(&made.stdout);
    assert!(text.contains("at most 1200 live rows. Run it with --data book.fbin"), "{text}");
    assert!(fs::read_to_string(at.join("book.yaml")).expect("reads").starts_with("small-1200:"));

    let run = "run book.yaml --data book.fbin --queries small/query.fbin --effort probes=20 \
               --fresh --out result.json";
    let run = runbook(at, run);
    assert!(run.status.success(), "{}", said(&run.stderr));
    let table = said(&run.stdout);
    assert!(table.contains("on a sample of 40 queries per search step; cosine"), "{table}");
    let lines = fs::read_to_string(at.join("result.json")).expect("reads");
    let last: serde_json::Value =
        serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert!(last["recall_min"].as_f64().expect("a number") > 0.92, "{last}");
    assert_eq!(last["memory_at_fewest_after_peak"]["live"], 120);
    let picture = fs::read_to_string(at.join("result.svg")).expect("reads");
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));

    let refused = |arguments: &str, sentence: &str| {
        let output = runbook(at, arguments);
        assert!(!output.status.success());
        assert!(said(&output.stderr).contains(sentence), "{}", said(&output.stderr));
    };
    let few = "run book.yaml --data small/query.fbin --queries small/query.fbin --out x.json";
    refused(few, "but there are 50 rows. Shorten the range or give --data a larger file.");
    let none = "run none.yaml --data book.fbin --queries small/query.fbin --out x.json";
    refused(none, "Cannot read none.yaml");
    let effort =
        "run book.yaml --data book.fbin --queries book.fbin --effort probes=0 --out x.json";
    refused(effort, "write auto, or probes=N with N from 1 on");
    let small = "generate drift --data small/query.fbin --out x.yaml";
    refused(small, "50 rows; a runbook needs 1000 at least");
    assert!(!at.join("x.json").exists() && !at.join("x.yaml").exists());
}
