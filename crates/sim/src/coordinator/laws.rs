//! The laws that are compared, with their settings.

use vstream_serve::coordinator::{
    Fixed, Forecast, ForecastSettings, Keda, KedaSettings, Law, Lean, LeanSettings, Passive,
    PassiveSettings, RecallRange, Release, StreamRag, StreamRagSettings,
};

/// Queries per second of the replica for which StreamRAG's numbers of queries hold here. Others are
/// scaled: at its rates a fast replica would be alone in every scenario.
pub const RATE_OF_PAPER: f64 = 200.0;
/// Utilisation of the law that shrinks by one replica per 30 s.
const SLOW_UTILISATION: f64 = 0.7;

/// A law with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Settings {
    /// Always so many.
    Fixed(u32),
    /// StreamRAG's.
    StreamRag(StreamRagSettings),
    /// PassiveRAG's.
    Passive(PassiveSettings),
    /// KEDA's.
    Keda(KedaSettings),
    /// Forecast and backlog.
    Forecast(ForecastSettings),
    /// As few as drain the backlog in time.
    Lean(LeanSettings),
}

/// A row of a table: a law, and what it may do beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As the table has it.
    pub name: String,
    /// The law.
    pub law: Settings,
    /// Recall of queries.
    pub recall: RecallRange,
    /// Whether batches are capped, where there are batches.
    pub is_capped: bool,
}

impl Candidate {
    /// A law at the target recall, in whole batches.
    pub fn new(name: impl Into<String>, law: Settings) -> Candidate {
        let recall = RecallRange::fixed(super::study::TARGET);
        Candidate { name: name.into(), law, recall, is_capped: false }
    }

    /// The law, before its first observation.
    ///
    /// * `chance`: in `[0, 1)`; when a poll comes that knows nothing of the traffic.
    pub fn make(&self, chance: f64) -> Box<dyn Law> {
        const RIGHT: &str = "settings of this file are right";
        match self.law {
            Settings::Fixed(replicas) => Box::new(Fixed::new(replicas).expect(RIGHT)),
            Settings::StreamRag(settings) => Box::new(StreamRag::new(settings).expect(RIGHT)),
            Settings::Passive(settings) => Box::new(Passive::new(settings).expect(RIGHT)),
            Settings::Keda(settings) => {
                let first_s = chance * settings.poll_s;
                Box::new(Keda::new(KedaSettings { first_s, ..settings }).expect(RIGHT))
            }
            Settings::Forecast(settings) => Box::new(Forecast::new(settings).expect(RIGHT)),
            Settings::Lean(settings) => Box::new(Lean::new(settings).expect(RIGHT)),
        }
    }
}

/// StreamRAG's law at `factor` times the paper's numbers of queries.
pub fn stream_rag(factor: f64, change: impl Fn(&mut StreamRagSettings)) -> Settings {
    let mut settings = StreamRagSettings::default();
    change(&mut settings);
    settings.beta *= factor;
    Settings::StreamRag(settings)
}

/// PassiveRAG's law at `factor` times the paper's numbers of queries.
pub fn passive(factor: f64) -> Settings {
    let settings = PassiveSettings::default();
    Settings::Passive(PassiveSettings { threshold: settings.threshold * factor, ..settings })
}

/// Name of PassiveRAG's row.
pub const PASSIVE: &str = "PassiveRAG";
/// Name of the row of StreamRAG's law with a hold.
pub const STREAM_RAG_HELD: &str = "StreamRAG, hold";
/// Name of the row of our default law.
pub const DEFAULT: &str = "lean";

/// All laws that are compared.
///
/// * `factor`: rate of a replica over [`RATE_OF_PAPER`].
/// * `floor`: of the recall, for the rows with effort as a lever.
pub fn candidates(factor: f64, floor: f64) -> Vec<Candidate> {
    let fixed =
        (1..=4).map(|count| Candidate::new(format!("static {count}"), Settings::Fixed(count)));
    let mut all: Vec<Candidate> = fixed.collect();
    let held = |settings: &mut StreamRagSettings| settings.release = Release::HELD;
    let keda = KedaSettings::default();
    let slow = ForecastSettings {
        utilisation: SLOW_UTILISATION,
        release: Release::OnePer { seconds: 30.0 },
        ..ForecastSettings::default()
    };
    let lean = Settings::Lean(LeanSettings::default());
    all.extend([
        Candidate::new(PASSIVE, passive(factor)),
        Candidate::new("StreamRAG, drop at once", stream_rag(factor, |_| ())),
        Candidate::new(STREAM_RAG_HELD, stream_rag(factor, held)),
        Candidate::new(
            "StreamRAG, hold, β 0.7 μ · 1 s",
            stream_rag(factor, |settings| {
                held(settings);
                settings.beta = 0.7 * RATE_OF_PAPER;
            }),
        ),
        Candidate::new("KEDA", Settings::Keda(KedaSettings { lag: keda.lag * factor, ..keda })),
        Candidate::new("forecast, one less per 30 s", Settings::Forecast(slow)),
        Candidate::new("forecast", Settings::Forecast(ForecastSettings::default())),
        Candidate::new(DEFAULT, lean),
    ]);
    let recall = RecallRange { floor, ..RecallRange::fixed(super::study::TARGET) };
    for name in ["forecast", DEFAULT] {
        let with = all.iter().find(|candidate| candidate.name == name).cloned();
        let with = with.map(|law| Candidate { name: format!("{name}, effort"), recall, ..law });
        all.extend(with);
    }
    all
}

/// Rows of our laws again, with batches that are capped.
pub fn capped(candidates: &[Candidate]) -> Vec<Candidate> {
    let ours = candidates
        .iter()
        .filter(|candidate| matches!(candidate.law, Settings::Forecast(_) | Settings::Lean(_)));
    let capped = ours.cloned().map(|mut candidate| {
        candidate.name += ", capped";
        candidate.is_capped = true;
        candidate
    });
    capped.collect()
}
