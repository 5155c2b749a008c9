//! `vstream demo`: a stream of real word vectors that a person can watch and judge, and then a filter
//! at work on the same words (`words.rs`).

use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;

use vstream_settings::{read_matrix_header, Document, JobSettings};

use crate::arguments::DemoArguments;
use crate::failure::Failure;
use crate::jvm::Answer;
use crate::matrix::{Matrix, Names};
use crate::run;
use crate::text;
use crate::view::{self, Scene, View};
use crate::words::Indexed;

const JOB: &str = include_str!("demo.yaml");

/// Words that [`JOB`] loads before the stream begins.
const PRELOAD: u64 = 30_000;

/// Lines are as far apart as this where there is no live view.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Neighbours shown below the live picture.
const FOOTER_WORDS: usize = 4;

/// Rows at the front of the query file that the data set fills with frequent words.
const FAMILIAR_QUERIES: u64 = 64;

/// Queries shown with their neighbours at the end.
const SHOWN_QUERIES: usize = 8;

/// Runs the demonstration and shows what it found.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    check_data(arguments)?;
    let words = Words::read(&arguments.data)?;
    if !arguments.only_filters {
        stream(arguments, &words)?;
    }
    let matrix = |name: &str| Matrix::open(&arguments.data.join(name));
    let rows = PRELOAD + arguments.rows;
    let indexed = Indexed::new(&mut matrix("base.fbin")?, &words.base, rows)?;
    text::print(&indexed.report(&mut matrix("query.fbin")?, &words.base)?)
}

/// Runs the job, and shows how it went and what it answered.
fn stream(arguments: &DemoArguments, words: &Words) -> Result<(), Failure> {
    let job = job(arguments)?;
    let title = format!(
        "VStream demo: {} word vectors (GloVe, 100 dimensions) through Flink at parallelism {}",
        text::count(PRELOAD + arguments.rows),
        job.parallelism
    );
    let page = run::page(&arguments.web, &job)?;
    let view = View::start(Scene::of(&job, title), LINE_INTERVAL, false).with_page(page);
    let mut samples = Vec::new();
    let result = run::drive(&job, None, view, None, &mut |view, answer| {
        let neighbours = words.neighbours(&answer);
        let nearest = neighbours[..neighbours.len().min(FOOTER_WORDS)].join("  ");
        view.set_footer(format!("{}: {nearest}", words.queries.of(answer.query_id)));
        samples.push(answer);
    })?;
    let report = view::report(&result, job.parallelism);
    text::print(&format!("\nThe whole stream\n{report}\n{}\n", answers(&samples, words)))
}

fn check_data(arguments: &DemoArguments) -> Result<(), Failure> {
    let base = arguments.data.join("base.fbin");
    let header = read_matrix_header(&base).map_err(|sentence| {
        Failure::settings(format!(
            "There are no word vectors: {sentence} Run `make data`, or name their folder with \
             --data."
        ))
    })?;
    let most = header.rows.saturating_sub(PRELOAD);
    if arguments.rows == 0 || arguments.rows > most {
        return Err(Failure::settings(format!(
            "--rows {} is out of range: of {} words {} are loaded first. Give a number from 1 to \
             {most}.",
            arguments.rows,
            text::count(header.rows),
            text::count(PRELOAD)
        )));
    }
    Ok(())
}

fn job(arguments: &DemoArguments) -> Result<JobSettings, Failure> {
    let mut document = Document::from_yaml(JOB)?;
    let file = |name: &str| {
        serde_json::to_string(&arguments.data.join(name)).map_err(|_| {
            Failure::settings("The path of --data is not UTF-8. Move the data elsewhere.")
        })
    };
    // One record in five is a query and one a delete.
    let records = (arguments.rows * 5).div_ceil(3);
    document.set(&format!("vectors.path={}", file("base.fbin")?))?;
    document.set(&format!("queries.path={}", file("query.fbin")?))?;
    document.set(&format!("vectors.limit={records}"))?;
    document.set(&format!("workload.rate={}", arguments.rate))?;
    document.set(&format!("parallelism={}", arguments.parallelism))?;
    let job = JobSettings::from_document(&document)?;
    job.validate()?;
    Ok(job)
}

