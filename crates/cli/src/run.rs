//! `vstream run`: starts a job, shows it, and ends with its result as one line of JSON.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vstream_serve::{JobPage, JobSettings as AskedSettings};
use vstream_settings::{JobSettings, ResultSink};

use crate::arguments::{RunArguments, WebArguments};
use crate::check;
use crate::failure::Failure;
use crate::jvm::{Answer, Event, Jvm, Message, Progress, Summary};
use crate::restore;
use crate::text;
use crate::view::{self, Scene, View};

/// How long to wait for a line before looking whether the user has had enough.
const TICK: Duration = Duration::from_millis(100);

/// Lines are as far apart as this where there is no live view.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// How long the page waits for the job's partitions.
const ASK_DEADLINE: Duration = Duration::from_secs(2);

/// Runs a job file.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let job = check::load(&arguments.job)?;
    let restore = arguments.restore.as_deref().map(restore::resolve).transpose()?;
    if let Some(path) = &restore {
        text::note_line(&format!("Going on from {path}"));
    }
    let console = job.results == ResultSink::Console;
    let title = format!("vstream run {} at parallelism {}", job.name, job.parallelism);
    let page = page(&arguments.web, &job)?;
    let view = View::start(Scene::of(&job, title), LINE_INTERVAL, console).with_page(page);
    let mut lines = arguments.lines.as_deref().map(Lines::create).transpose()?;
    let result = drive(&job, restore.as_deref(), view, lines.as_mut(), &mut |_, _| {})
        .inspect_err(|_| {
            let checkpoint = job.checkpoint.as_ref();
            if let Some(advice) =
                checkpoint.and_then(|checkpoint| restore::advice(&checkpoint.path))
            {
                text::note_line(&advice);
            }
        })?;
    text::note(&format!("\n{}", view::report(&result, job.parallelism)));
    let summary = serde_json::to_string(&Summary::from(&result));
    text::print_line(&summary.expect("plain numbers"))
}

/// Runs a job to its end and returns its result; `on_sample` hears the answers for display.
///
/// * `restore`: checkpoint or savepoint to go on from.
///
/// Errors: it could not be started, it failed, or the user stopped it; it has ended in all cases.
pub(crate) fn drive(
    job: &JobSettings,
    restore: Option<&str>,
    mut view: View,
    mut lines: Option<&mut Lines>,
    on_sample: &mut dyn FnMut(&mut View, Answer),
) -> Result<Progress, Failure> {
    let interrupted = watch_for_interrupts()?;
    let mut jvm = Jvm::start(job, restore)?;
    let mut result = None;
    loop {
        if interrupted.load(Ordering::Relaxed) {
            text::note_line("Stopping the job...");
            jvm.stop();
            return Err(Failure::interrupted());
        }
        let line = match jvm.next(TICK) {
            Event::Line(line) => line,
            Event::Quiet => continue,
            Event::Ended => break,
        };
        let message = Message::parse(&line);
        if let (Some(lines), Some(Message::Progress(_) | Message::Result(_))) =
            (&mut lines, &message)
        {
            lines.add(&line)?;
        }
        match message {
            Some(Message::Progress(progress)) => view.show(progress),
            Some(Message::Result(progress)) => {
                view.end();
                result = Some(progress);
            }
            Some(Message::Sample(answer)) => on_sample(&mut view, answer),
            Some(Message::Answer {}) => text::print_line(&line)?,
            Some(Message::Error { message }) => return Err(jvm.complain(&message)),
            None => jvm.log(&line),
        }
    }
    drop(view);
    jvm.wait(&interrupted)?;
    result.ok_or_else(|| jvm.complain("The job ended without a result."))
}

/// Starts the page of a job and says where it is, if one is wanted. Errors: the address.
pub(crate) fn page(
    arguments: &WebArguments,
    job: &JobSettings,
) -> Result<Option<JobPage>, Failure> {
    let page = arguments.web.map(|address| JobPage::start(address, asked(job)));
    let page = page.transpose().map_err(Failure::settings)?;
    if let Some(page) = &page {
        text::note_line(&format!("How the job goes: http://{}/ui/", page.address));
    }
    Ok(page)
}

/// The job as its page asks it, if all who see the page may: its partitions answer without a key.
fn asked(job: &JobSettings) -> Option<AskedSettings> {
    let reads = job.reads.as_ref()?;
    if reads.key_file.is_some() || reads.keystore.is_some() {
        return None;
    }
    let checkpoint = job.checkpoint.as_ref()?;
    let asked = AskedSettings::new(&checkpoint.path.to_string());
    Some(AskedSettings { deadline: ASK_DEADLINE, ..asked })
}

/// A file of what the job says.
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    fn create(path: &Path) -> Result<Lines, Failure> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Lines { path: path.to_owned(), file })
    }

    fn add(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.file, "{line}").map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} could not be written ({error}). Choose another.", path.display()))
}

/// A flag that Ctrl-C, a polite request to end and a closed terminal set.
fn watch_for_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(|error| {
            Failure::failed(format!("Ctrl-C could not be watched for ({error}). Try again."))
        })?;
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_a_job_that_needs_no_key() {
        let of = |more: &str| {
            let text = format!(
                "name: asked\ncollection: {{dimension: 4, metric: l2}}\n\
                 vectors: {{kind: generator, path: base.fbin}}\n\
                 queries: {{kind: generator, path: query.fbin}}\n\
                 workload: {{rate: 500, duration: 2 s}}\n{more}"
            );
            asked(&JobSettings::from_yaml(&text).expect("a job"))
        };
        let checkpoint = "checkpoint: {interval: 1 s, path: kept}\n";
        assert!(of(checkpoint).is_none());
        for guarded in ["key-file: /etc/key", "keystore: /etc/a.p12, password-file: /etc/password"]
        {
            assert!(of(&format!("{checkpoint}reads: {{{guarded}}}\n")).is_none(), "{guarded}");
        }
        let asked = of(&format!("{checkpoint}reads: {{}}\n")).expect("a job to ask");
        assert!(asked.checkpoints.ends_with("kept"), "{}", asked.checkpoints);
    }
}
