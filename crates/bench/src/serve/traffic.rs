//! Rows and queries that go to a server, and how long their answers take.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vstream_vector::{Metric, SplitMix};

use super::client::{request, Client};
use super::server::Server;
use super::transport::Transport;
use super::{path, BATCH, CONNECTIONS, K};
use crate::runbook::{Matrix, RunbookError};
use crate::storage::truth;
use crate::times::Percentiles;

/// Writes all rows; rows per second from request to durable answer, two requests at a time.
///
/// * `own`: settings of the collection that are ours, such as `{"memory": 1000000}`.
pub(super) fn fill<T: Transport>(
    server: &Server,
    base: &Matrix,
    metric: Metric,
    own: &serde_json::Value,
) -> Result<f64, RunbookError> {
    let distance = match metric {
        Metric::Cosine => "Cosine",
        Metric::L2 => "Euclid",
        Metric::InnerProduct => "Dot",
    };
    let vectors = serde_json::json!({"size": base.dimension, "distance": distance});
    let create = serde_json::json!({"vectors": vectors, "vstream": own}).to_string();
    Client::connect(server.address)?.call(&request("PUT", &path(""), &create))?;
    let firsts: Vec<usize> = (0..base.rows()).step_by(BATCH).collect();
    // Made before the clock starts: it is the server that is measured.
    let mut spent = Duration::ZERO;
    for some in firsts.chunks(40) {
        let requests: Vec<T::Points> = some
            .iter()
            .map(|&first| T::points(base, first..(first + BATCH).min(base.rows()), first))
            .collect();
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let send = || -> Result<(), RunbookError> {
                let mut connection = T::connect(server.address)?;
                while let Some(one) = requests.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    T::write(&mut connection, one)?;
                }
                Ok(())
            };
            let threads = [scope.spawn(send), scope.spawn(send)];
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        spent += begun.elapsed();
    }
    Ok(base.rows() as f64 / spent.as_secs_f64())
}

/// Queries per second of connections that ask as fast as they are answered.
pub(super) fn closed<T: Transport>(
    server: &Server,
    questions: &[T::Question],
    time: Duration,
) -> Result<f64, RunbookError> {
    let (asked, begun) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let ask = || -> Result<(), RunbookError> {
            let mut connection = T::connect(server.address)?;
            while begun.elapsed() < time {
                let at = asked.fetch_add(1, Ordering::Relaxed) as usize;
                T::ask(&mut connection, &questions[at % questions.len()])?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(asked.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

/// Times of queries that come at a rate, from when each was due.
pub(super) fn open<T: Transport>(
    server: &Server,
    questions: &[T::Question],
    rate: f64,
    time: Duration,
    connections: usize,
) -> Result<Percentiles, RunbookError> {
    let (next, begun) = (AtomicU64::new(0), Instant::now());
    let mut times = std::thread::scope(|scope| {
        let ask = || -> Result<Vec<u64>, RunbookError> {
            let (mut connection, mut times) = (T::connect(server.address)?, Vec::new());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let due = Duration::from_secs_f64(at as f64 / rate);
                if due > time {
                    return Ok(times);
                }
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    std::thread::sleep(early);
                }
                T::ask(&mut connection, &questions[at as usize % questions.len()])?;
                times.push((begun.elapsed() - due).as_nanos() as u64);
            }
        };
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(ask)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().expect("no panic")?);
        }
        Ok::<_, RunbookError>(all)
    })?;
    Ok(Percentiles::of(&mut times))
}

/// Times of 100 queries per second while rows arrive: under new ids, in requests of a tenth of a second.
pub(super) fn streaming<T: Transport>(
    server: &Server,
    base: &Matrix,
    questions: &[T::Question],
    rate: u64,
    time: Duration,
) -> Result<(u64, f64, Percentiles), RunbookError> {
    let per_request = (rate / 10).max(1) as usize;
    let mut random = SplitMix(rate);
    let first = base.rows() * 2 + rate as usize * 1_000_000;
    let requests: Vec<T::Points> = (0..time.as_millis() as usize / 100)
        .map(|at| {
            let rows = (0..per_request).map(|_| (random.next() % base.rows() as u64) as usize);
            T::points(base, rows.collect::<Vec<_>>().into_iter(), first + at * per_request)
        })
        .collect();
    let (is_over, written, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let times = std::thread::scope(|scope| {
        let write = scope.spawn(|| -> Result<(), RunbookError> {
            let mut connection = T::connect(server.address)?;
            for (at, one) in requests.iter().enumerate() {
                let due = Duration::from_millis(100 * at as u64);
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    std::thread::sleep(early);
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                T::write(&mut connection, one)?;
                written.fetch_add(per_request as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        let times = open::<T>(server, questions, 100.0, time, 1);
        is_over.store(true, Ordering::Relaxed);
        write.join().expect("no panic").and(times)
    })?;
    let came = written.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    Ok((rate, came, times))
}

/// Recall@10 of answers over a connection.
pub(super) fn recall<T: Transport>(
    server: &Server,
    base: &Matrix,
    queries: &Matrix,
    questions: &[T::Question],
) -> Result<f64, RunbookError> {
    let truth = truth(base, queries);
    let mut connection = T::connect(server.address)?;
    let mut found = 0;
    for (question, truth) in questions.iter().zip(&truth) {
        let ids = T::found(&mut connection, question)?;
        found += ids.iter().filter(|id| truth[..K].contains(id)).count();
    }
    Ok(found as f64 / (questions.len() * K) as f64)
}
