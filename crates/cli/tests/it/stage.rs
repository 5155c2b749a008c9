//! A folder with data, a job file and a stand-in for Java, and the command run in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the stand-in prints when all goes well.
pub const RESULT: &str = r#"{"type":"result","seconds":2.0,"vectors":600,"deletes":200,"queries":200,"records_per_s":500.04,"query_p50_ms":1.2345,"query_p99_ms":4.5,"query_p999_ms":9.0,"recall_at_10":0.98765,"audits":20,"fan_out":1.5,"copies":1.0,"rows_per_partition":[200,200],"bad_records":1,"bad_by_reason":{"wrong dimension":1}}"#;

/// The summary that belongs to [`RESULT`].
pub const SUMMARY: &str = r#"{"vectors":600,"queries":200,"recall_at_10":0.9877,"records_per_s":500.0,"query_p50_ms":1.235,"query_p99_ms":4.5,"fan_out":1.5,"copies":1.0,"bad_records":1}"#;

/// A private folder in which the command runs.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    /// Data, a job and an installation whose `java` is a shell script with this body.
    pub fn new(java: &str) -> Stage {
        let stage = Stage { folder: tempfile::tempdir().expect("a folder") };
        stage.write_matrix("data/base.fbin", 300, 4);
        stage.write_matrix("data/query.fbin", 10, 4);
        stage.write("lib/vstream.jar", "");
        stage.write("java/bin/java", &format!("#!/bin/sh\n{java}\n"));
        let java = stage.path("java/bin/java");
        fs::set_permissions(java, fs::Permissions::from_mode(0o755)).expect("sets");
        stage.write(
            "job.yaml",
            "name: test job\n\
             collection: {dimension: 4, metric: cosine}\n\
             vectors: {kind: generator, path: data/base.fbin, preload: 100}\n\
             queries: {kind: generator, path: data/query.fbin}\n\
             workload: {rate: 500, duration: 2 s}\n",
        );
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("creates");
        fs::write(path, bytes).expect("writes");
    }

    /// Row i is (i + 1, 1, 2, 3).
    pub fn write_matrix(&self, name: &str, rows: u32, dimension: u32) {
        let mut bytes = [rows.to_le_bytes(), dimension.to_le_bytes()].concat();
        for row in 0..rows {
            for column in 0..dimension {
                let value = if column == 0 { row + 1 } else { column };
                bytes.extend((value as f32).to_le_bytes());
            }
        }
        self.write_bytes(name, &bytes);
    }

    /// The command with these arguments, ready to be started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vstream"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("JAVA_HOME", self.path("java"))
            .env("VSTREAM_HOME", self.folder.path())
            .env_remove("VSTREAM_JAVA_OPTS")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().expect("starts"))
    }
}

/// What a command said and how it ended.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The last line of the standard output.
    pub fn last_line(&self) -> &str {
        self.out.lines().last().unwrap_or("")
    }
}

/// True while the process of this id exists.
pub fn is_alive(id: &str) -> bool {
    Path::new("/proc").join(id.trim()).exists()
}
