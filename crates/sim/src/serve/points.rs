//! The points of one connection, and what each of them must be.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::{json, Value};
use vstream_vector::SplitMix;

use super::client::{Answer, Client};
use super::{Tally, COLLECTION, DIMENSION};

/// Ids of a connection.
const IDS: u64 = 64;
/// Most points of a request.
const TOGETHER: u64 = 5;

/// What a point may be: the number in its payload, or `None` for no point.
type Allowed = Vec<Option<u64>>;

/// A connection with points of its own.
pub(super) struct Owner {
    first: u64,
    random: SplitMix,
    client: Client,
    /// Number of the newest write.
    writes: u64,
    points: BTreeMap<u64, Allowed>,
}

fn path(rest: &str) -> String {
    format!("/collections/{COLLECTION}/points{rest}")
}

fn count(count: &std::sync::atomic::AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Owner {
    pub(super) fn new(number: u64, random: SplitMix, client: Client) -> Owner {
        let points = BTreeMap::new();
        Owner { first: number * IDS, random, client, writes: 0, points }
    }

    pub(super) fn random(&mut self) -> &mut SplitMix {
        &mut self.random
    }

    /// Makes one request and compares its answer.
    pub(super) fn step(&mut self, tally: &Tally) {
        let ids: Vec<u64> = {
            let many = 1 + self.random.next() % TOGETHER;
            let mut ids: Vec<u64> =
                (0..many).map(|_| self.first + self.random.next() % IDS).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        match self.random.next() % 10 {
            0..4 => self.upsert(&ids, tally),
            4 => self.delete(&ids, tally),
            5..8 => self.read(&ids, tally),
            _ => self.search(tally),
        }
    }

    fn upsert(&mut self, ids: &[u64], tally: &Tally) {
        self.writes += 1;
        let (writes, first) = (self.writes, self.first);
        let points: Vec<Value> = ids
            .iter()
            .map(|&id| {
                let vector = self.vector();
                json!({"id": id, "vector": vector, "payload": {"n": writes, "of": first}})
            })
            .collect();
        let answer = self.client.call("PUT", &path("?wait=true"), &json!({"points": points}));
        self.note(ids, Some(writes), &answer, tally);
    }

    fn delete(&mut self, ids: &[u64], tally: &Tally) {
        let body = json!({"points": ids});
        let answer = self.client.call("POST", &path("/delete?wait=true"), &body);
        self.note(ids, None, &answer, tally);
    }

    /// Notes what points may be after a write.
    fn note(&mut self, ids: &[u64], becomes: Option<u64>, answer: &Answer, tally: &Tally) {
        match answer.status() {
            200 => count(&tally.answered),
            0 | 503 | 504 => count(&tally.broken),
            _ => wrong(tally, "a write", answer),
        }
        for &id in ids {
            let allowed = self.points.entry(id).or_insert_with(|| vec![None]);
            if answer.status() == 200 {
                allowed.clear();
            }
            if !allowed.contains(&becomes) {
                allowed.push(becomes);
            }
        }
    }

    fn read(&mut self, ids: &[u64], tally: &Tally) {
        match self.client.call("POST", &path(""), &json!({"ids": ids})) {
            Answer::Came(200, body) => {
                count(&tally.answered);
                self.compare(ids, &body, tally);
            }
            answer if matches!(answer.status(), 0 | 503 | 504) => count(&tally.broken),
            answer => wrong(tally, "a read", &answer),
        }
    }

    fn search(&mut self, tally: &Tally) {
        let of = json!({"must": [{"key": "of", "match": {"value": self.first}}]});
        let vector = self.vector();
        let body = json!({"query": vector, "limit": 10, "filter": of, "with_payload": true});
        match self.client.call("POST", &path("/query"), &body) {
            Answer::Came(200, body) => {
                count(&tally.answered);
                for point in body["result"]["points"].as_array().into_iter().flatten() {
                    let id = point["id"].as_u64().unwrap_or(u64::MAX);
                    let is = point["payload"]["n"].as_u64();
                    let allowed = self.points.get(&id);
                    if is.is_none() || !allowed.is_some_and(|allowed| allowed.contains(&is)) {
                        wrong_point(tally, id, is, allowed);
                    }
                }
            }
            answer if matches!(answer.status(), 0 | 503 | 504) => count(&tally.broken),
            answer => wrong(tally, "a search", &answer),
        }
    }

    /// Compares what was read with what must be there.
    fn compare(&mut self, ids: &[u64], body: &Value, tally: &Tally) {
        let found: BTreeMap<u64, u64> = body["result"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|point| Some((point["id"].as_u64()?, point["payload"]["n"].as_u64()?)))
            .collect();
        for &id in ids {
            let is = found.get(&id).copied();
            let allowed = self.points.entry(id).or_insert_with(|| vec![None]);
            if !allowed.contains(&is) {
                let counter = if is.is_none() { &tally.lost } else { &tally.ghosts };
                count(counter);
                eprintln!("point {id} is {is:?}, and may be {allowed:?}");
            }
        }
    }

    /// Reads all points in the end. Returns how many there are.
    pub(super) fn check(&mut self, tally: &Tally) -> u64 {
        let ids: Vec<u64> = (self.first..self.first + IDS).collect();
        match self.client.call("POST", &path(""), &json!({"ids": ids})) {
            Answer::Came(200, body) => {
                self.compare(&ids, &body, tally);
                body["result"].as_array().map_or(0, Vec::len) as u64
            }
            answer => {
                wrong(tally, "the last read", &answer);
                0
            }
        }
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| self.random.normal()).collect()
    }
}

fn wrong(tally: &Tally, what: &str, answer: &Answer) {
    if tally.wrong.fetch_add(1, Ordering::Relaxed) == 0 {
        eprintln!("{what} was answered by {answer:?}");
    }
}

fn wrong_point(tally: &Tally, id: u64, is: Option<u64>, allowed: Option<&Allowed>) {
    if tally.wrong.fetch_add(1, Ordering::Relaxed) == 0 {
        eprintln!("a search found point {id} with {is:?}; allowed: {allowed:?}");
    }
}
