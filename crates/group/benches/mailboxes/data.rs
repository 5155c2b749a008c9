//! Vectors of mailboxes, also for the bench that writes them into a collection with an index.

use vstream_vector::SplitMix;

pub const DIMENSION: usize = 384;
const TOPICS: usize = 200;
const TOPICS_OF_GROUP: usize = 8;
/// Rows between two commits.
pub const COMMIT: usize = 1000;

/// Vectors with the spectrum of text embeddings: 200 topics, eight of them in each group.
pub struct Data {
    topics: Vec<Vec<f32>>,
    spread: Vec<f32>,
    pub random: SplitMix,
    /// Normal numbers, drawn once: a vector takes a stretch of them at a random place.
    normals: Vec<f32>,
}

impl Data {
    pub fn new() -> Data {
        let mut random = SplitMix(1);
        let normals: Vec<f32> = (0..1 << 22).map(|_| random.normal()).collect();
        let spread = (0..DIMENSION).map(|at| (8.0 / (at + 8) as f32).sqrt()).collect();
        let topic = |random: &mut SplitMix| (0..DIMENSION).map(|_| random.normal()).collect();
        let topics = (0..TOPICS).map(|_| topic(&mut random)).collect();
        Data { topics, spread, random, normals }
    }

    pub fn vector(&mut self, group: usize) -> Vec<f32> {
        let topic = group * 31 + self.random.below(TOPICS_OF_GROUP);
        let topic = &self.topics[topic % TOPICS];
        let from = self.random.below(self.normals.len() - DIMENSION);
        let noise = &self.normals[from..from + DIMENSION];
        let sign = if self.random.below(2) == 0 { 1.0 } else { -1.0 };
        let numbers = topic.iter().zip(noise).zip(&self.spread);
        numbers.map(|((topic, noise), spread)| spread * (topic + sign * noise)).collect()
    }
}

/// Group and id of each row, in random order.
pub fn shuffled(groups: &[usize], random: &mut SplitMix) -> Vec<(u32, u32)> {
    let numbered = groups.iter().enumerate();
    let mut order: Vec<(u32, u32)> = numbered
        .flat_map(|(group, &size)| (0..size as u32).map(move |id| (group as u32, id)))
        .collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}
