//! What the rules look at: the files that git knows or would take, and the workspace's crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::crates::Package;

/// A text file.
pub struct File {
    /// Where it is, from the root of the repository.
    pub path: String,
    /// What it says.
    pub text: String,
}

impl File {
    /// True if the file is not shipped: tests and benches.
    pub(crate) fn is_test(&self) -> bool {
        let is_in = |folder: &str| self.path.split('/').any(|part| part == folder);
        is_in("tests") || is_in("test") || is_in("benches") || self.path.ends_with("/tests.rs")
    }

    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    pub(crate) fn is_source(&self) -> bool {
        self.is("rs") || self.is("java") || self.is("py")
    }
}

/// Root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tools/tidy lies two folders below the root").to_owned()
}

fn output(command: &mut Command) -> String {
    let done = command.current_dir(root()).output();
    let done = done.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn listed(arguments: &[&str]) -> Vec<String> {
    let names = output(Command::new("git").args(["ls-files", "-z"]).args(arguments));
    names.split_terminator('\0').map(str::to_owned).collect()
}

/// Every text file that is tracked, or new and not ignored.
pub fn files() -> Vec<File> {
    let names = listed(&["--cached", "--others", "--exclude-standard"]).into_iter();
    let read = |path| Some(File { text: std::fs::read_to_string(root().join(&path)).ok()?, path });
    names.filter_map(read).collect()
}

/// Every tracked file and its bytes.
pub fn tracked_bytes() -> Vec<(String, u64)> {
    let bytes = |path: &String| root().join(path).metadata().map_or(0, |found| found.len());
    listed(&["--cached"]).into_iter().map(|path| (path.clone(), bytes(&path))).collect()
}

/// Our crates, as cargo sees them. Needs no network.
pub fn packages() -> Vec<Package> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&output(&mut cargo)).expect("JSON");
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn package(package: &Value) -> Package {
    const BUILT: [&str; 4] = ["lib", "bin", "cdylib", "proc-macro"];
    let list = |key: &str| package[key].as_array().into_iter().flatten();
    let is_built = |target: &&Value| {
        let kinds = target["kind"].as_array().into_iter().flatten();
        kinds.filter_map(Value::as_str).any(|kind| BUILT.contains(&kind))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let prefix = format!("{}/", root().display());
    let path = |target: &Value| text(&target["src_path"]).replace(&prefix, "");
    let ours = |used: &&Value| used["path"].is_string() && used["kind"] != "dev";
    Package {
        name: text(&package["name"]),
        roots: list("targets").filter(is_built).map(path).collect(),
        uses: list("dependencies").filter(ours).map(|used| text(&used["name"])).collect(),
    }
}
