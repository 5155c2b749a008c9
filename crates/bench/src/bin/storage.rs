//! `storage`: what vectors cost at rest, and what a search costs that reads them from there.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};
use vstream_bench::runbook::{Matrix, RunbookError};
use vstream_bench::storage::{
    ablation, codec_table, far, leaf_order, seal, search, tiers, truth, Asking, FarEffort, Larger,
};
use vstream_engine::{Ablation, Element, Engine, Settings};
use vstream_segment::Codes;
use vstream_store::codec::{Policy, Tier};
use vstream_store::remote::Location;
use vstream_store::{FileStore, Store, Syncing};

/// Measures codecs and sealed segments.
#[derive(Parser)]
#[command(name = "storage", version)]
enum Arguments {
    /// Prints size and speed of the codecs over matrix files.
    Codecs(Codecs),
    /// Seals rows into a segment on disk and searches it past the page cache, within a budget.
    Search(Search),
    /// Pushes a sealed segment to a place, searches it there, and restores it.
    Far(Far),
    /// Streams rows into an engine with a limit to memory, and searches it past the page cache.
    Engine(WholeEngine),
    /// Prints what compression, hot-cold and the threshold stop are worth in such an engine.
    Ablation(Parts),
}

#[derive(Args)]
struct Parts {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries that streams are drawn from.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Folder for the collections, on the disk to be measured.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Queries that are measured of each stream; as many before fill caches.
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// Element type of the collection.
    #[arg(long, default_value = "f32")]
    element: Element,
    /// Memory for rows in no segment and for blocks that were read, in MiB.
    #[arg(long, default_value_t = 8)]
    memory_mib: u64,
    /// Memory for codes, in KiB.
    #[arg(long, default_value_t = 2048)]
    code_memory_kib: u64,
    /// Leaves visited and exact distances, such as 32x100.
    #[arg(long, value_name = "PROBESxREFINE", value_parser = effort, default_value = "96x150")]
    effort: (usize, usize),
    /// Merge the segments first.
    #[arg(long)]
    merged: bool,
}

#[derive(Args)]
struct Far {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Folder for the segment and what is restored; what an earlier run left there is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Where to push to; the bucket of VSTREAM_TEST_S3 if it is not given.
    #[arg(long, value_name = "URL")]
    place: Option<String>,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Queries.
    #[arg(long, default_value_t = 200)]
    queries_max: usize,
    /// Bytes of the block cache, in MiB.
    #[arg(long, default_value_t = 64)]
    cache_mib: usize,
    /// Leaves visited and exact distances, such as 32x100.
    #[arg(long, value_name = "PROBESxREFINE", value_parser = effort, default_value = "32x100")]
    effort: (usize, usize),
}

#[derive(Args)]
struct WholeEngine {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries: the first half fills the cache, the second is measured.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Folder for the collection, on the disk to be measured; what an earlier run left is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Use the first queries only.
    #[arg(long)]
    queries_max: Option<usize>,
    /// Element type of the collection.
    #[arg(long, default_value = "f32")]
    element: Element,
    /// Memory for rows in no segment and for blocks that were read, in MiB.
    #[arg(long, default_value_t = 32)]
    memory_mib: u64,
    /// Memory for codes of segments, in KiB; without it all are in memory.
    #[arg(long)]
    code_memory_kib: Option<u64>,
    /// Leave out a part: hot-cold, compression or threshold-stop; may be given several times.
    #[arg(long, value_name = "PART")]
    without: Vec<String>,
    /// Also ask at the first effort while rows come, and right after the last one.
    #[arg(long)]
    beside: bool,
    /// Rows per second at most, with --beside.
    #[arg(long, requires = "beside")]
    rate: Option<f64>,
    /// Also measure an engine that holds all rows in memory.
    #[arg(long)]
    compare: bool,
    /// Efforts: auto, or leaves visited and exact distances that were picked, such as 32x100.
    #[arg(long, value_name = "auto|PROBESxREFINE",
        default_values = ["auto", "64x100", "96x150", "128x200"])]
    efforts: Vec<Asking>,
}

