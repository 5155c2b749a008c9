//! Every index kind against its contract, against a model, and under concurrent readers.

mod by_id;
mod concurrent;
mod fields;
mod filtered;
mod interleaved;
mod loaded;
mod maintain;
mod model;
mod outliers;

use vstream_index::contract::{check, check_filters, Contract};
use vstream_index::{Cluster, ClusterSettings, Effort, Flat};

#[test]
fn flat_keeps_the_contract() {
    let contract = Contract {
        name: "flat",
        make: |settings| Box::new(Flat::new(settings)),
        effort: Effort::Approximate { probes: 1, refine: 10 },
        recall_floor: 1.0,
        is_audited: true,
    };
    check(&contract);
    check_filters(&contract);
}

#[test]
fn cluster_keeps_the_contract() {
    let contract = Contract {
        name: "cluster",
        make: |settings| Box::new(Cluster::new(settings, ClusterSettings::default())),
        effort: Effort::Approximate { probes: 16, refine: 160 },
        recall_floor: 0.95,
        is_audited: true,
    };
    check(&contract);
    check_filters(&contract);
}

#[test]
fn cluster_with_small_leaves_keeps_the_contract() {
    let contract = Contract {
        name: "cluster, small leaves, large batches, second look",
        make: |settings| {
            let sizes = ClusterSettings {
                leaf_rows_max: 64,
                leaf_rows_min: 16,
                batch_rows: 200,
                node_leaves_max: 8,
                jobs_per_batch: 6,
                second_look: true,
                ..ClusterSettings::default()
            };
            Box::new(Cluster::new(settings, sizes))
        },
        effort: Effort::Approximate { probes: 48, refine: 160 },
        recall_floor: 0.95,
        is_audited: true,
    };
    check(&contract);
    check_filters(&contract);
}
