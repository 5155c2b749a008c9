//! `run` and `demo` against a stand-in for Java that speaks the protocol, well or badly.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::stage::{is_alive, Said, Stage, RESULT, SUMMARY};

const PROGRESS: &str = r#"{"type":"progress","seconds":1,"phase":"stream","vectors":300,"deletes":100,"queries":100,"records_per_s":500,"query_p50_ms":1.0,"query_p99_ms":4.0,"recall_at_10":0.99,"fan_out":1.4,"copies":1,"rows_per_partition":[100,100],"bad_records":0}"#;

/// A script that prints these lines.
fn saying(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("printf '%s\\n' '{line}'\n")).collect()
}

#[test]
fn a_job_ends_with_its_summary_as_the_last_line() {
    let stage = Stage::new(&format!(
        "printf '%s\\n' \"$@\" > arguments\ncp \"$(printf '%s\\n' \"$@\" | tail -1)\" settings\n{}",
        saying(&[PROGRESS, RESULT])
    ));
    let said = stage.run(&["run", "job.yaml", "--set", "jvm.heap=512 mb"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(said.last_line(), SUMMARY);
    assert_eq!(said.out.lines().count(), 1, "nothing but the summary on the output");
    assert!(said.err.contains("vectors 300"), "progress is on the error output: {}", said.err);
    assert!(said.err.contains("1 wrong dimension"), "{}", said.err);

    let arguments = fs::read_to_string(stage.path("arguments")).expect("was started");
    assert!(arguments.contains("-Xmx512m\n-XX:+UseZGC\n"));
    assert!(arguments.contains(&format!("-cp\n{}/*\n", stage.path("lib").display())));
    assert!(arguments.contains("io.vstream.flink.job.JobRunner\n--job\n/"));
    let settings = fs::read_to_string(stage.path("settings")).expect("was readable");
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("JSON");
    assert_eq!(settings["workload"]["duration"], 2000);
    let file = arguments.lines().last().expect("a path");
    assert!(!fs::exists(file).expect("can look"), "the settings file is removed at the end");
}

/// Buffers between tasks grow with the square of the partitions.
#[test]
fn many_partitions_get_more_direct_memory() {
    let stage = Stage::new(&format!("printf '%s\n' \"$@\" > arguments\n{}", saying(&[RESULT])));
    for (parallelism, direct) in [(4, 1024), (40, 1341), (64, 1949), (128, 4889)] {
        let set = format!("parallelism={parallelism}");
        let said = stage.run(&["run", "job.yaml", "--set", &set]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let arguments = fs::read_to_string(stage.path("arguments")).expect("was started");
        let flag = format!("-XX:MaxDirectMemorySize={direct}m\n");
        assert!(arguments.contains(&flag), "{parallelism}: {arguments}");
    }
}

#[test]
fn the_page_of_a_job_is_for_this_machine_alone() {
    let stage = Stage::new(&saying(&[PROGRESS, RESULT]));
    let said = stage.run(&["run", "job.yaml", "--web=127.0.0.1:0"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.starts_with("How the job goes: http://127.0.0.1:"), "{}", said.err);
    assert_eq!(said.last_line(), SUMMARY);
    let said = stage.run(&["run", "job.yaml", "--web=0.0.0.0:0"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("choose an address of 127.0.0.1"), "{}", said.err);
}

#[test]
fn a_job_goes_on_from_a_checkpoint_or_the_newest_of_several() {
    let stage = Stage::new(&format!("printf '%s\\n' \"$@\" > arguments\n{}", saying(&[RESULT])));
    for chk in ["old/a1/chk-9", "old/a1/chk-10", "other/savepoint-77"] {
        stage.write(&format!("{chk}/_metadata"), "it is complete");
        // Newer than those before on any file system.
        std::thread::sleep(Duration::from_millis(20));
    }
    stage.write("old/a1/chk-11/unfinished", "a checkpoint that was never completed");
    for (given, taken) in [
        ("other/savepoint-77", "other/savepoint-77"),
        ("old/a1/chk-9", "old/a1/chk-9"),
        ("old", "old/a1/chk-10"),
    ] {
        let said = stage.run(&["run", "job.yaml", "--restore", given]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let path = stage.path(taken).canonicalize().expect("a folder");
        let arguments = fs::read_to_string(stage.path("arguments")).expect("was started");
        assert!(arguments.ends_with(&format!("\n--restore\n{}\n", path.display())), "{arguments}");
        assert!(said.err.contains(&format!("Going on from {}", path.display())), "{}", said.err);
    }
    let said = stage.run(&["run", "job.yaml", "--restore", "s3://bucket/savepoint-1"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let arguments = fs::read_to_string(stage.path("arguments")).expect("was started");
    assert!(arguments.ends_with("\n--restore\ns3://bucket/savepoint-1\n"), "{arguments}");
    for nothing in ["old/a1/chk-11", "nowhere"] {
        let said = stage.run(&["run", "job.yaml", "--restore", nothing]);
        assert_eq!(said.code, Some(2));
        assert!(said.err.contains("holds no complete checkpoint or savepoint"), "{}", said.err);
    }
}

#[test]
fn a_job_that_fails_says_where_it_can_go_on_from() {
    let stage = Stage::new("mkdir -p chk/a/chk-3; touch chk/a/chk-3/_metadata; exit 3");
    let set = "checkpoint.path=chk";
    let said = stage.run(&["run", "job.yaml", "--set", "checkpoint.interval=1 s", "--set", set]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("newest checkpoint: --restore "), "{}", said.err);
    assert!(said.err.contains("chk/a/chk-3\n"), "{}", said.err);
}

#[test]
fn checkpoints_elsewhere_are_left_to_the_job() {
    let stage = Stage::new("printf '%s' \"$FLINK_PLUGINS_DIR\" > said; exit 3");
    let set = "checkpoint.path=s3://b/x";
    let said = stage.run(&["check", "job.yaml", "--set", set]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("\"path\": \"s3://b/x\""), "{}", said.out);
    let said = stage.run(&["run", "job.yaml", "--set", set]);
    assert_eq!(said.code, Some(1));
    let advice = "If it completed a checkpoint, to go on from it: --restore s3://b/x\n";
    assert!(said.err.contains(advice), "{}", said.err);
    let plugins = fs::read_to_string(stage.path("said")).expect("was started");
    assert_eq!(plugins, stage.path("plugins").display().to_string());
}

#[test]
fn lines_that_are_not_the_protocol_go_to_the_log() {
    let lines =
        ["WARN: chatter", "{\"type\": \"progress\", \"vectors\": ", "{\"type\":\"new\"}", RESULT];
    let stage = Stage::new(&format!("echo 'on stderr' >&2\n{}", saying(&lines)));
    let said = stage.run(&["run", "job.yaml"]);
    assert_eq!((said.code, said.last_line()), (Some(0), SUMMARY), "{}", said.err);
    let log = fs::read_to_string(stage.path("run/test_job.log")).expect("a log");
    for line in ["WARN: chatter", "\"vectors\":", "{\"type\":\"new\"}", "on stderr"] {
        assert!(log.contains(line), "{line} is not in the log: {log}");
    }
}

/// A job that succeeded once lost what it said last, when this command was faster than the thread
/// that copies the error output.
#[test]
fn the_last_words_of_a_job_that_succeeds_are_in_the_log() {
    let late = "(sleep 0.3; echo 'said last' >&2) >/dev/null &";
    let stage = Stage::new(&format!("{}{late}\n", saying(&[RESULT])));
    let said = stage.run(&["run", "job.yaml"]);
    assert_eq!((said.code, said.last_line()), (Some(0), SUMMARY), "{}", said.err);
    let log = fs::read_to_string(stage.path("run/test_job.log")).expect("a log");
    assert!(log.contains("said last"), "{log}");
}

#[test]
fn answers_for_the_console_come_before_the_summary() {
    let answer = r#"{"type":"answer","query_id":7,"ids":[1,2],"distances":[0.5,0.75]}"#;
    let stage = Stage::new(&saying(&[answer, RESULT]));
    let said = stage.run(&["run", "job.yaml", "--set", "results.kind=console"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines, [answer, SUMMARY]);
}

#[test]
fn a_job_that_dies_is_explained_by_its_own_words() {
    let stage = Stage::new(&format!(
        "{}\necho 'INFO fine' >&2\necho 'java.io.IOException: no space left' >&2\n\
         printf '\\tat a.B.c(B.java:1)\\n' >&2\nexit 3",
        saying(&[PROGRESS])
    ));
    let said = stage.run(&["run", "job.yaml"]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.out, "");
    assert!(said.err.contains("The job failed: java ended with exit code 3. It said:"));
    assert!(said.err.contains("  java.io.IOException: no space left\n"), "{}", said.err);
    assert!(!said.err.contains("B.java:1"), "stack frames stay in the log");
    let log = stage.path("run/test_job.log");
    assert!(said.err.contains(&format!("Its whole log is in {}.", log.display())), "{}", said.err);
    assert!(fs::read_to_string(log).expect("a log").contains("B.java:1"));
}

#[test]
fn a_job_that_refuses_its_settings_says_so() {
    let script = "echo 'vstream: Unknown fault boom.' >&2; exit 2";
    let said = Stage::new(script).run(&["run", "job.yaml"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("The job was refused. It said:\n  vstream: Unknown fault boom."));
}

#[test]
fn what_the_virtual_machine_says_on_the_output_counts_too() {
    let line = "Terminating due to java.lang.OutOfMemoryError: Java heap space";
    let said = Stage::new(&format!("echo '{line}'; exit 3")).run(&["run", "job.yaml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains(&format!("exit code 3. It said:\n  {line}\n")), "{}", said.err);
}

#[test]
fn a_job_that_is_killed_names_the_signal() {
    let said = Stage::new("kill -9 $$").run(&["run", "job.yaml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("java ended by signal 9"), "{}", said.err);
}

#[test]
fn a_job_without_a_result_has_failed() {
    let said = Stage::new(&saying(&[PROGRESS])).run(&["run", "job.yaml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.err.contains("The job ended without a result."), "{}", said.err);
}

#[test]
fn an_error_message_of_the_job_is_passed_on() {
    // What the job leaves behind holds its output open, which must not keep the command waiting.
    let error = r#"{"type":"error","message":"The checkpoint is of another collection."}"#;
    let said = Stage::new(&format!("{}sleep 5", saying(&[error]))).run(&["run", "job.yaml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("The checkpoint is of another collection."), "{}", said.err);
}

#[test]
fn ctrl_c_ends_the_job_too() {
    let stage = Stage::new(
        "echo $$ > id\ntrap 'echo asked > asked; exit 0' TERM\nwhile :; do sleep 0.05; done",
    );
    let child = stage.command(&["run", "job.yaml"]).stderr(std::process::Stdio::piped()).spawn();
    let child = child.expect("starts");
    let deadline = Instant::now() + Duration::from_secs(120);
    let id = loop {
        match fs::read_to_string(stage.path("id")) {
            Ok(id) if id.ends_with('\n') => break id,
            _ if Instant::now() > deadline => panic!("the job did not start"),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    kill_process(Pid::from_child(&child), Signal::INT).expect("signals");
    let said = Said::of(child.wait_with_output().expect("ends"));
    assert_eq!(said.code, Some(130));
    assert!(said.err.contains("Stopped before the end."), "{}", said.err);
    assert!(stage.path("asked").exists(), "the job was asked to end, not killed");
    assert!(!is_alive(&id), "no job is left behind");
}

#[test]
fn the_demonstration_shows_words() {
    let sample = |query: u32, first: u32| {
        format!(
            r#"{{"type":"sample","query_id":{query},"ids":[{first},1],"distances":[0.1,0.25]}}"#
        )
    };
    let lines = [PROGRESS, &sample(0, 5), &sample(1, 6), &sample(0, 7), RESULT];
    let stage = Stage::new(&saying(&lines));
    stage.write_matrix("data/glove100/base.fbin", 30_300, 100);
    stage.write_matrix("data/glove100/query.fbin", 10, 100);
    let words = |prefix: &str, count: u32| -> String {
        (0..count).map(|i| format!("{prefix}{i}\n")).collect()
    };
    stage.write("data/glove100/base.words.txt", &words("base", 300));
    stage.write("data/glove100/query.words.txt", &words("query", 10));
    let said = stage.run(&["demo", "--rows", "200"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("30,200 word vectors"), "{}", said.err);
    assert!(said.out.contains("recall@10           0.9877   (20 queries checked"), "{}", said.out);
    assert!(said.out.contains("  query0        base7 0.10   base1 0.25\n"), "{}", said.out);
    assert!(!said.out.contains("base5"), "only the last answer to a query is shown");

    let said = stage.run(&["demo", "--rows", "301"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("Give a number from 1 to 300."), "{}", said.err);
    let said = stage.run(&["demo", "--data", "nowhere"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("Run `make data`"), "{}", said.err);
}