#[derive(Args)]
struct Search {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries: the first half fills the cache, the second is measured.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Folder for the segment, on the disk to be measured.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Use the first queries only.
    #[arg(long)]
    queries_max: Option<usize>,
    /// Element type of the collection.
    #[arg(long, default_value = "f32")]
    element: Element,
    /// Use the codecs of cold segments.
    #[arg(long)]
    cold: bool,
    /// Store numbers as they are: the ablation of compression.
    #[arg(long, conflicts_with = "cold")]
    without_compression: bool,
    /// Read codes on demand instead of holding them in memory.
    #[arg(long)]
    codes_on_demand: bool,
    /// Bytes of the block cache, in MiB.
    #[arg(long, default_value_t = 16)]
    cache_mib: usize,
    /// Efforts: leaves visited and exact distances, such as 32x100.
    #[arg(long, value_name = "PROBESxREFINE", value_parser = effort,
        default_values = ["16x100", "32x100", "32x200", "64x200"])]
    efforts: Vec<(usize, usize)>,
}

fn effort(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("'{text}' is no effort: give leaves and exact distances, as in 32x100");
    let (probes, refine) = text.split_once('x').ok_or_else(wrong)?;
    let number = |text: &str| text.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(wrong);
    Ok((number(probes)?, number(refine)?))
}

#[derive(Args)]
struct Codecs {
    /// Matrix files.
    #[arg(required = true, value_name = "FILE.fbin")]
    files: Vec<PathBuf>,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Codecs(arguments) => codecs(&arguments).map_err(|error| error.to_string()),
        Arguments::Search(arguments) => larger(&arguments),
        Arguments::Far(arguments) => far_away(&arguments),
        Arguments::Engine(arguments) => engine(&arguments),
        Arguments::Ablation(arguments) => parts(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("storage: {error}");
            ExitCode::FAILURE
        }
    }
}

fn codecs(arguments: &Codecs) -> Result<(), RunbookError> {
    println!(
        "| data | policy | ratio | worst block | encode MB/s | decode MB/s | row ns | chosen |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for file in &arguments.files {
        let matrix = Matrix::read(file, arguments.rows)?;
        print_table(&format!("{}, as it comes", name(file)), &matrix);
        print_table(&format!("{}, in leaf order", name(file)), &leaf_order(&matrix));
    }
    Ok(())
}

fn larger(arguments: &Search) -> Result<(), String> {
    let sentence = |error: RunbookError| error.to_string();
    let matrix = Matrix::read(&arguments.data, arguments.rows).map_err(sentence)?;
    let queries = Matrix::read(&arguments.queries, arguments.queries_max).map_err(sentence)?;
    if queries.dimension != matrix.dimension || queries.rows() < 2 {
        return Err("the queries are not of the rows' dimension, or fewer than two".to_owned());
    }
    let policy = match (arguments.without_compression, arguments.cold) {
        (true, _) => Policy::Raw,
        (false, true) => Policy::Best(Tier::Cold),
        (false, false) => Policy::Best(Tier::Hot),
    };
    let store = FileStore::create_dir(&arguments.dir, Syncing::Full).map_err(|e| e.to_string())?;
    let file = "storage-bench.seg";
    store.delete(file).map_err(|e| e.to_string())?;
    let sealed =
        seal(&matrix, arguments.element, policy, &store, file).map_err(|e| e.to_string())?;
    let truth = truth(&matrix, &queries);
    let rows = sealed.rows as f64;
    let raw = rows * (matrix.dimension * 4) as f64;
    drop(matrix);
    println!(
        "{} rows in {} leaves, {} B: vectors {:.3} of raw f32, with keys {:.3}, codes {:.1} B, ids \
         {:.1} B per row",
        sealed.rows,
        sealed.leaves,
        sealed.bytes,
        sealed.coded_bytes as f64 / raw,
        sealed.vector_bytes as f64 / raw,
        sealed.index_bytes as f64 / rows,
        sealed.id_bytes as f64 / rows
    );
    let codes = if arguments.codes_on_demand { Codes::OnDemand } else { Codes::Resident };
    let larger = Larger {
        store: &store,
        name: file,
        codes,
        cache_bytes: arguments.cache_mib << 20,
        queries: &queries,
        truth: &truth,
    };
    let (memory, table) = search(&larger, &arguments.efforts).map_err(|e| e.to_string())?;
    let total = memory.directory + memory.codes + memory.cache;
    println!(
        "memory per row: directory {:.1} B, codes {:.1} B, cache {:.1} B, together {total:.1} B",
        memory.directory, memory.codes, memory.cache
    );
    println!(
        "| probes | refine | recall@10 | p50 ms | p99 ms | reads | KiB read | rounds | hits |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for row in table {
        println!(
            "| {} | {} | {:.4} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} | {:.2} |",
            row.probes,
            row.refine,
            row.recall,
            row.p50_ms,
            row.p99_ms,
            row.reads,
            row.bytes / 1024.0,
            row.rounds,
            row.hits
        );
    }
    store.delete(file).map_err(|e| e.to_string())
}

