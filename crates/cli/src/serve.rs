//! `vstream serve`: serves the collections of a folder until it is told to stop.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use vstream_serve::{
    new_key, FollowSettings, JobSettings, KeyFile, PushedSettings, Scope, ServeSettings, Server,
    TlsFiles,
};

use crate::arguments::{KeyArguments, ServeArguments};
use crate::failure::Failure;
use crate::text;

/// How often it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);
/// Time after which a copy of a writer that says nothing is given up.
const UNHEARD_MAX: Duration = Duration::from_secs(30);

/// Time between two looks for newer pushes.
const REFRESH: Duration = Duration::from_secs(10);

/// Serves until SIGINT or SIGTERM; then answers the requests that are here and closes everything.
pub(crate) fn serve(arguments: ServeArguments) -> Result<(), Failure> {
    let (begun, is_once) = (Instant::now(), arguments.once);
    if let Some(parent) = arguments.ends_with_parent {
        end_with(parent)?;
    }
    let (follow, job) = (follow(&arguments)?, job(&arguments)?);
    let pushed = pushed(&arguments)?;
    let of = match (&job, &arguments.directory) {
        (Some(job), _) => format!("the job beside {}", job.checkpoints),
        (None, directory) => directory.as_deref().unwrap_or(Path::new("")).display().to_string(),
    };
    let ServeArguments {
        directory,
        listen,
        metrics,
        keys,
        tls_certificate,
        tls_key,
        audit,
        mcp_writes,
        read_only,
        ..
    } = arguments;
    let keys = keys.map(|path| KeyFile::read(&path)).transpose().map_err(Failure::settings)?;
    let tls = tls_certificate.zip(tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let base = match pushed {
        Some(pushed) => ServeSettings::of_pushed(pushed, listen),
        None => {
            ServeSettings { read_only, ..ServeSettings::new(directory.unwrap_or_default(), listen) }
        }
    };
    let settings = ServeSettings { metrics, keys, tls, audit, mcp_writes, follow, job, ..base };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, stop.clone());
        registered.map_err(|error| Failure::failed(format!("no signals: {error}")))?;
    }
    let running = Server::start(settings).map_err(Failure::settings)?;
    text::print_line(&format!(
        "Serving {} collections of {of} at {scheme}://{}",
        running.collections, running.address
    ))?;
    text::print_line(&format!(
        "A page that shows how it is doing: {scheme}://{}/ui/",
        running.address
    ))?;
    for why in &running.not_served {
        text::print_line(&format!("Not served: {why}"))?;
    }
    if let Some(metrics) = running.metrics {
        text::print_line(&format!("Metrics at http://{metrics}/metrics"))?;
    }
    let lacks = || is_once.then(|| running.lacks(begun.elapsed())).flatten();
    let is_done = || is_once && (lacks().is_none() || running.unheard() > UNHEARD_MAX);
    while !stop.load(Ordering::Relaxed) && !is_done() {
        std::thread::sleep(LOOK);
    }
    let lacks = lacks();
    running.stop();
    if let Some(why) = lacks {
        return Err(Failure::failed(format!("The copy is not whole: {why}")));
    }
    text::print_line("Stopped: every acknowledged write is on the disk.")?;
    Ok(())
}

/// Lets the kernel send SIGTERM when the parent has ended. Errors: it has.
fn end_with(parent: u32) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal, Signal};
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::failed(format!("no signal of its parent's end: {error}")))?;
        if getppid().is_none_or(|now| now.as_raw_nonzero().get() as u32 != parent) {
            return Err(Failure::failed("the process that started this one has ended"));
        }
    }
    Ok(())
}

/// The store to read, if an address is given. Errors: options that are of a folder, or of an address.
fn pushed(arguments: &ServeArguments) -> Result<Option<PushedSettings>, Failure> {
    let directory = arguments.directory.as_deref().and_then(Path::to_str);
    let address = directory.filter(|address| address.contains("://"));
    match (address, arguments.refresh) {
        (None, Some(_)) => Err(Failure::settings(
            "--refresh goes with an address such as s3://bucket/folder: a folder is read once",
        )),
        (None, None) => Ok(None),
        (Some(address), _) if arguments.follow.is_some() => Err(Failure::settings(format!(
            "{address} is read where it is, and a replica that follows copies to a folder: leave out \
             --follow, or name a folder"
        ))),
        (Some(address), refresh) => Ok(Some(PushedSettings {
            address: address.to_owned(),
            every: refresh.map_or(REFRESH, Duration::from_secs),
        })),
    }
}

/// The job to ask, if there is one.
fn job(arguments: &ServeArguments) -> Result<Option<JobSettings>, Failure> {
    let Some(checkpoints) = &arguments.job else { return Ok(None) };
    let key = arguments.job_key.as_deref().map(secret).transpose()?;
    Ok(Some(JobSettings {
        search: arguments.job_search.clone().unwrap_or_default(),
        collection: arguments.job_collection.clone(),
        key: key.unwrap_or_default(),
        certificates: arguments.job_certificates.clone(),
        deadline: Duration::from_millis(arguments.job_deadline.into()),
        ..JobSettings::new(checkpoints)
    }))
}

/// The first line of a file. Errors: it cannot be read, or is empty.
fn secret(path: &Path) -> Result<String, Failure> {
    let failed = |why: &str| Failure::settings(format!("{}: {why}", path.display()));
    match read(path)?.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(failed("its first line must be the key")),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::settings(format!("{}: {error}", path.display())))
}

/// The writer to follow, if there is one.
fn follow(arguments: &ServeArguments) -> Result<Option<FollowSettings>, Failure> {
    let Some(writer) = &arguments.follow else { return Ok(None) };
    let key = arguments.follow_key.as_deref().map(read).transpose()?;
    Ok(Some(FollowSettings {
        key: key.map(|key| key.trim().to_owned()),
        certificate: arguments.follow_certificate.clone(),
        behind_max: Duration::from_millis(arguments.behind_max),
        ..FollowSettings::new(writer)
    }))
}

/// Makes a key.
pub(crate) fn key(arguments: &KeyArguments) -> Result<(), Failure> {
    let scope = match arguments.scope.as_str() {
        "read" => Scope::Read,
        "follow" => Scope::Follow,
        "write" => Scope::Write,
        _ => Scope::Admin,
    };
    let made = new_key(&arguments.name, scope, &arguments.collection);
    let (key, entry) = made.map_err(Failure::failed)?;
    text::print_line(&format!("key    {key}"))?;
    text::print_line(&format!("entry  {entry}"))
}
