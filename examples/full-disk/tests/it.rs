//! The example runs, and says what it should: on a full tmpfs, or with a limit on files.

use std::process::Command;

fn run(path: Option<&str>) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/run.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg(env!("CARGO_BIN_EXE_full-disk"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    said
}

#[test]
fn a_full_disk_loses_nothing() {
    let said = run(None);
    assert!(said.contains("Searches find what was committed and what could not be."), "{said}");
    let ends = ["none lost.", "what was committed is kept."];
    assert!(ends.iter().any(|end| said.trim_end().ends_with(end)), "{said}");
}

/// As where nobody may mount anything: `unshare` fails.
#[test]
fn a_limit_on_files_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("unshare");
    std::fs::write(&script, "#!/bin/sh\nexit 1\n").expect("room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("permitted");
    let path = std::env::var("PATH").expect("a path");
    let said = run(Some(&format!("{}:{path}", folder.path().display())));
    assert!(said.starts_with("No tmpfs can be mounted here"), "{said}");
    assert!(said.trim_end().ends_with("what was committed is kept."), "{said}");
}