fn far_away(arguments: &Far) -> Result<(), String> {
    let sentence = |error: RunbookError| error.to_string();
    let matrix = Matrix::read(&arguments.data, arguments.rows).map_err(sentence)?;
    let queries =
        Matrix::read(&arguments.queries, Some(arguments.queries_max)).map_err(sentence)?;
    let place = match &arguments.place {
        Some(place) => place.clone(),
        None => std::env::var("VSTREAM_TEST_S3")
            .map_err(|_| "give --place, or run beside tools/s3/with_server.py".to_owned())?,
    };
    let place = Location::parse(&place).map_err(|e| e.to_string())?;
    let (made, restored) = (arguments.dir.join("made"), arguments.dir.join("restored"));
    for folder in [&made, &restored].into_iter().filter(|folder| folder.exists()) {
        std::fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let store = FileStore::create_dir(&made, Syncing::Full).map_err(|e| e.to_string())?;
    let policy = Policy::Best(Tier::Cold);
    let file = "far.seg";
    let sealed = seal(&matrix, Element::F32, policy, &store, file).map_err(|e| e.to_string())?;
    drop(matrix);
    let (probes, refine) = arguments.effort;
    let effort = FarEffort { probes, refine, cache_bytes: arguments.cache_mib << 20 };
    let row = far(&store, file, &place, &restored, &queries, effort).map_err(|e| e.to_string())?;
    println!(
        "{} rows, {} MB: pushed in {:.2} s; first query {:.3} s after nothing was open, {} kB read; \
         then p50 {:.2} ms, p99 {:.2} ms, {:.1} reads and {:.1} kB per query; restored in {:.2} s; \
         {} of {} answers differ afterwards",
        sealed.rows,
        row.bytes / 1_000_000,
        row.push_s,
        row.first_s,
        row.first_bytes / 1000,
        row.p50_ms,
        row.p99_ms,
        row.reads,
        row.read_bytes / 1e3,
        row.restore_s,
        row.changed,
        queries.rows()
    );
    Ok(())
}

fn engine(arguments: &WholeEngine) -> Result<(), String> {
    let sentence = |error: RunbookError| error.to_string();
    let refused = |error: vstream_engine::Error| error.to_string();
    let matrix = Matrix::read(&arguments.data, arguments.rows).map_err(sentence)?;
    let queries = Matrix::read(&arguments.queries, arguments.queries_max).map_err(sentence)?;
    if queries.dimension != matrix.dimension || queries.rows() < 2 {
        return Err("the queries are not of the rows' dimension, or fewer than two".to_owned());
    }
    let settings = |memory| tiers::settings(matrix.dimension, arguments.element, memory);
    println!("| engine | rows/s | commit p99.9 ms | max ms | stalls | bytes written per byte |");
    println!("|---|---|---|---|---|---|");
    if arguments.compare {
        let mut engine = Engine::create(settings(None)).map_err(refused)?;
        let row = tiers::ingest(&mut engine, &matrix).map_err(refused)?;
        print_ingest("in memory", &row, &matrix);
    }
    let dir = arguments.dir.join("collection");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|e| e.to_string())?;
    }
    let without = arguments.without.iter().try_fold(Ablation::default(), |all, part| all.and(part));
    let without = without.map_err(refused)?;
    let code_memory = arguments.code_memory_kib.map(|kib| kib << 10);
    let ablation = Ablation { page_cache: true, ..without };
    let limited = Settings { ablation, code_memory, ..settings(Some(arguments.memory_mib << 20)) };
    let made = Engine::builder().dir(&dir).journaling(tiers::journaling());
    let mut engine = made.create(limited).map_err(refused)?;
    let mut beside = None;
    let row = if arguments.beside {
        let (row, times) = tiers::ingest_and_ask(
            &mut engine,
            &matrix,
            &queries,
            (arguments.efforts[0], arguments.rate),
        )
        .map_err(refused)?;
        beside = Some(times);
        row
    } else {
        tiers::ingest(&mut engine, &matrix).map_err(refused)?
    };
    print_ingest("with segments", &row, &matrix);
    println!("\nwhen the last row is in: {:?}", row.stats.tree);
    let truth = truth(&matrix, &queries.picked(&second_half(&queries)));
    if let Some(times) = beside {
        print_times("while rows came", &times);
        let times = tiers::ask_idle(&engine, &queries, arguments.efforts[0]).map_err(refused)?;
        print_times("after the last row, merges under way", &times);
    }
    engine.flush().map_err(refused)?;
    let copy = arguments.dir.join("copy");
    let (seconds, log) = tiers::open_copy(&dir, &copy)?;
    println!("opened as after a crash in {seconds:.2} s, of which {log} bytes of log");
    if arguments.beside {
        engine = unmerged(engine, &dir, (without, code_memory)).map_err(refused)?;
        println!("{} segments, not merged:", engine.stats().tree.segments);
        print_asked(&engine, &queries, &truth, &arguments.efforts).map_err(refused)?;
        let times = tiers::ask_idle(&engine, &queries, arguments.efforts[0]).map_err(refused)?;
        print_times("idle, not merged", &times);
    }
    settle(&mut engine, &matrix).map_err(refused)?;
    let rows = matrix.rows() as f64;
    drop(matrix);
    engine.place_codes().map_err(refused)?;
    print_asked(&engine, &queries, &truth, &arguments.efforts).map_err(refused)?;
    print_memory(&engine, rows);
    engine.close().map_err(refused)?;
    std::fs::remove_dir_all(&dir).map_err(|e| e.to_string())
}

