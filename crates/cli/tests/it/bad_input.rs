//! What the command refuses before anything starts: exit code 2 and a sentence.

use crate::stage::{Stage, RESULT};

/// A stand-in that must not be started.
const MUST_NOT_RUN: &str = "touch started; exit 1";

#[track_caller]
fn refuses(stage: &Stage, arguments: &[&str], sentence: &str) {
    let said = stage.run(arguments);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains(sentence), "{}", said.err);
    assert_eq!(said.out, "");
    assert!(!stage.path("started").exists(), "nothing was started");
}

#[test]
fn settings_are_refused_with_every_sentence() {
    let stage = Stage::new(MUST_NOT_RUN);
    let set = |assignment| ["run", "job.yaml", "--set", assignment];
    refuses(&stage, &set("parallelism=200"), "parallelism: 200 is more than the 128 shards");
    refuses(&stage, &set("parallelism=5000"), "parallelism: 5000 is out of range.");
    refuses(&stage, &set("parallelism"), "there is no '='");
    refuses(&stage, &set("collection.dimension=5"), "holds vectors of dimension 4");
    refuses(&stage, &set("queries.k=0"), "queries.k: 0 is out of range.");
    refuses(&stage, &set("vectors.path=absent.fbin"), "absent.fbin does not exist.");
    refuses(&stage, &set("state.path=data/base.fbin/x"), "cannot be written");
    let without = ["run", "job.yaml", "--without", "hot"];
    refuses(&stage, &without, "collection.without: there is no 'hot' to leave out");
    stage.write("job.yaml", "parallelism: 0\nname: [\n");
    refuses(&stage, &["run", "job.yaml"], "The file is not valid YAML");
    stage.write("job.yaml", "parallelism: 0\n");
    let said = stage.run(&["check", "job.yaml"]);
    assert_eq!(said.code, Some(2));
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines[0], "job.yaml cannot be run.");
    assert!(lines.len() > 3, "all problems at once: {lines:?}");
    refuses(&stage, &["run", "absent.yaml"], "The job file absent.yaml cannot be read");
}

#[test]
fn check_prints_the_completed_job() {
    let said = Stage::new(MUST_NOT_RUN).run(&["check", "job.yaml", "--set", "name=other"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let job: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((&job["name"], &job["training-sample"]), (&"other".into(), &20_000.into()));
}

#[test]
fn parts_are_left_out_by_name() {
    let names = ["hot-cold", "threshold-stop", "dynamic-partitions"];
    let without = names.iter().flat_map(|name| ["--without", name]);
    let set = ["check", "job.yaml", "--set", "rebalance.policy=cells"];
    let arguments: Vec<&str> = set.into_iter().chain(without).collect();
    let said = Stage::new(MUST_NOT_RUN).run(&arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let job: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(job["collection"]["without"], serde_json::json!(["hot-cold", "threshold-stop"]));
    assert_eq!(job["rebalance"]["policy"], "none");
}

#[test]
fn a_missing_java_or_missing_jars_are_told() {
    let stage = Stage::new(MUST_NOT_RUN);
    let run = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = stage.command(&["run", "job.yaml"]);
        change(&mut command);
        let said = crate::stage::Said::of(command.output().expect("starts"));
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
        said.err
    };
    let no_java = run(&|command| {
        command.env_remove("JAVA_HOME").env("PATH", "/nowhere");
    });
    assert!(no_java.contains("There is no java on the PATH. Install Java 17"), "{no_java}");
    let bad_home = run(&|command| {
        command.env("JAVA_HOME", "/nowhere");
    });
    assert!(bad_home.contains("JAVA_HOME is /nowhere, but there is no"), "{bad_home}");
    let no_jars = run(&|command| {
        command.env("VSTREAM_HOME", "/nowhere");
    });
    assert!(no_jars.contains("There are no jars in /nowhere/lib."), "{no_jars}");
    let beside = run(&|command| {
        command.env_remove("VSTREAM_HOME");
    });
    assert!(beside.contains("/lib. Build them with `make build`"), "{beside}");
}

#[test]
fn unknown_words_on_the_command_line_are_refused() {
    let stage = Stage::new(MUST_NOT_RUN);
    refuses(&stage, &["fly"], "unrecognized subcommand 'fly'");
    refuses(&stage, &["search", "--snapshot", "x"], "--query-id");
    refuses(
        &stage,
        &["search", "--snapshot", "x", "--random", "1", "--query-id", "2"],
        "cannot be used",
    );
}

#[test]
fn an_output_that_nobody_reads_is_no_panic() {
    let stage = Stage::new(MUST_NOT_RUN);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = stage.command(&["check", "job.yaml"]).stdout(writer).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("The results could not be written to the output"), "{said}");
}

/// Where nobody can read what it says, a command ends as it would have, and a job goes on.
#[test]
fn an_error_output_that_takes_nothing_ends_nothing() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let stage = Stage::new(&format!("echo '{RESULT}'"));
    for (arguments, code) in [(&["check", "nowhere.yaml"][..], 2), (&["run", "job.yaml"], 0)] {
        let mut command = stage.command(arguments);
        let done = command.stderr(full()).output().expect("starts");
        assert_eq!(done.status.code(), Some(code), "{arguments:?}");
    }
}
