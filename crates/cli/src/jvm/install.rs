//! Where Java and the job's jars are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Names the folder above `lib` where the command is used from elsewhere.
const HOME: &str = "VSTREAM_HOME";

/// Names the folder of Flink's plugins, to Flink and to this command.
pub(super) const PLUGINS: &str = "FLINK_PLUGINS_DIR";

/// Written by `make build`, with the classes of a short job.
const CLASS_ARCHIVE: &str = "classes.jsa";

/// For a program that holds no rows.
const SMALL: [&str; 4] =
    ["-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8"];

/// A Java virtual machine of a small heap that will run `class` of the installed jars. Errors: no Java, no
/// jars.
pub(crate) fn command(class: &str) -> Result<Command, Failure> {
    let mut command = Command::new(java()?);
    command.env(PLUGINS, plugins()?).args(SMALL).args(["-cp", &class_path()?, class]);
    let extra = env::var("VSTREAM_JAVA_OPTS").unwrap_or_default();
    // Options of the machine come before the class.
    if !extra.trim().is_empty() {
        command.env("JDK_JAVA_OPTIONS", extra);
    }
    Ok(command)
}

/// The `java` to start: `JAVA_HOME/bin/java`, else the first on the `PATH`.
pub(super) fn java() -> Result<PathBuf, Failure> {
    if let Some(home) = env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        let java = Path::new(&home).join("bin/java");
        if java.is_file() {
            return Ok(java);
        }
        return Err(Failure::settings(format!(
            "JAVA_HOME is {}, but there is no {}. Set JAVA_HOME to a Java 17 installation, or unset \
             it to use the java on the PATH.",
            Path::new(&home).display(),
            java.display()
        )));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join("java"))
        .find(|java| java.is_file())
        .ok_or_else(|| {
            Failure::settings(
                "There is no java on the PATH. Install Java 17, or set JAVA_HOME to where it is.",
            )
        })
}

/// The class path: every jar of `VSTREAM_HOME/lib`, else of `../lib` beside the executable.
pub(super) fn class_path() -> Result<String, Failure> {
    let lib = home()?.join("lib");
    let is_jar = |path: PathBuf| path.extension().is_some_and(|extension| extension == "jar");
    let jars = std::fs::read_dir(&lib).map_or(0, |entries| {
        entries.filter_map(Result::ok).filter(|entry| is_jar(entry.path())).count()
    });
    if jars == 0 {
        return Err(Failure::settings(format!(
            "There are no jars in {}. Build them with `make build` and start dist/bin/vstream, or \
             set {HOME} to the folder that holds lib.",
            lib.display()
        )));
    }
    // Java itself expands the asterisk to all jars of the folder.
    Ok(format!("{}/*", lib.display()))
}

/// The options that load classes from the archive beside the jars, if there is one. An archive of other
/// jars, or of another Java, is passed over without a word: then the start takes longer.
///
/// * `extra`: what the user adds; their own archive counts.
pub(super) fn class_archive(extra: &str) -> Vec<String> {
    if extra.contains("SharedArchiveFile") || extra.contains("ArchiveClassesAtExit") {
        return Vec::new();
    }
    let archive = home().map(|home| home.join("lib").join(CLASS_ARCHIVE));
    match archive.ok().filter(|archive| archive.is_file()) {
        Some(archive) => {
            let archive = format!("-XX:SharedArchiveFile={}", archive.display());
            vec![archive, "-Xlog:cds=off".to_owned(), "-Xlog:cds+dynamic=off".to_owned()]
        }
        None => Vec::new(),
    }
}

/// Flink's file systems, each in a folder of `plugins` beside `lib`, unless the environment already
/// says where they are.
pub(super) fn plugins() -> Result<PathBuf, Failure> {
    match env::var_os(PLUGINS).filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(home()?.join("plugins")),
    }
}

fn home() -> Result<PathBuf, Failure> {
    if let Some(home) = env::var_os(HOME).filter(|home| !home.is_empty()) {
        return Ok(PathBuf::from(home));
    }
    let executable = env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        Failure::settings(format!(
            "The folder of this command cannot be found ({error}). Set {HOME} to the folder that \
             holds lib."
        ))
    })?;
    let folder = executable.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    Ok(folder.to_path_buf())
}
