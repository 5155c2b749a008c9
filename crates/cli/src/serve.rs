//! `vstream serve`: serves the collections of a folder until it is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use vstream_serve::{new_key, FollowSettings, KeyFile, Scope, ServeSettings, Server, TlsFiles};

use crate::arguments::{KeyArguments, ServeArguments};
use crate::failure::Failure;
use crate::text;

/// How often it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until SIGINT or SIGTERM; then answers the requests that are here and closes everything.
pub(crate) fn serve(arguments: ServeArguments) -> Result<(), Failure> {
    let follow = follow(&arguments)?;
    let ServeArguments {
        directory,
        listen,
        metrics,
        keys,
        tls_certificate,
        tls_key,
        audit,
        mcp_writes,
        ..
    } = arguments;
    let keys = keys.map(|path| KeyFile::read(&path)).transpose().map_err(Failure::settings)?;
    let tls = tls_certificate.zip(tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let settings = ServeSettings {
        metrics,
        keys,
        tls,
        audit,
        mcp_writes,
        follow,
        read_only: arguments.read_only,
        ..ServeSettings::new(directory.clone(), listen)
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, stop.clone());
        registered.map_err(|error| Failure::failed(format!("no signals: {error}")))?;
    }
    let running = Server::start(settings).map_err(Failure::settings)?;
    text::print_line(&format!(
        "Serving {} collections of {} at {scheme}://{}",
        running.collections,
        directory.display(),
        running.address
    ))?;
    text::print_line(&format!(
        "A page that shows how it is doing: {scheme}://{}/ui/",
        running.address
    ))?;
    for broken in &running.broken {
        text::print_line(&format!("Not served: {broken}"))?;
    }
    if let Some(metrics) = running.metrics {
        text::print_line(&format!("Metrics at http://{metrics}/metrics"))?;
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    running.stop();
    text::print_line("Stopped: every acknowledged write is on the disk.")?;
    Ok(())
}

/// The writer to follow, if there is one.
fn follow(arguments: &ServeArguments) -> Result<Option<FollowSettings>, Failure> {
    let Some(writer) = &arguments.follow else { return Ok(None) };
    let key = arguments.follow_key.as_ref().map(|path| {
        std::fs::read_to_string(path)
            .map(|key| key.trim().to_owned())
            .map_err(|error| Failure::settings(format!("{}: {error}", path.display())))
    });
    Ok(Some(FollowSettings {
        key: key.transpose()?,
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
