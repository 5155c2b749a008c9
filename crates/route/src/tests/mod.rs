//! Tests of templates of every kind, on small generated data.

mod damage;
mod encoders;
mod growth;
mod refusal;
mod training;

use crate::{Curve, EncoderSpec, LiveSample, Rebalance, RetrainSettings, RouteSettings, Template};
use vstream_vector::{Metric, SplitMix};

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// `rows` vectors around `clusters` centres, seeded.
///
/// The centres come from seed 1 for every `seed`, so that two calls draw from one distribution.
fn clustered(rows: usize, dimension: usize, clusters: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix(1);
    let centres: Vec<f32> = (0..clusters * dimension).map(|_| random.normal() * 2.0).collect();
    let mut random = SplitMix(seed);
    let mut out = Vec::with_capacity(rows * dimension);
    for _ in 0..rows {
        // The product makes some clusters much larger than others.
        let pick = random.unit() * random.unit() * clusters as f32;
        let centre = &centres[pick as usize * dimension..][..dimension];
        out.extend(centre.iter().map(|x| x + random.normal()));
    }
    out
}

fn cells(cells: usize, recall_target: f32) -> EncoderSpec {
    EncoderSpec::Cells { cells, recall_target }
}

fn lsh(curve: Curve, families: usize) -> EncoderSpec {
    EncoderSpec::Lsh { curve, families, hashes: 4, width: 0.1, bits: 7 }
}

fn settings(encoder: EncoderSpec, metric: Metric, dimension: usize, shards: u16) -> RouteSettings {
    RouteSettings { encoder, dimension, metric, shards, seed: 42 }
}

/// One small template of each kind and metric.
fn templates() -> Vec<(String, Template)> {
    let dimension = 3;
    let sample = clustered(200, dimension, 5, 7);
    let mut all = Vec::new();
    for metric in METRICS {
        let encoders =
            [cells(8, 0.9), lsh(Curve::Hilbert, 2), lsh(Curve::Peano, 1), EncoderSpec::Id];
        for encoder in encoders {
            let settings = settings(encoder, metric, dimension, 4);
            let name = format!("{metric} {:?}", settings.encoder);
            let template = Template::train(&settings, &sample, 3).expect("the sample is good");
            if template.cells() > 0 {
                all.push((format!("split {name}"), split(&template, &sample)));
            }
            all.push((format!("unplaced {name}"), Template::unplaced(&settings)));
            all.push((name, template));
        }
    }
    all
}

/// The template after many rows near the first one.
fn split(template: &Template, sample: &[f32]) -> Template {
    let mut random = SplitMix(4);
    let mut vectors = sample.to_vec();
    let dimension = template.dimension();
    for _ in 0..200 {
        vectors.extend(sample[..dimension].iter().map(|x| x + 0.1 * random.normal()));
    }
    let mut places = Vec::new();
    let codes = vectors.chunks_exact(dimension).map(|vector| {
        template.place(0, vector, &mut places).expect("a good row");
        places[0].code
    });
    let codes: Vec<u64> = codes.collect();
    let loads = vec![1.0; template.cells()];
    let settings = RetrainSettings { limits: Rebalance::new(2), recall_target: 0.9, seed: 1 };
    let live = LiveSample { vectors: &vectors, codes: &codes };
    let plan = template.retrain(&live, &loads, &loads, &settings).expect("good rows");
    assert!(plan.template.cells() > template.cells(), "nothing was split");
    plan.template
}
