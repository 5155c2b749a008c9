//! Templates: read, then asked.

use vstream_route::{Curve, EncoderSpec, RouteSettings, Template};
use vstream_vector::{Metric, SplitMix};

pub(crate) fn read_and_place(bytes: &[u8]) {
    let Ok(template) = Template::from_bytes(bytes) else { return };
    let vector: Vec<f32> = (0..template.dimension()).map(|at| at as f32 - 2.0).collect();
    // An error is as good as a place: nobody vouches for the bytes.
    let _ = template.place(7, &vector, &mut Vec::new());
    let _ = template.shard_of(u64::MAX);
    let _ = template.to_bytes();
}

/// The last four bytes are a checksum of the others.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if let Some(body) = bytes.len().checked_sub(4) {
        let sum = crc32c::crc32c(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
    }
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut random = SplitMix(9);
    let sample: Vec<f32> = (0..200 * 4).map(|_| random.normal()).collect();
    let lsh = |curve| EncoderSpec::Lsh { curve, families: 2, hashes: 4, width: 0.1, bits: 7 };
    let encoders = [
        EncoderSpec::Cells { cells: 8, recall_target: 0.9 },
        EncoderSpec::Id,
        lsh(Curve::Hilbert),
        lsh(Curve::ZOrder),
    ];
    let mut corpus = Vec::new();
    for encoder in encoders {
        for metric in [Metric::L2, Metric::InnerProduct] {
            let settings = RouteSettings {
                encoder: encoder.clone(),
                dimension: 4,
                metric,
                shards: 5,
                seed: 1,
            };
            corpus.push(Template::unplaced(&settings).to_bytes());
            corpus.push(Template::train(&settings, &sample, 1).expect("trained").to_bytes());
        }
    }
    corpus
}
