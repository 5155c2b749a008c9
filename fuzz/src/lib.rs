//! Every decoder of the workspace as a function of bytes.
//!
//! A [`Target`] takes any bytes and must return: with an error or without one, in memory that the
//! bytes justify, and never by a panic. It needs no fuzzer: [`mutate`] changes what real writers
//! wrote, and computes the checksums anew, so that what lies behind them is reached. A fuzzer such
//! as libFuzzer calls [`Target::run`] as it is. *Not useful for* finding wrong answers.
#![forbid(unsafe_code)]

mod blocks;
pub mod collection;
mod container;
mod filters;
mod groups;
mod meaning;
pub mod mutate;
mod ranking;
mod records;
mod routing;
mod segment;
mod shop;
mod text;

/// A decoder and what is known of its input.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Gives the bytes to the decoder, and uses what it returns.
    pub run: fn(&[u8]),
    /// Makes the checksums in some bytes right, as far as they can be found.
    pub reseal: fn(&mut Vec<u8>),
    /// What real writers wrote.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Inputs in a short run: dear targets get fewer.
    pub share: u64,
}

/// Every decoder.
pub const TARGETS: &[Target] = &[
    Target {
        name: "codec blocks",
        run: blocks::decode,
        reseal: nothing,
        corpus: blocks::corpus,
        share: 200_000,
    },
    Target {
        name: "segment",
        run: segment::open_and_search,
        reseal: |bytes| segment::reseal(bytes),
        corpus: segment::corpus,
        share: 40_000,
    },
    Target {
        name: "collection: manifest, base image, segments and logs",
        run: collection::open,
        reseal: collection::reseal,
        corpus: collection::collections,
        share: 40_000,
    },
    Target {
        name: "snapshot: manifest and rows",
        run: collection::open,
        reseal: collection::reseal,
        corpus: collection::snapshots,
        share: 40_000,
    },
    Target {
        name: "store of groups: manifest, runs and log",
        run: groups::open,
        reseal: groups::reseal,
        corpus: groups::corpus,
        share: 8_000,
    },
    Target {
        name: "list of a pushed snapshot",
        run: container::contents,
        reseal: |bytes| container::reseal_contents(bytes),
        corpus: container::contents_corpus,
        share: 60_000,
    },
    Target {
        name: "routing template",
        run: routing::read_and_place,
        reseal: |bytes| routing::reseal(bytes),
        corpus: routing::corpus,
        share: 200_000,
    },
    Target {
        name: "filters: JSON, dictionaries, SQL and bytes",
        run: filters::read,
        reseal: nothing,
        corpus: filters::corpus,
        share: 60_000,
    },
    Target {
        name: "attributes of rows, and schemas",
        run: records::read,
        reseal: nothing,
        corpus: records::corpus,
        share: 100_000,
    },
    Target {
        name: "text queries and rank expressions",
        run: ranking::read,
        reseal: nothing,
        corpus: ranking::corpus,
        share: 20_000,
    },
    Target {
        name: "settings",
        run: text::settings,
        reseal: nothing,
        corpus: text::corpus,
        share: 20_000,
    },
    Target {
        name: "matrix file",
        run: text::matrix,
        reseal: nothing,
        corpus: text::matrices,
        share: 3_000,
    },
    Target {
        name: "address of a store",
        run: text::address,
        reseal: nothing,
        corpus: text::addresses,
        share: 60_000,
    },
];

fn nothing(_: &mut Vec<u8>) {}
