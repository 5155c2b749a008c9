//! One address for several replicas, of which there are as many as requests need.
//!
//! 1. A request waits ([`places`]) until a replica has room for it. Its answer is sent on as it comes
//!    ([`forward`]). What ended without an answer is asked for again elsewhere: replicas only read.
//! 2. Ten times per second a [`Coordinator`] sees how many requests arrived, wait and are under way, and
//!    how long they take, and orders replicas: processes of this machine.
//! 3. Keys are the replicas' business: they get the headers of a request as they are.

mod forward;
mod observe;
mod places;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use self::forward::{forward, Front};
use self::observe::{health, observing, Observed};
use self::places::Places;
use crate::coordinator::{
    CommandLine, Coordinator, CoordinatorSettings, Forecast, ForecastSettings, Law, Lean,
    LeanSettings, Processes, Steering, SteeringSettings,
};
use crate::limits::Limits;
use crate::server::{acceptor, bind, serve, threads};
use crate::settings::{check_addresses, TlsFiles};

/// Time between two looks at the fleet.
const TICK: Duration = Duration::from_millis(100);
/// What a request and a start are thought to take until some were measured.
const FIRST_SERVICE_S: f64 = 0.005;
const FIRST_START_S: f64 = 1.0;

/// Which law says how many replicas there should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalanceLaw {
    /// As few as drain the backlog in time.
    #[default]
    Lean,
    /// Room for what is forecast.
    Forecast,
}

/// What a balancer is told when it starts.
#[derive(Clone, Debug)]
pub struct BalanceSettings {
    /// Address of the interface.
    pub listen: SocketAddr,
    /// Address of health and metrics, which need no key; `None`: they are not served.
    pub metrics: Option<SocketAddr>,
    /// Certificate; `None`: connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Whether replicas ask for keys.
    pub has_keys: bool,
    /// How a replica is started.
    pub replica: CommandLine,
    /// Replicas at least and at most: 1 to 1,000.
    pub replicas: (u32, u32),
    /// How many of these.
    pub law: BalanceLaw,
    /// Requests at a replica at a time: 1 to 1,000.
    pub at_a_time: u32,
    /// Requests that may wait; further ones are refused with 503.
    pub waiting: usize,
    /// How long a request waits for a replica; then it is refused with 503. [`Limits::request`] bounds it.
    pub wait: Duration,
    /// Time of a replica to become ready, and to end; then it is killed.
    pub patience: Duration,
    /// What is accepted at most.
    pub limits: Limits,
}

impl BalanceSettings {
    /// One to four replicas, on this machine alone.
    pub fn new(replica: CommandLine, listen: SocketAddr) -> BalanceSettings {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        BalanceSettings {
            listen,
            metrics: None,
            tls: None,
            has_keys: false,
            replica,
            replicas: (1, 4),
            law: BalanceLaw::default(),
            at_a_time: threads.min(1_000) as u32,
            waiting: 10_000,
            wait: Duration::from_secs(30),
            patience: Duration::from_secs(300),
            limits: Limits::default(),
        }
    }

    fn steering(&self) -> Result<Steering<Processes>, String> {
        let wrong = |error: crate::coordinator::CoordinatorError| error.to_string();
        let law: Box<dyn Law> = match self.law {
            BalanceLaw::Lean => Box::new(Lean::new(LeanSettings::default()).map_err(wrong)?),
            BalanceLaw::Forecast => {
                Box::new(Forecast::new(ForecastSettings::default()).map_err(wrong)?)
            }
        };
        let (least, cap) = self.replicas;
        let bounds = CoordinatorSettings { least, cap, ..CoordinatorSettings::default() };
        let coordinator = Coordinator::new(law, bounds).map_err(wrong)?;
        // One that stops must not keep another from being started.
        let processes = cap.saturating_mul(2).min(crate::coordinator::REPLICAS_MAX);
        let fleet = Processes::new(self.replica.clone(), processes, self.patience);
        let first = SteeringSettings {
            service_s: FIRST_SERVICE_S,
            start_s: FIRST_START_S,
            at_a_time: self.at_a_time,
        };
        Steering::new(coordinator, fleet.map_err(wrong)?, first).map_err(wrong)
    }
}

