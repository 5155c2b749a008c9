//! `vstream check`: reads a job file, completes it, and says everything that is wrong with it.

use std::io::Read;
use std::path::Path;

use vstream_settings::{Document, JobSettings};

use crate::arguments::JobArguments;
use crate::failure::Failure;
use crate::text;

/// Prints the job in its normalised form.
pub(crate) fn check(arguments: &JobArguments) -> Result<(), Failure> {
    text::print_line(&load(arguments)?.to_json())
}

/// Reads a job file with its overrides and checks it against the machine.
pub(crate) fn load(arguments: &JobArguments) -> Result<JobSettings, Failure> {
    let text = read(&arguments.job)?;
    let job = parse(&text, arguments).map_err(|failure| {
        Failure::settings(format!("{} cannot be run.\n{failure}", arguments.job.display()))
    })?;
    Ok(job)
}

fn parse(text: &str, arguments: &JobArguments) -> Result<JobSettings, Failure> {
    let mut document = Document::from_yaml(text)?;
    arguments.set.iter().try_for_each(|assignment| document.set(assignment))?;
    arguments.without.iter().try_for_each(|part| document.without(part))?;
    let job = JobSettings::from_document(&document)?;
    job.validate()?;
    Ok(job)
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(path),
    };
    result.map_err(|error| {
        let shown = path.display();
        Failure::settings(format!(
            "The job file {shown} cannot be read ({error}). Give the path of a YAML file, such as \
             examples/mixed.yaml."
        ))
    })
}