fn settle(engine: &mut Engine, matrix: &Matrix) -> Result<(), vstream_engine::Error> {
    let settled = tiers::settle(engine)?;
    let stats = engine.stats();
    let amplification = tiers::write_amplification(&stats, matrix);
    println!(
        "settled in {:.1} s, {amplification:.2} bytes written per byte",
        settled.as_secs_f64()
    );
    println!("{:?}\n{:?}", stats.tree, stats.journal);
    Ok(())
}

fn print_memory(engine: &Engine, rows: f64) {
    let tree = engine.stats().tree;
    let per_row = |bytes: u64| bytes as f64 / rows;
    println!(
        "memory per row: directory {:.1} B, codes {:.1} B, ids {:.1} B, cache {:.1} B, not sealed \
         {:.1} B, together {:.1} B",
        per_row(tree.directory_bytes),
        per_row(tree.code_bytes),
        per_row(tree.id_bytes),
        per_row(tree.cache_bytes),
        per_row(tree.memtable_bytes),
        per_row(engine.stats().index.memory_bytes)
    );
}

fn second_half(queries: &Matrix) -> Vec<u32> {
    (queries.rows() as u32 / 2..queries.rows() as u32).collect()
}

/// The engine opened anew, without threads that merge.
fn unmerged(
    mut engine: Engine,
    dir: &Path,
    (without, code_memory): (Ablation, Option<u64>),
) -> Result<Engine, vstream_engine::Error> {
    // Unlike a close this leaves rows in the log.
    engine.detach()?;
    drop(engine);
    Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, kept| {
            settings.ablation = without;
            settings.code_memory = code_memory;
            settings.ablation.page_cache = true;
            kept.background = false;
        })
        .open()
}

