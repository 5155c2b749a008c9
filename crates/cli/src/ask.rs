//! `vstream ask`: asks the partitions of a running job.

use std::os::unix::process::CommandExt;

use crate::arguments::AskArguments;
use crate::failure::Failure;
use crate::jvm;

const MAIN_CLASS: &str = "io.vstream.flink.job.AskRunner";

/// Becomes the program that asks; returns only if it cannot be started.
pub(crate) fn ask(arguments: &AskArguments) -> Result<(), Failure> {
    let mut command = jvm::command(MAIN_CLASS)?;
    command.args(["--checkpoints", &arguments.checkpoints]);
    command.args(["--k", &arguments.k.to_string()]);
    command.args(["--deadline-millis", &arguments.deadline.to_string()]);
    if let Some(search) = &arguments.search {
        command.args(["--search", search]);
    }
    let files = [("--key-file", &arguments.key_file), ("--certificates", &arguments.certificates)];
    for (option, file) in files {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    let error = command.exec();
    Err(Failure::settings(format!("Java could not be started ({error}). Check JAVA_HOME.")))
}
