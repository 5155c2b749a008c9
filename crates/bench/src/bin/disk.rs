//! `disk`: collections larger than memory, while rows are replaced and while they come.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Args, Parser};
use serde_json::{json, Value};
use vstream_bench::disk::larger::{self, LargerSettings};
use vstream_bench::disk::remote::{self, RemoteSettings};
use vstream_bench::disk::updates::{self, UpdatesSettings};
use vstream_bench::disk::{forms, fresh, Kept, Made, Order, PlanSettings, RowFile};
use vstream_bench::runbook::{Matrix, RunbookError};
use vstream_bench::storage::truth;
use vstream_engine::{Effort, Element, SegmentIndex, Syncing};
use vstream_store::FileStore;

/// Measures collections that are larger than the memory they may use.
#[derive(Parser)]
#[command(name = "disk", version)]
enum Arguments {
    /// Writes which rows live first, which replace them, and the exact answers after every epoch.
    Plan(PlanArguments),
    /// Follows a plan with an engine that has a limit to memory.
    Updates(UpdatesArguments),
    /// Builds the rows of one epoch anew and prints what the scored queries find.
    Fresh(FreshArguments),
    /// Fills an engine with the first rows of a plan, which do not fit in its memory.
    Larger(LargerArguments),
    /// Keeps a share of the segments local and times queries by what they read in a far store.
    Remote(RemoteArguments),
    /// Compares graphs, DiskANN's layout and clusters at equal memory.
    Forms(FormsArguments),
}

