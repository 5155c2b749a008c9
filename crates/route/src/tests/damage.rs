//! Serialised templates: a template is read back as it was written, and damaged bytes are refused.

use super::templates;
use crate::template::Encoder;
use crate::{Rebalance, RouteErrorKind, Template};
use proptest::prelude::*;

/// Replaces the checksum by the right one, as a careless or hostile writer could.
fn reseal(bytes: &mut [u8]) {
    let body = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..body]).to_le_bytes();
    bytes[body..].copy_from_slice(&checksum);
}

#[test]
fn what_was_written_is_read_back() {
    for (name, template) in templates() {
        let bytes = template.to_bytes();
        let read = Template::from_bytes(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read, template, "{name}");
        assert_eq!(read.to_bytes(), bytes, "{name}");
    }
}

#[test]
fn a_change_of_any_byte_is_an_error() {
    for (name, template) in templates() {
        let mut bytes = template.to_bytes();
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                bytes[at] ^= change;
                let error = Template::from_bytes(&bytes).expect_err(&name);
                assert_eq!(error.kind(), RouteErrorKind::Corrupt, "{name}, byte {at}");
                bytes[at] ^= change;
            }
        }
    }
}

#[test]
fn bytes_missing_or_added_at_either_end_are_an_error() {
    for (name, template) in templates() {
        let mut bytes = template.to_bytes();
        for length in 0..bytes.len() {
            assert!(Template::from_bytes(&bytes[..length]).is_err(), "{name}, {length} bytes");
        }
        assert!(Template::from_bytes(&bytes[1..]).is_err());
        bytes.push(0);
        assert!(Template::from_bytes(&bytes).is_err());
        // A longer body under a right checksum is still too long.
        bytes.extend([0; 4]);
        reseal(&mut bytes);
        assert!(Template::from_bytes(&bytes).is_err());
    }
}

/// A checksum protects against accidents. Here the writer computes it over damaged bytes.
#[test]
fn a_change_under_a_right_checksum_never_makes_a_template_that_panics() {
    for (name, template) in templates() {
        let good = template.to_bytes();
        for at in 0..good.len() - 4 {
            for change in [0x01, 0x10, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= change;
                reseal(&mut bytes);
                let Ok(template) = Template::from_bytes(&bytes) else { continue };
                let vector = vec![0.5; template.dimension().min(8)];
                let (mut places, mut partitions) = (Vec::new(), Vec::new());
                // A changed dimension makes the vector wrong, which is an error, not a panic.
                if template.place(1, &vector, &mut places).is_err() {
                    continue;
                }
                assert!(!places.is_empty(), "{name}, byte {at}");
                for parallelism in 1..=u32::from(template.shards()) {
                    template.fan_out(&vector, parallelism, &mut partitions).expect("good query");
                    assert!(!partitions.is_empty(), "{name}, byte {at}");
                    assert!(partitions.iter().all(|&p| p < parallelism), "{name}, byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_newer_version_is_called_by_its_name() {
    let (_, template) = templates().remove(0);
    let mut bytes = template.to_bytes();
    bytes[8] = 4;
    reseal(&mut bytes);
    let error = Template::from_bytes(&bytes).expect_err("version 4 is unknown");
    assert_eq!(error.kind(), RouteErrorKind::Unsupported);
    assert!(error.message().contains("version 4"), "{error}");
}

/// Version 1 does not store the neighbour counts. Such a template routes as before, but its ranges
/// cannot change. Version 2 does not store where cells begin.
#[test]
fn templates_of_older_versions_are_read() {
    for (name, template) in templates().into_iter().filter(|(name, _)| !name.contains("split")) {
        for version in [1, 2] {
            let old = of_version(version, &template);
            let read = Template::from_bytes(&old).unwrap_or_else(|e| panic!("{name}: {e}"));
            let vector = [0.5, -1.0, 2.0];
            let (mut places, mut expected) = (Vec::new(), Vec::new());
            read.place(9, &vector, &mut places).expect("a good vector");
            template.place(9, &vector, &mut expected).expect("a good vector");
            assert_eq!(places, expected, "{name}");
            let (mut visits, mut expected) = (Vec::new(), Vec::new());
            read.fan_out(&vector, 3, &mut visits).expect("a good query");
            template.fan_out(&vector, 3, &mut expected).expect("a good query");
            assert_eq!(visits, expected, "{name}");
            let loads = vec![1.0; template.cells()];
            let plan = read.rebalance(&loads, &loads, &Rebalance::new(2));
            assert_eq!(plan.is_ok(), version > 1 && template.cells() > 0, "{name}");
            assert!(version == 1 || read == template, "{name}");
        }
    }
}

/// The bytes that an older version wrote for a template without splits.
fn of_version(version: u8, template: &Template) -> Vec<u8> {
    let mut old = template.to_bytes();
    if let Encoder::Cells(cells) = &template.inner.encoder {
        let dimension = template.inner.space.form_dimension();
        let header = 32 + 4 + 10 * template.inner.ranges.len();
        let starts = header + 4 + 4 + 4 * cells.len() * dimension;
        old.drain(starts..starts + 4 + 8 * cells.len());
        let counts = cells.neighbor_counts.by_cell.iter().map(|counts| 2 + 4 * counts.len());
        if version == 1 {
            old.truncate(old.len() - 4 - counts.sum::<usize>());
            old.extend([0; 4]);
        }
    }
    old[8] = version;
    reseal(&mut old);
    old
}

/// The decoder does not allocate memory for more items than the bytes can hold.
#[test]
fn a_huge_count_under_a_right_checksum_is_an_error() {
    for (name, template) in templates() {
        let good = template.to_bytes();
        for at in 0..good.len().saturating_sub(8) {
            let mut bytes = good.clone();
            bytes[at..at + 4].fill(0xff);
            reseal(&mut bytes);
            // Any result is fine, except a panic or the end of the process.
            if let Ok(template) = Template::from_bytes(&bytes) {
                assert!(template.to_bytes().len() <= bytes.len(), "{name}, byte {at}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Template::from_bytes(&bytes).is_err());
    }

    #[test]
    fn any_bytes_behind_a_right_head_are_read_without_panic(
        tail in proptest::collection::vec(any::<u8>(), 4..300),
        encoder in 0u8..5,
    ) {
        let mut bytes = b"VSROUTE\0\x01\x00\x00".to_vec();
        bytes.push(encoder);
        bytes.extend(tail);
        reseal(&mut bytes);
        let read = Template::from_bytes(&bytes);
        prop_assert!(read.map_or(true, |template| template.to_bytes() == bytes));
    }
}
