//! `vstream balance`: one address for as many replicas as requests need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, FromArgMatches};
use signal_hook::consts::{SIGINT, SIGTERM};
use vstream_serve::coordinator::CommandLine;
use vstream_serve::{BalanceLaw, BalanceSettings, Balancer, Balancing, Limits, TlsFiles};

use crate::arguments::{BalanceArguments, ServeArguments};
use crate::failure::Failure;
use crate::text;

/// How often it looks whether it shall stop, and how many replicas there are.
const LOOK: Duration = Duration::from_millis(50);
/// What the balancer says itself.
const OWN: [&str; 4] = ["--listen", "--metrics", "--tls-certificate", "--tls-key"];

/// Forwards requests until SIGINT or SIGTERM; then answers those that are here and ends all replicas.
pub(crate) fn balance(arguments: BalanceArguments) -> Result<(), Failure> {
    let has_keys = check(&arguments.serve, arguments.replicas.1)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("no path of this program: {error}")))?;
    let parent = std::process::id().to_string();
    let own = ["serve", "--listen", "127.0.0.1:0", "--ends-with-parent", &parent];
    let own = own.into_iter().map(str::to_owned);
    let arguments_of_each = own.chain(arguments.serve).collect();
    let ready = Some("/readyz".to_owned());
    let replica = CommandLine { program, arguments: arguments_of_each, ready };
    let tls = arguments.tls_certificate.zip(arguments.tls_key);
    let tls = tls.map(|(certificate, key)| TlsFiles { certificate, key });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let base = BalanceSettings::new(replica, arguments.listen);
    let (least, most) = arguments.replicas;
    let patience = Duration::from_secs(arguments.patience);
    let settings = BalanceSettings {
        metrics: arguments.metrics,
        tls,
        has_keys,
        replicas: (least, most),
        law: if arguments.law == "forecast" { BalanceLaw::Forecast } else { BalanceLaw::Lean },
        at_a_time: arguments.at_a_time.unwrap_or(base.at_a_time),
        waiting: arguments.waiting as usize,
        wait: Duration::from_secs(arguments.wait),
        patience,
        // The time of the request itself comes after that.
        limits: Limits {
            request: base.limits.request + Duration::from_secs(arguments.wait),
            ..base.limits.clone()
        },
        ..base
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, stop.clone());
        registered.map_err(|error| Failure::failed(format!("no signals: {error}")))?;
    }
    let balancing = Balancer::start(settings).map_err(Failure::settings)?;
    if let Err(failure) = first(&balancing, &stop, patience) {
        balancing.stop();
        return Err(failure);
    }
    text::print_line(&format!(
        "Balancing {least} to {most} replicas at {scheme}://{}",
        balancing.address
    ))?;
    if let Some(metrics) = balancing.metrics {
        text::print_line(&format!("Metrics at http://{metrics}/metrics"))?;
    }
    let said = watch(&balancing, &stop);
    balancing.stop();
    said?;
    text::print_line("Stopped: all replicas have ended.")?;
    Ok(())
}

/// Whether replicas ask for keys. Errors: what no replica may be told.
///
/// * `most`: replicas.
fn check(serve: &[String], most: u32) -> Result<bool, Failure> {
    let is_own =
        |word: &String| OWN.iter().find(|own| word == *own || word.starts_with(&format!("{own}=")));
    if let Some(own) = serve.iter().find_map(is_own) {
        return Err(Failure::settings(format!(
            "{own} is of the balancer: give it before the two dashes; replicas listen on ports of \
             127.0.0.1 that are free"
        )));
    }
    let command = ServeArguments::augment_args(clap::Command::new("serve").no_binary_name(true));
    let wrong = |error: clap::Error| {
        let why = error.to_string();
        let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::settings(format!("what stands behind the two dashes is wrong: {why}"))
    };
    let matches = command.try_get_matches_from(serve).map_err(wrong)?;
    let replica = ServeArguments::from_arg_matches(&matches).map_err(wrong)?;
    let directory = replica.directory.as_deref().and_then(std::path::Path::to_str);
    let is_pushed = directory.is_some_and(|directory| directory.contains("://"));
    let only_reads =
        is_pushed || replica.read_only || replica.follow.is_some() || replica.job.is_some();
    let is_one_folder = !serve.iter().any(|word| word.contains("{replica}"));
    if replica.follow.is_some() && !replica.read_only && is_one_folder && most > 1 {
        return Err(Failure::settings(
            "each replica that follows keeps a copy of its own: name a folder with {replica} in it",
        ));
    }
    match only_reads {
        true if replica.once => Err(Failure::settings("a replica with --once ends by itself")),
        true => Ok(replica.keys.is_some()),
        false => Err(Failure::settings(
            "several servers cannot write one folder: let the replicas only read, with --read-only, \
             --follow, --job, or an address to which collections are pushed",
        )),
    }
}

/// Waits until a replica takes requests. Errors: none does in time.
fn first(balancing: &Balancing, stop: &AtomicBool, patience: Duration) -> Result<(), Failure> {
    let end = Instant::now() + patience;
    while balancing.replicas().0 == 0 && !stop.load(Ordering::Relaxed) {
        let (trouble, starting) = (balancing.trouble(), balancing.replicas().1);
        if trouble.is_some() && starting == 0 || Instant::now() > end {
            let why = trouble.unwrap_or_else(|| format!("none within {} s", patience.as_secs()));
            return Err(Failure::failed(format!("No replica takes requests: {why}.")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Says how many replicas there are whenever it changes.
fn watch(balancing: &Balancing, stop: &AtomicBool) -> Result<(), Failure> {
    let (mut last, mut was_wrong) = (0, None);
    // Seconds and tries change all the time.
    let kind = |trouble: &String| trouble.split(|c: char| c.is_ascii_digit()).collect::<String>();
    while !stop.load(Ordering::Relaxed) {
        let (ready, trouble) = (balancing.replicas().0, balancing.trouble());
        if ready != last {
            let replicas = if ready == 1 { "replica takes" } else { "replicas take" };
            text::print_line(&format!("{ready} {replicas} requests"))?;
            last = ready;
        }
        let is_wrong = trouble.as_ref().map(kind);
        if is_wrong != was_wrong {
            if let Some(trouble) = &trouble {
                text::print_line(&format!("Trouble: {trouble}"))?;
            }
            was_wrong = is_wrong;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