fn print_asked(
    engine: &Engine,
    queries: &Matrix,
    truth: &[Vec<u64>],
    efforts: &[Asking],
) -> Result<(), vstream_engine::Error> {
    println!("| effort | recall@10 | p50 ms | p99 ms | CPU ms | reads | KiB read |");
    println!("|---|---|---|---|---|---|---|");
    for &effort in efforts {
        let row = tiers::ask(engine, queries, truth, effort)?;
        println!(
            "| {effort} | {:.4} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} |",
            row.recall,
            row.p50_ms,
            row.p99_ms,
            row.cpu_ms,
            row.reads,
            row.bytes / 1024.0
        );
    }
    Ok(())
}

fn print_times(when: &str, times: &[f64]) {
    if let Some(last) = times.last() {
        let at = |share: usize| times[times.len() * share / 100];
        let count = times.len();
        println!("{count} queries {when}: p50 {:.2} ms, p99 {:.2}, {last:.2}", at(50), at(99));
    }
}

fn parts(arguments: &Parts) -> Result<(), String> {
    let sentence = |error: RunbookError| error.to_string();
    let matrix = Matrix::read(&arguments.data, arguments.rows).map_err(sentence)?;
    let queries = Matrix::read(&arguments.queries, None).map_err(sentence)?;
    if queries.dimension != matrix.dimension || arguments.count == 0 {
        return Err("the queries are not of the rows' dimension, or none is measured".to_owned());
    }
    let ablation = ablation::AblationRun {
        matrix: &matrix,
        queries: &queries,
        element: arguments.element,
        dir: &arguments.dir,
        memory: arguments.memory_mib << 20,
        code_memory: arguments.code_memory_kib << 10,
        count: arguments.count,
        effort: arguments.effort,
        merged: arguments.merged,
    };
    println!(
        "| compression | hot-cold | threshold-stop | stream | p50 ms | p99 ms | CPU ms | reads | \
         KiB read | disk MB | recall@10 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut last = String::new();
    let with = |is_out: bool| if is_out { "without" } else { "with" };
    ablation::run(&ablation, &mut |row| {
        println!(
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {:.4} |",
            with(row.without.compression),
            with(row.without.hot_cold),
            with(row.without.threshold_stop),
            row.stream,
            row.asked.p50_ms,
            row.asked.p99_ms,
            row.asked.cpu_ms,
            row.asked.reads,
            row.asked.bytes / 1024.0,
            row.disk_bytes as f64 / 1e6,
            row.asked.recall
        );
        let (held, all) = row.code_bytes;
        last = format!("{} segments, {held} of {all} bytes of codes in memory", row.segments);
    })?;
    println!("{last}");
    Ok(())
}

fn print_ingest(name: &str, row: &tiers::IngestRow, matrix: &Matrix) {
    println!(
        "| {name} | {:.0} | {:.2} | {:.1} | {} | {:.2} |",
        row.rate,
        row.p999_ms,
        row.max_ms,
        row.stalls,
        tiers::write_amplification(&row.stats, matrix)
    );
}

fn name(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let stem = file.file_stem().unwrap_or_default();
    format!("{}/{}", folder.to_string_lossy(), stem.to_string_lossy())
}

fn print_table(data: &str, matrix: &Matrix) {
    for row in codec_table(matrix) {
        let chosen: Vec<String> = row
            .chosen
            .iter()
            .map(|(codec, share)| format!("{codec} {:.0} %", 100.0 * share))
            .collect();
        println!(
            "| {data} | {} | {:.4} | {:.4} | {:.0} | {:.0} | {:.0} | {} |",
            row.policy,
            row.ratio,
            row.worst,
            row.encode_mb,
            row.decode_mb,
            row.row_ns,
            chosen.join(", ")
        );
    }
}
