//! Partitions of a job, as far as a reader sees them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// Id, version, vector and payload.
pub(crate) type PartitionRow = (u64, u64, Vec<f32>, Option<Vec<u8>>);

/// Rows of a partition, and what it says of itself.
#[derive(Clone, Default)]
pub(crate) struct Partition {
    pub(crate) rows: Vec<PartitionRow>,
    pub(crate) run: i64,
    pub(crate) position: i64,
    pub(crate) watermark: i64,
    pub(crate) offsets: Vec<i64>,
    pub(crate) key: String,
    /// Status and sentence instead of an answer.
    pub(crate) without: Option<(u8, String)>,
    /// No payload fits into the answer.
    pub(crate) leaves_out: bool,
    /// Changes the bytes of every reply.
    pub(crate) damage: Option<fn(usize, &mut Vec<u8>)>,
    pub(crate) asked: usize,
    pub(crate) connections: usize,
}

pub(crate) type Shared = Arc<Mutex<Partition>>;

/// A partition that answers; it goes on until the test ends.
pub(crate) fn serve(partition: Partition) -> (Shared, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = Arc::new(Mutex::new(partition));
    let serving = shared.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serving = serving.clone();
            thread::spawn(move || talk(stream, &serving));
        }
    });
    (shared, port)
}

/// Talks to one reader until one of the two has enough.
fn talk(mut stream: TcpStream, partition: &Shared) -> Option<()> {
    assert_eq!(take(&mut stream, 8)?, b"VSREAD01");
    let length = u16::from_be_bytes(take(&mut stream, 2)?.try_into().unwrap());
    let key = take(&mut stream, usize::from(length))?;
    let is_known = key == partition.lock().unwrap().key.as_bytes();
    stream.write_all(&[u8::from(is_known)]).ok()?;
    if !is_known {
        return None;
    }
    partition.lock().unwrap().connections += 1;
    loop {
        let length = i32::from_be_bytes(take(&mut stream, 4)?.try_into().unwrap());
        let question = take(&mut stream, length as usize)?;
        let mut partition = partition.lock().unwrap();
        partition.asked += 1;
        let mut reply = partition.reply(&question);
        if let Some(damage) = partition.damage {
            damage(partition.asked, &mut reply);
        }
        stream.write_all(&(reply.len() as i32).to_be_bytes()).ok()?;
        stream.write_all(&reply).ok()?;
    }
}

fn take(stream: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

impl Partition {
    fn reply(&self, question: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (status, message) = self.without.clone().unwrap_or_default();
        out.push(status);
        out.extend_from_slice(&(message.len() as u16).to_be_bytes());
        out.extend_from_slice(message.as_bytes());
        out.extend_from_slice(&self.run.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
        let found = if status == 0 { self.nearest(question) } else { Vec::new() };
        // Nothing is said of the fields of no rows.
        let carries = !found.is_empty() && found.iter().any(|(_, row)| row.3.is_some());
        let count = found.len() as u32 | if carries { 1 << 31 } else { 0 };
        out.extend_from_slice(&count.to_be_bytes());
        for (distance, (id, version, ..)) in &found {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&version.to_be_bytes());
            out.extend_from_slice(&distance.to_be_bytes());
        }
        for (_, row) in found.iter().filter(|_| carries) {
            match &row.3 {
                _ if self.leaves_out => out.push(32),
                None => out.push(0),
                Some(payload) => {
                    out.push(4);
                    out.extend_from_slice(&(payload.len() as i32).to_be_bytes());
                    out.extend_from_slice(payload);
                }
            }
        }
        out.extend_from_slice(&self.watermark.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as i32).to_be_bytes());
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        out.push(0);
        out
    }

    fn nearest(&self, question: &[u8]) -> Vec<(f32, &PartitionRow)> {
        // Wait, watermark, offsets (none here), k, effort, elements.
        let number = |at: usize| i32::from_be_bytes(question[at..at + 4].try_into().unwrap());
        assert_eq!(number(12), 0, "the test asks for no offsets");
        let (k, elements) = (number(16) as usize, number(24) as usize);
        let vector: Vec<f32> =
            (0..elements).map(|i| f32::from_bits(number(28 + 4 * i) as u32)).collect();
        let mut found: Vec<_> = self.rows.iter().map(|row| (l2(&vector, &row.2), row)).collect();
        found.sort_by(|left, right| left.0.total_cmp(&right.0));
        found.truncate(k);
        found
    }
}

pub(crate) fn l2(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| (left - right) * (left - right)).sum()
}

/// Writes what a job publishes.
pub(crate) fn publish(checkpoints: &Path, ports: &[u16], collection: &str, templates: &[u8]) {
    let folder = checkpoints.join("vstream-reads");
    fs::create_dir_all(&folder).unwrap();
    let mut out = 17i64.to_be_bytes().to_vec();
    out.extend_from_slice(&(collection.len() as i32).to_be_bytes());
    out.extend_from_slice(collection.as_bytes());
    out.extend_from_slice(&(ports.len() as u16).to_be_bytes());
    for port in ports {
        out.extend_from_slice(&9u16.to_be_bytes());
        out.extend_from_slice(b"127.0.0.1");
        out.extend_from_slice(&port.to_be_bytes());
    }
    fs::write(folder.join("PARTITIONS"), published(&out)).unwrap();
    fs::write(folder.join("TEMPLATES"), published(templates)).unwrap();
}

/// Templates of a run, all of the epoch 0 or with bytes of a template.
pub(crate) fn templates(run: i64, epoch: i64, older: &[u8], newer: &[u8]) -> Vec<u8> {
    let mut out = run.to_be_bytes().to_vec();
    out.extend_from_slice(&epoch.to_be_bytes());
    out.push(u8::from(!older.is_empty()));
    for one in [older, newer] {
        out.extend_from_slice(&(one.len() as i32).to_be_bytes());
        out.extend_from_slice(one);
    }
    out
}

pub(crate) fn published(content: &[u8]) -> Vec<u8> {
    let mut out = b"VSPUBLIC".to_vec();
    out.extend_from_slice(&(content.len() as i32).to_be_bytes());
    out.extend_from_slice(content);
    let sum = i64::from(crc32c::crc32c(&out));
    out.extend_from_slice(&sum.to_be_bytes());
    out
}
