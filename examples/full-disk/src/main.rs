//! A collection on a disk that fills up: what is refused, what is kept, and how it goes on.
//!
//! `full-disk FOLDER`, FOLDER on a small file system: `run.sh` makes one.
//!
//! 1. Two files of ballast take some of the room.
//! 2. A child process writes and commits until the disk is full, and is killed by its own hand.
//! 3. With one ballast removed the collection opens with every row that was committed.
//! 4. This process writes on until the disk is full again. The commit fails; searches go on, and
//!    also find what could not be saved.
//! 5. With the other ballast removed the same commit succeeds, and nothing was lost.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use vstream_engine::{
    Durability, Effort, Element, Engine, IndexKind, Journaling, Metric, Query, Row, Scratch,
    Settings,
};

const DIMENSION: usize = 64;
const BALLAST_BYTES: usize = 1 << 20;
/// Rows of a commit.
const BATCH: u64 = 50;
/// More rows than any small disk holds.
const ROWS_MAX: u64 = 1_000_000;
const SHARDS: u64 = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["write", folder] => write_until_full_and_die(Path::new(folder)),
        [folder] => tell(Path::new(folder)),
        _ => Err("usage: full-disk FOLDER, on a small file system".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("full-disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn vector(id: u64) -> Vec<f32> {
    (0..DIMENSION as u64).map(|at| ((id * 31 + at * 7) % 1009) as f32).collect()
}

fn settings() -> Settings {
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    Settings { index: IndexKind::Flat, recall_guard: false, ..settings }
}

/// Writes batches from row `from` on until one cannot be committed; returns the rows that were
/// committed and why no more were.
fn fill(engine: &mut Engine, from: u64) -> Result<(u64, vstream_engine::Error), Box<dyn Error>> {
    let mut committed = from;
    while committed < ROWS_MAX {
        for id in committed..committed + BATCH {
            let vector = vector(id);
            let row = Row {
                id,
                version: 1,
                code: id,
                shard: (id % SHARDS) as u16,
                vector: &vector,
                fields: Default::default(),
            };
            engine.upsert(&row)?;
        }
        match engine.commit() {
            Ok(()) => committed += BATCH,
            Err(error) => return Ok((committed, error)),
        }
    }
    Err(format!("{ROWS_MAX} rows fit: give a folder on a small file system").into())
}

/// The child: says how much it committed, and dies as a killed process does.
fn write_until_full_and_die(folder: &Path) -> Result<(), Box<dyn Error>> {
    let journaling = Journaling { durability: Durability::Sync, ..Journaling::default() };
    let mut engine = Engine::builder().dir(folder).journaling(journaling).create(settings())?;
    let (committed, error) = fill(&mut engine, 0)?;
    println!("{committed}");
    std::io::stdout().flush()?;
    eprintln!("the child, after {committed} rows: {error}");
    std::process::abort();
}

/// Rows in an engine, each of them right.
fn count(engine: &Engine) -> Result<u64, Box<dyn Error>> {
    let (mut rows, mut wrong) = (0, None);
    engine.pin().for_each_row(&mut |row| {
        rows += 1;
        if row.vector != vector(row.id) {
            wrong = Some(row.id);
        }
    })?;
    match wrong {
        Some(id) => Err(format!("row {id} is not what was written").into()),
        None => Ok(rows),
    }
}

/// Errors unless a search for the vector of a row finds that row.
fn find(engine: &Engine, id: u64) -> Result<(), Box<dyn Error>> {
    let mut found = Vec::new();
    let vector = vector(id);
    let query = Query { vector: &vector, k: 1, effort: Effort::Exact, filter: None, radius: None };
    engine.reader().search(&query, &mut Scratch::new(), &mut found)?;
    match found[..] {
        [first] if first.distance == 0.0 => Ok(()),
        _ => Err(format!("row {id} is not found").into()),
    }
}

fn tell(folder: &Path) -> Result<(), Box<dyn Error>> {
    let ballast = [folder.join("ballast-1"), folder.join("ballast-2")];
    for path in &ballast {
        fs::write(path, vec![7; BALLAST_BYTES])?;
    }
    let collection = folder.join("rows");
    let child = Command::new(std::env::current_exe()?).arg("write").arg(&collection).output()?;
    eprint!("{}", String::from_utf8_lossy(&child.stderr));
    let committed: u64 = String::from_utf8(child.stdout)?.trim().parse()?;
    match Engine::open(&collection) {
        Ok(_) => println!("The collection opens on the full disk."),
        Err(error) => println!("The collection does not open on the full disk: {error}"),
    }
    fs::remove_file(&ballast[0])?;
    let mut engine = Engine::open(&collection)?;
    let rows = count(&engine)?;
    println!("With {BALLAST_BYTES} bytes free it holds {rows} rows; {committed} were committed.");
    // A commit that failed may be there whole: it was not promised, and not refused for ever.
    if rows != committed && rows != committed + BATCH {
        return Err(format!("{committed} rows were committed, {rows} are there").into());
    }
    let (committed, error) = fill(&mut engine, rows)?;
    println!("After {committed} rows: {error}");
    if !error.message().contains("No space left") && !error.message().contains("too large") {
        return Err(format!("this is no full disk: {error}").into());
    }
    find(&engine, 3)?;
    find(&engine, committed + BATCH - 1)?;
    println!("Searches find what was committed and what could not be.");
    fs::remove_file(&ballast[1])?;
    match engine.commit() {
        Ok(()) => engine.close()?,
        // A limit on the size of files does not go away with other files.
        Err(_) if std::env::var_os("VSTREAM_LIMITED_FILES").is_some() => {
            println!("The limit on files is still there: what was committed is kept.");
            drop(engine);
            let rows = count(&Engine::open(&collection)?)?;
            return if rows >= committed { Ok(()) } else { Err("rows were lost".into()) };
        }
        Err(error) => return Err(format!("space was freed and still: {error}").into()),
    }
    let rows = count(&Engine::open(&collection)?)?;
    println!("With space again the same commit succeeds: {rows} rows, none lost.");
    if rows != committed + BATCH {
        return Err(format!("{} rows were written, {rows} are there", committed + BATCH).into());
    }
    Ok(())
}