/// Starts balancers.
pub struct Balancer;

/// A balancer that forwards requests.
pub struct Balancing {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where health and metrics are.
    pub metrics: Option<SocketAddr>,
    places: Arc<Places<Processes>>,
    patience: Duration,
    stop: watch::Sender<bool>,
    over: watch::Sender<bool>,
    looking: JoinHandle<()>,
    serving: Vec<tokio::task::JoinHandle<()>>,
    runtime: Runtime,
}

impl Balancer {
    /// Starts the first replicas and forwards requests to them. Errors: a sentence; nothing listens and
    /// no replica runs then.
    pub fn start(settings: BalanceSettings) -> Result<Balancing, String> {
        let has_tls = settings.tls.is_some();
        check_addresses(settings.listen, settings.metrics, settings.has_keys && has_tls)?;
        let tls = settings.tls.as_ref().map(acceptor).transpose()?;
        let places = Places::new(settings.steering()?, settings.waiting);
        let runtime = threads("balance", 0)?;
        let bind = |address| bind(&runtime, address);
        let (listener, address) = bind(settings.listen)?;
        let observer = settings.metrics.map(bind).transpose()?;
        let (stop, stopping) = watch::channel(false);
        let (over, is_over) = watch::channel(false);
        let looking = look(places.clone(), is_over)?;
        let (observed, limits) = (Arc::new(Observed::new()), settings.limits.clone());
        let mut serving = Vec::new();
        let metrics = observer.map(|(listener, local)| {
            let router = observing(&places, &observed);
            let serve = serve(listener, router, None, limits.clone(), stopping.clone());
            serving.push(runtime.spawn(serve));
            local
        });
        let patience = settings.patience;
        let front = Arc::new(Front::new(places.clone(), observed, settings));
        let forwarding = Router::new().fallback(forward::<Processes>).with_state(front);
        let router = health(places.clone()).merge(forwarding);
        serving.push(runtime.spawn(serve(listener, router, tls, limits, stopping)));
        Ok(Balancing { address, metrics, places, patience, stop, over, looking, serving, runtime })
    }
}

/// A thread that looks at the fleet until it is over. It starts all replicas, since one may be told to end
/// with the thread that started it.
fn look(
    places: Arc<Places<Processes>>,
    is_over: watch::Receiver<bool>,
) -> Result<JoinHandle<()>, String> {
    let looks = move || {
        // Dropped, it is over too.
        while !*is_over.borrow() && is_over.has_changed().is_ok() {
            // What failed is in the counts, and tried again.
            let _ = places.tick();
            std::thread::sleep(TICK);
        }
    };
    let thread = std::thread::Builder::new().name("replicas".to_owned()).spawn(looks);
    thread.map_err(|error| format!("no threads: {error}"))
}

impl Balancing {
    /// Replicas that take requests, and those that start.
    pub fn replicas(&self) -> (u32, u32) {
        let counts = self.places.counts();
        (counts.ready, counts.starting)
    }

    /// Why the last look at the replicas failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        self.places.counts().trouble
    }

    /// Takes no more connections, answers the requests that are here, and ends all replicas.
    pub fn stop(self) {
        let Balancing { places, patience, stop, over, looking, serving, runtime, .. } = self;
        // Nobody listens if all have ended.
        let _ = stop.send(true);
        runtime.block_on(async {
            for serving in serving {
                // A task that panicked has said so.
                let _ = serving.await;
            }
        });
        // Else it would start others.
        let _ = over.send(true);
        let _ = looking.join();
        let end = Instant::now() + patience;
        while !places.end() && Instant::now() < end {
            std::thread::sleep(TICK / 10);
        }
        // Those that are left are killed when the last of this is dropped.
        drop(runtime);
    }
}
