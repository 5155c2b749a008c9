//! Every call refuses bad input with a sentence and changes nothing.

use super::{cells, clustered, lsh, settings, templates, METRICS};
use crate::{Curve, EncoderSpec, Placement, RouteErrorKind, RouteSettings, Template};
use vstream_vector::Metric;

fn train_error(settings: &RouteSettings, sample: &[f32]) -> String {
    let error = Template::train(settings, sample, 1).expect_err("training must be refused");
    assert_eq!(error.kind(), RouteErrorKind::Invalid);
    error.to_string()
}

#[test]
fn bad_vectors_are_refused_by_every_template_and_change_nothing() {
    let placed = [Placement { code: 9, shard: 1 }];
    for (name, template) in templates() {
        let metric = name.contains("cosine");
        let bad: [(&[f32], &str); 6] = [
            (&[1.0, 2.0], "2 dimensions"),
            (&[1.0, 2.0, 3.0, 4.0], "4 dimensions"),
            (&[], "0 dimensions"),
            (&[1.0, f32::NAN, 0.0], "NaN"),
            (&[1.0, 2.0, f32::NEG_INFINITY], "inf"),
            (&[0.0, -0.0, 0.0], "all zeros"),
        ];
        for (vector, word) in bad {
            let (mut places, mut partitions) = (placed.to_vec(), vec![77]);
            let errors = [
                template.place(1, vector, &mut places),
                template.fan_out(vector, 2, &mut partitions),
            ];
            if word == "all zeros" && !metric {
                assert!(errors.iter().all(Result::is_ok), "{name}: zeros have a place");
                continue;
            }
            for error in errors {
                let error = error.expect_err(&name);
                assert_eq!(error.kind(), RouteErrorKind::Invalid);
                assert!(error.message().contains(word), "{name}: {error}");
            }
            assert_eq!(places, placed, "{name}");
            assert_eq!(partitions, [77], "{name}");
        }
    }
}

#[test]
fn a_parallelism_that_cannot_be_is_refused() {
    for (name, template) in templates() {
        for parallelism in [0, 5, u32::MAX] {
            let mut partitions = vec![77];
            let error =
                template.fan_out(&[1.0, 2.0, 3.0], parallelism, &mut partitions).expect_err(&name);
            assert!(error.message().contains("between 1 and"), "{error}");
            assert_eq!(partitions, [77]);
        }
    }
}

#[test]
fn settings_that_cannot_be_are_refused_with_the_range_that_can() {
    let good = settings(cells(8, 0.9), Metric::L2, 3, 4);
    let spoilt = |spoil: &dyn Fn(&mut RouteSettings)| {
        let mut settings = good.clone();
        spoil(&mut settings);
        settings
    };
    let lsh = |families, hashes, width, bits| EncoderSpec::Lsh {
        curve: Curve::Sierpinski,
        families,
        hashes,
        width,
        bits,
    };
    let bad: [(&str, RouteSettings); 17] = [
        ("dimension is 0", spoilt(&|s| s.dimension = 0)),
        ("dimension is 4097", spoilt(&|s| s.dimension = 4097)),
        ("shards is 0", spoilt(&|s| s.shards = 0)),
        ("shards is 4097", spoilt(&|s| s.shards = 4097)),
        ("cells is 0", spoilt(&|s| s.encoder = cells(0, 0.9))),
        ("cells is 4097", spoilt(&|s| s.encoder = cells(4097, 0.9))),
        ("target is 0", spoilt(&|s| s.encoder = cells(8, 0.0))),
        ("target is 1.5", spoilt(&|s| s.encoder = cells(8, 1.5))),
        ("target is NaN", spoilt(&|s| s.encoder = cells(8, f32::NAN))),
        ("families is 0", spoilt(&|s| s.encoder = lsh(0, 4, 1.0, 7))),
        ("families is 65", spoilt(&|s| s.encoder = lsh(65, 4, 1.0, 7))),
        ("hashes is 0", spoilt(&|s| s.encoder = lsh(1, 0, 1.0, 7))),
        ("hashes is 59", spoilt(&|s| s.encoder = lsh(1, 59, 1.0, 7))),
        ("bucket is 0", spoilt(&|s| s.encoder = lsh(1, 4, 0.0, 7))),
        ("bucket is inf", spoilt(&|s| s.encoder = lsh(1, 4, f32::INFINITY, 7))),
        ("bits of a hash is 0", spoilt(&|s| s.encoder = lsh(1, 4, 1.0, 0))),
        ("20 hashes does not fit", spoilt(&|s| s.encoder = lsh(8, 20, 1.0, 7))),
    ];
    let sample = clustered(200, 3, 5, 7);
    for (word, settings) in bad {
        let error = settings.validate().expect_err(word);
        assert!(error.message().contains(word), "{error}");
        assert_eq!(train_error(&settings, &sample), error.message());
        // The template before training accepts any settings and must not panic.
        let unplaced = Template::unplaced(&settings);
        assert!((1..=4096).contains(&unplaced.shards()));
    }
    assert!(good.validate().is_ok());
}

#[test]
fn a_sample_too_small_is_refused_with_both_remedies() {
    for metric in METRICS {
        let error = train_error(&settings(cells(8, 0.9), metric, 3, 4), &clustered(63, 3, 5, 7));
        assert!(error.contains("63 rows") && error.contains("at least 64"), "{error}");
        assert!(error.contains("training-sample") && error.contains("7 or less"), "{error}");
        let error = train_error(&settings(cells(1, 0.9), metric, 3, 4), &[]);
        assert!(error.contains("0 rows"), "{error}");
        let encoder = lsh(Curve::Gray, 1);
        let error = train_error(&settings(encoder, metric, 3, 4), &clustered(3, 3, 5, 7));
        assert!(error.contains("3 rows"), "{error}");
    }
}

#[test]
fn a_sample_with_a_bad_row_is_refused_with_its_number() {
    let settings = settings(cells(8, 0.9), Metric::Cosine, 3, 4);
    let sample = clustered(100, 3, 5, 7);
    let mut bad = sample.clone();
    bad[30 * 3 + 1] = f32::NAN;
    assert!(train_error(&settings, &bad).contains("Row 30 "));
    let mut bad = sample.clone();
    bad[99 * 3..].fill(0.0);
    assert!(train_error(&settings, &bad).contains("Row 99 "));
    assert!(train_error(&settings, &sample[..299]).contains("whole rows"));
    let error = Template::train(&settings, &sample, 0).expect_err("epoch 0 is taken");
    assert!(error.message().contains("Epoch 0"));
}

#[test]
fn buckets_too_wide_to_tell_rows_apart_are_refused_with_a_width_that_works() {
    let wide =
        |width| EncoderSpec::Lsh { curve: Curve::Hilbert, families: 2, hashes: 4, width, bits: 7 };
    let sample = clustered(500, 3, 5, 7);
    let error = train_error(&settings(wide(100.0), Metric::Cosine, 3, 4), &sample);
    assert!(error.contains("too wide"), "{error}");
    let advice = error.rsplit("width to ").next().and_then(|s| s.split(' ').next());
    let advice: f32 = advice.and_then(|s| s.parse().ok()).expect("the sentence names a width");
    let settings = settings(wide(advice), Metric::Cosine, 3, 4);
    assert!(Template::train(&settings, &sample, 1).is_ok());
}
