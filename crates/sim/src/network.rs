//! An object store beyond a network that fails: by chance, as a seed draws it, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vstream_store::remote::{
    Fault, FaultKind, MemoryObjects, Objects, PutMode, RemoteStore, RetryPolicy, Upload,
};
use vstream_store::{Buffer, Clock, Entry, Range};
use vstream_vector::SplitMix;

/// Time that passes when somebody waits.
#[derive(Default)]
pub struct VirtualClock(AtomicU64);

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, wait: Duration) {
        self.0.fetch_add(wait.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// How bad the network is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Of 100 requests: how many meet a fault.
    pub faults_percent: usize,
    /// Of 100 ranges that arrive: how many have a bit flipped on the way.
    pub flips_percent: usize,
    /// Requests until every further one fails: the process is killed there.
    pub dies_in: Option<u64>,
}

struct State {
    random: SplitMix,
    weather: Weather,
    faults: u64,
    flips: u64,
}

/// Objects beyond a network. Clones are the same.
#[derive(Clone)]
pub struct Network {
    objects: MemoryObjects,
    clock: Arc<VirtualClock>,
    state: Arc<Mutex<State>>,
}

impl Network {
    /// A network in front of `objects`, without faults.
    pub fn new(objects: MemoryObjects, seed: u64) -> Network {
        let (random, weather) = (SplitMix(seed), Weather::default());
        let state = State { random, weather, faults: 0, flips: 0 };
        Network { objects, clock: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// Changes how bad it is.
    pub fn set(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Faults and flipped bits so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.faults, state.flips)
    }

    /// What is beyond it.
    pub fn objects(&self) -> &MemoryObjects {
        &self.objects
    }

    /// The time behind it.
    pub fn clock(&self) -> Arc<VirtualClock> {
        self.clock.clone()
    }

    /// A store on this side of the network.
    pub fn store(&self, seed: u64) -> RemoteStore {
        let policy = RetryPolicy::default();
        RemoteStore::new(Arc::new(self.clone()), policy, self.clock.clone(), seed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request: it may be done or not, and may seem so or not.
    fn request<T>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let drawn = {
            let mut state = self.state();
            if let Some(left) = &mut state.weather.dies_in {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return Err(Fault::new(FaultKind::Refused, "the process is dead"));
                }
            }
            let percent = state.weather.faults_percent;
            let fails = state.random.below(100) < percent;
            state.faults += u64::from(fails);
            fails.then(|| state.random.below(6))
        };
        let doubtful = |what| Err(Fault::new(FaultKind::Doubtful, what));
        match drawn {
            None => work(),
            Some(0 | 1) => doubtful("503 Slow Down"),
            Some(2) => work().and(doubtful("the connection broke after it was done")),
            Some(3) => {
                self.clock.sleep(timeout);
                doubtful("no answer in time")
            }
            Some(4) => {
                self.clock.sleep(timeout);
                work().and(doubtful("done, but the answer came too late"))
            }
            Some(_) => {
                self.clock.sleep(timeout / 2);
                work()
            }
        }
    }

    /// What arrives of a range: perhaps a part, perhaps changed.
    fn arrive(&self, buffer: Buffer) -> Buffer {
        let mut state = self.state();
        let mut bytes = buffer.to_vec();
        if state.random.below(200) < state.weather.faults_percent {
            state.faults += 1;
            let short = state.random.below(bytes.len() + 1);
            bytes.truncate(short);
        }
        if !bytes.is_empty() && state.random.below(100) < state.weather.flips_percent {
            state.flips += 1;
            let bit = state.random.below(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        Buffer::from(bytes)
    }
}

impl Objects for Network {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, t: Duration) -> Result<(), Fault> {
        self.request(t, || self.objects.put(name, bytes, mode, t))
    }

    fn bytes(&self, name: &str, t: Duration) -> Result<u64, Fault> {
        self.request(t, || self.objects.bytes(name, t))
    }

    fn get(&self, name: &str, ranges: &[Range], t: Duration) -> Vec<Result<Buffer, Fault>> {
        let get = |range: &Range| {
            let got = self.request(t, || {
                self.objects.get(name, &[*range], t).pop().expect("an answer per range")
            });
            got.map(|buffer| self.arrive(buffer))
        };
        ranges.iter().map(get).collect()
    }

    fn list(&self, prefix: &str, t: Duration) -> Result<Vec<Entry>, Fault> {
        self.request(t, || self.objects.list(prefix, t))
    }

    fn delete(&self, name: &str, t: Duration) -> Result<(), Fault> {
        self.request(t, || self.objects.delete(name, t))
    }

    fn upload(&self, name: &str, t: Duration) -> Result<Box<dyn Upload>, Fault> {
        let upload = self.request(t, || self.objects.upload(name, t))?;
        Ok(Box::new(FarUpload { network: self.clone(), upload }))
    }

    fn describe(&self, name: &str) -> String {
        self.objects.describe(name)
    }
}

struct FarUpload {
    network: Network,
    upload: Box<dyn Upload>,
}

impl Upload for FarUpload {
    fn send(&mut self, parts: &[(usize, &[u8])], t: Duration) -> Vec<Result<(), Fault>> {
        let FarUpload { network, upload } = self;
        let send = |part| {
            network.request(t, || upload.send(&[part], t).pop().expect("an answer per part"))
        };
        parts.iter().copied().map(send).collect()
    }

    fn publish(&mut self, t: Duration) -> Result<(), Fault> {
        let FarUpload { network, upload } = self;
        network.request(t, || upload.publish(t))
    }
}