/// Names of the rows of the base and of the queries.
struct Words {
    base: Names,
    queries: Names,
}

impl Words {
    fn read(data: &Path) -> Result<Words, Failure> {
        Ok(Words {
            base: Names::read(&data.join("base.words.txt"))?,
            queries: Names::read(&data.join("query.words.txt"))?,
        })
    }

    /// Words and distances of an answer, nearest first.
    fn neighbours(&self, answer: &Answer) -> Vec<String> {
        let rows = answer.ids.iter().zip(&answer.distances);
        rows.map(|(&id, distance)| format!("{} {distance:.2}", self.base.of(id))).collect()
    }
}

/// Some queries as words with the words that the stream found near them; empty without samples.
fn answers(samples: &[Answer], words: &Words) -> String {
    let shown = choose(samples, &words.queries);
    if shown.is_empty() {
        return String::new();
    }
    let width = view::width();
    let mut text =
        "What the stream answered to words that were held out: the ten nearest live words\n\n"
            .to_owned();
    for answer in shown {
        let label = words.queries.of(answer.query_id);
        text.push_str(&paragraph(&label, &words.neighbours(answer), width));
    }
    text
}

/// The last answer to each query: familiar words first, without numbers and short words, and of
/// those the less frequent, which mean more than `that` and `here`.
fn choose<'a>(samples: &'a [Answer], queries: &Names) -> Vec<&'a Answer> {
    let mut last: Vec<&Answer> = Vec::new();
    for answer in samples.iter().rev() {
        if !last.iter().any(|kept| kept.query_id == answer.query_id) {
            last.push(answer);
        }
    }
    let is_dull = |answer: &&Answer| {
        let word = queries.of(answer.query_id);
        word.len() < 4 || !word.chars().all(char::is_alphabetic)
    };
    let is_strange = |answer: &Answer| answer.query_id >= FAMILIAR_QUERIES;
    last.sort_by_key(|answer| (is_dull(answer), is_strange(answer), Reverse(answer.query_id)));
    last.truncate(SHOWN_QUERIES);
    last
}

/// A label and its items, wrapped at `width` under the first item.
fn paragraph(label: &str, items: &[String], width: usize) -> String {
    const INDENT: usize = 16;
    let mut text = format!("  {label:<13} ");
    let mut column = text.chars().count();
    for (at, item) in items.iter().enumerate() {
        let length = item.chars().count();
        if column + length > width && column > INDENT {
            text = format!("{}\n{}", text.trim_end(), " ".repeat(INDENT));
            column = INDENT;
        }
        let gap = if at + 1 < items.len() { "   " } else { "" };
        text.push_str(item);
        text.push_str(gap);
        column += length + gap.len();
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::WebArguments;

    #[test]
    fn neighbours_are_wrapped_under_the_first() {
        let items = ["canada 0.21", "quebec 0.25", "toronto 0.30"].map(str::to_owned);
        assert_eq!(
            paragraph("canadian", &items, 44),
            "  canadian      canada 0.21   quebec 0.25\n                toronto 0.30\n"
        );
    }

    #[test]
    fn the_built_in_job_is_valid() {
        let arguments = DemoArguments {
            rows: 10,
            parallelism: 3,
            rate: 7,
            data: "somewhere \"else\"".into(),
            only_filters: false,
            web: WebArguments { web: None },
        };
        let error = job(&arguments).expect_err("no data there").to_string();
        assert!(error.contains("base.fbin does not exist"), "{error}");
        assert_eq!(error.lines().count(), 2, "only the two files are wrong: {error}");
    }

    #[test]
    fn the_last_answer_to_each_word_is_shown_and_words_before_noise() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("words");
        std::fs::write(&path, ",\nbank\nof\nriver\n").expect("writes");
        let names = Names::read(&path).expect("reads");
        let answer = |query_id, id| Answer { query_id, ids: vec![id], distances: vec![0.0] };
        let samples = [answer(0, 1), answer(1, 2), answer(3, 3), answer(1, 4), answer(2, 5)];
        let shown: Vec<_> =
            choose(&samples, &names).iter().map(|a| (a.query_id, a.ids[0])).collect();
        assert_eq!(shown, [(3, 3), (1, 4), (2, 5), (0, 1)]);
    }
}