#[derive(Args)]
struct PlanArguments {
    /// Matrix file with the rows; seeded neighbours of them stand in for those that it lacks.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Use the first queries only; half of them are scored.
    #[arg(long)]
    queries_max: Option<usize>,
    /// Rows that live.
    #[arg(long)]
    rows: usize,
    /// Epochs.
    #[arg(long, default_value_t = 0)]
    epochs: usize,
    /// Share of the rows that an epoch replaces.
    #[arg(long, default_value_t = 0.01)]
    share: f64,
    /// uniform, or skewed: cluster by cluster.
    #[arg(long, default_value = "uniform")]
    order: Order,
    /// Seed of all choices.
    #[arg(long, default_value_t = 20_230)]
    seed: u64,
    /// Folder for the plan.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Where things are, and how the engine is made.
#[derive(Args)]
struct Subject {
    /// Matrix file that the plan was made for.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file that the plan was made for.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Folder of the plan.
    #[arg(long, value_name = "FOLDER")]
    plan: PathBuf,
    /// Folder for the collection, on the disk to be measured; what an earlier run left is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Element type.
    #[arg(long, default_value = "u8")]
    element: Element,
    /// clusters or graph.
    #[arg(long, default_value = "clusters", value_parser = segment_index)]
    segments: SegmentIndex,
    /// Memory for rows in no segment and for blocks, in KiB.
    #[arg(long)]
    memory_kib: u64,
    /// Memory for codes, in KiB; without it all are in memory.
    #[arg(long)]
    code_memory_kib: Option<u64>,
    /// Recall@10 that the guard aims at.
    #[arg(long, default_value_t = 0.95)]
    target: f64,
}

#[derive(Args)]
struct UpdatesArguments {
    #[command(flatten)]
    subject: Subject,
    /// Rows replaced per second, at most.
    #[arg(long, default_value_t = 2_000.0)]
    rate: f64,
    /// Queries beside the writes of an epoch, at least.
    #[arg(long, default_value_t = 1_000)]
    asked: usize,
    /// A fresh build stands beside every so many epochs; 0: none.
    #[arg(long, default_value_t = 10)]
    fresh_every: usize,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

#[derive(Args)]
struct FreshArguments {
    #[command(flatten)]
    subject: Subject,
    /// Epochs that the plan is followed for.
    #[arg(long)]
    epochs: usize,
    /// Leaves to visit.
    #[arg(long)]
    probes: usize,
    /// Exact distances to take.
    #[arg(long)]
    refine: usize,
}

#[derive(Args)]
struct LargerArguments {
    #[command(flatten)]
    subject: Subject,
    /// Rows per second of the last tenth, at most.
    #[arg(long, default_value_t = 40_000.0)]
    rate: f64,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

#[derive(Args)]
struct RemoteArguments {
    #[command(flatten)]
    subject: Subject,
    /// Address of the far store: s3://bucket/folder or a folder.
    #[arg(long)]
    address: String,
    /// Shares of the segments that stay local.
    #[arg(long, value_delimiter = ',', default_value = "1,0.1,0")]
    shares: Vec<f64>,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

#[derive(Args)]
struct FormsArguments {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries: the first half fills caches, the second is measured.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Rows.
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
    /// Use the first queries only.
    #[arg(long, default_value_t = 1_000)]
    queries_max: usize,
    /// Folder on the disk to be measured.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Element type.
    #[arg(long, default_value = "u8")]
    element: Element,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

fn segment_index(name: &str) -> Result<SegmentIndex, String> {
    SegmentIndex::from_name(name).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    // As `vstream serve` does.
    vstream_engine::share_heaps();
    let done = match Arguments::parse() {
        Arguments::Plan(arguments) => plan(&arguments),
        Arguments::Updates(arguments) => follow(&arguments),
        Arguments::Fresh(arguments) => build(&arguments),
        Arguments::Larger(arguments) => fill(&arguments),
        Arguments::Remote(arguments) => reach(&arguments),
        Arguments::Forms(arguments) => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(arguments: &PlanArguments) -> Result<(), RunbookError> {
    let data = RowFile::open(&arguments.data)?;
    let queries = Matrix::read(&arguments.queries, arguments.queries_max)?;
    let PlanArguments { rows, epochs, share, order, seed, .. } = *arguments;
    let settings = PlanSettings { rows, epochs, share, order, seed };
    let about = Kept::write(&arguments.out, &data, &queries, &settings)?;
    println!("{}", json!(about));
    Ok(())
}

/// Plan, rows and queries of a subject.
type Opened = (Kept, RowFile, Matrix);

impl Subject {
    fn made(&self) -> Made {
        Made {
            element: self.element,
            segments: self.segments,
            memory: self.memory_kib << 10,
            code_memory: self.code_memory_kib.map(|kib| kib << 10),
            target: self.target,
        }
    }

    fn open(&self) -> Result<Opened, RunbookError> {
        let kept = Kept::open(&self.plan)?;
        let data = RowFile::open(&self.data)?;
        let queries = Matrix::read(&self.queries, Some(kept.about.queries))?;
        if data.dimension() != kept.about.dimension || queries.rows() != kept.about.queries {
            return Err(RunbookError::BadRequest(format!(
                "The plan in {} was made for other rows or queries. Make it again: disk plan.",
                self.plan.display()
            )));
        }
        Ok((kept, data, queries))
    }

    /// Runs this program in a process of its own, over the same subject.
    fn fresh(
        &self,
        epochs: usize,
        (probes, refine): (usize, usize),
    ) -> Result<Value, RunbookError> {
        let failed = |what: String| RunbookError::Io(format!("The fresh build failed: {what}."));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("fresh");
        for (name, path) in
            [("--data", &self.data), ("--queries", &self.queries), ("--plan", &self.plan)]
        {
            command.arg(name).arg(path);
        }
        let beside = self.dir.with_extension("fresh");
        command.arg("--dir").arg(beside);
        let mut texts = vec![
            ("--element", self.element.to_string()),
            ("--segments", self.segments.name().to_owned()),
            ("--memory-kib", self.memory_kib.to_string()),
            ("--target", self.target.to_string()),
            ("--epochs", epochs.to_string()),
            ("--probes", probes.to_string()),
            ("--refine", refine.to_string()),
        ];
        texts.extend(self.code_memory_kib.map(|kib| ("--code-memory-kib", kib.to_string())));
        for (name, text) in &texts {
            command.arg(name).arg(text);
        }
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
    }
}

fn follow(arguments: &UpdatesArguments) -> Result<(), RunbookError> {
    let subject = &arguments.subject;
    let (kept, data, queries) = subject.open()?;
    if arguments.rate.is_nan() || arguments.rate <= 0.0 {
        let rate = arguments.rate;
        return Err(RunbookError::BadRequest(format!("--rate is {rate}: use a rate above 0.")));
    }
    let settings = UpdatesSettings {
        made: subject.made(),
        dir: &subject.dir,
        rate: arguments.rate,
        asked: arguments.asked,
        fresh_every: arguments.fresh_every,
        ask_fresh: &|epochs, effort| subject.fresh(epochs, effort),
    };
    let found = updates::run((&kept, &data, &queries), &settings, &mut |epoch| {
        eprintln!(
            "epoch {}: recall {:.4}, {} segments, peak {} bytes",
            epoch["epoch"],
            epoch["asked"]["recall"].as_f64().unwrap_or(0.0),
            epoch["segments"],
            epoch["peak-bytes"]
        );
    })?;
    write(&arguments.out, &found)
}

fn build(arguments: &FreshArguments) -> Result<(), RunbookError> {
    let subject = &arguments.subject;
    let (kept, data, queries) = subject.open()?;
    if arguments.epochs > kept.about.epochs {
        let epochs = kept.about.epochs;
        return Err(RunbookError::BadRequest(format!(
            "The plan has {epochs} epochs. Lower --epochs."
        )));
    }
    let scored = updates::scored(&kept, &queries);
    let effort = Effort::Chosen { probes: arguments.probes, refine: Some(arguments.refine) };
    let made = (&subject.made(), subject.dir.as_path());
    println!("{}", fresh::build((&kept, &data, &scored), made, arguments.epochs, effort)?);
    Ok(())
}

fn fill(arguments: &LargerArguments) -> Result<(), RunbookError> {
    let subject = &arguments.subject;
    let (kept, data, queries) = subject.open()?;
    let settings = LargerSettings { made: subject.made(), dir: &subject.dir, rate: arguments.rate };
    write(&arguments.out, &larger::run((&kept, &data, &queries), &settings)?)
}

fn reach(arguments: &RemoteArguments) -> Result<(), RunbookError> {
    let RemoteArguments { subject, address, shares, out } = arguments;
    if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        let what = format!("--shares has {share}: use shares from 0 to 1.");
        return Err(RunbookError::BadRequest(what));
    }
    let (kept, data, queries) = subject.open()?;
    let settings = RemoteSettings { made: subject.made(), dir: &subject.dir, address, shares };
    write(out, &remote::run((&kept, &data, &queries), &settings)?)
}

fn compare(arguments: &FormsArguments) -> Result<(), RunbookError> {
    let data = RowFile::open(&arguments.data)?;
    let queries = Matrix::read(&arguments.queries, Some(arguments.queries_max))?;
    if queries.dimension != data.dimension() || queries.rows() < 2 {
        return Err(RunbookError::BadRequest(
            "The queries are not of the rows' dimension, or fewer than two.".to_owned(),
        ));
    }
    let mut rows = Matrix {
        dimension: data.dimension(),
        values: vec![0.0; arguments.rows * data.dimension()],
    };
    for (at, row) in rows.values.chunks_exact_mut(data.dimension()).enumerate() {
        data.read(at, row)?;
    }
    let truth = truth(&rows, &queries);
    let refused = |error: vstream_store::Error| RunbookError::Io(error.to_string());
    let store = Arc::new(FileStore::create_dir(&arguments.dir, Syncing::Full).map_err(refused)?);
    let run = forms::FormsRun {
        rows: &rows,
        queries: &queries,
        truth: &truth,
        element: arguments.element,
        store: &*store,
    };
    let mut every = Vec::new();
    forms::run(&run, &mut |form| {
        eprintln!("{}: {:?} at recall 0.95", form.name, form.at(0.95));
        let at: Vec<Value> = [0.90, 0.95, 0.98].iter().map(|&at| json!(form.at(at))).collect();
        let mut line = json!(form);
        line["at"] = json!(at);
        every.push(line);
    })
    .map_err(refused)?;
    let about = json!({
        "rows": arguments.rows, "dimension": data.dimension(), "element": arguments.element.to_string(),
        "neighbours": arguments.rows.saturating_sub(data.rows()),
        "queries": queries.rows() / 2, "forms": every,
    });
    write(&arguments.out, &about)
}

fn write(path: &Path, found: &Value) -> Result<(), RunbookError> {
    fs::write(path, format!("{found:#}\n"))
        .map_err(|error| RunbookError::Io(format!("Cannot write {}: {error}.", path.display())))
}
