//! Collections: made, listed, described, dropped.

use std::sync::Arc;

use serde::Deserialize;
use vstream_engine::{
    AttributeKind, Element, IdKind, Metric, NameHash, NumberedWriter, Schema, Settings,
};

use super::call::Call;
use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::shared::Shared;

/// Bytes of memory of a collection whose vectors lie on the disk, unless it says otherwise.
const MEMORY: u64 = 256 << 20;

/// A collection to make.
pub(super) struct New {
    pub(super) size: usize,
    pub(super) distance: Distance,
    pub(super) datatype: Datatype,
    pub(super) on_disk: bool,
    pub(super) own: Own,
}

/// Settings that Qdrant does not have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Own {
    recall_target: Option<f64>,
    /// Bytes of memory for rows in no segment and for blocks that were read.
    memory: Option<u64>,
    /// Bytes of memory for codes.
    code_memory: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum Distance {
    Cosine,
    Dot,
    Euclid,
    Manhattan,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Datatype {
    #[default]
    Float32,
    Float16,
    Uint8,
}

impl New {
    /// The settings of the engine. Errors: `BAD_REQUEST` for what is not supported.
    fn settings(self) -> Result<Settings, Failure> {
        let metric = match self.distance {
            Distance::Cosine => Metric::Cosine,
            Distance::Dot => Metric::InnerProduct,
            Distance::Euclid => Metric::L2,
            Distance::Manhattan => return Err(Failure::bad("Manhattan is not supported")),
        };
        let element = match self.datatype {
            Datatype::Float32 => Element::F32,
            Datatype::Float16 => Element::F16,
            Datatype::Uint8 => Element::U8,
        };
        let schema = Schema {
            id: IdKind::String,
            id_key: NameHash::random_key(),
            open: true,
            ..Schema::default()
        };
        let mut settings = Settings::new(self.size, metric, element);
        settings.schema = Arc::new(schema);
        settings.memory = self.on_disk.then_some(MEMORY);
        let Own { recall_target, memory, code_memory } = self.own;
        settings.recall_target = recall_target.unwrap_or(settings.recall_target);
        settings.memory = memory.or(settings.memory);
        settings.code_memory = code_memory;
        settings.validate()?;
        Ok(settings)
    }
}

/// The name of a metric.
pub(crate) fn distance_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Cosine => "Cosine",
        Metric::InnerProduct => "Dot",
        Metric::L2 => "Euclid",
    }
}

/// The name of the index that an attribute stands for.
pub(crate) fn index_name(kind: AttributeKind) -> &'static str {
    match kind {
        AttributeKind::Keyword | AttributeKind::Keywords => "keyword",
        AttributeKind::I64 => "integer",
        AttributeKind::F64 => "float",
        AttributeKind::Bool => "bool",
        AttributeKind::Timestamp => "datetime",
        AttributeKind::Text => "text",
    }
}

/// Who answers.
pub(super) fn title() -> String {
    format!("VStream {}", env!("CARGO_PKG_VERSION"))
}

/// Collections have one vector without a name.
pub(super) fn no_such_vector(name: &str) -> Failure {
    Failure::bad(format!("there is no vector '{name}': points have one vector without a name"))
}

/// Sparse vectors are not there.
pub(super) fn no_sparse() -> Failure {
    Failure::bad("sparse vectors are not supported")
}

/// Points have one vector each.
pub(super) fn no_multivector() -> Failure {
    Failure::bad("several vectors per point are not supported")
}

/// The score of a distance, as Qdrant gives it.
pub(super) fn score(metric: Metric, distance: f32) -> f32 {
    match metric {
        Metric::Cosine => 1.0 - distance,
        Metric::InnerProduct => -distance,
        Metric::L2 => distance.max(0.0).sqrt(),
    }
}

/// The largest distance of a row whose score is good enough.
pub(super) fn radius(metric: Metric, threshold: f32) -> f32 {
    match metric {
        Metric::Cosine => largest_distance(threshold),
        Metric::InnerProduct => -threshold,
        // No distance is below zero.
        Metric::L2 if threshold < 0.0 => -1.0,
        Metric::L2 => largest_square(threshold),
    }
}

/// The largest distance from which a score follows that is no smaller: a score is rounded, and several distances have one.
fn largest_distance(score: f32) -> f32 {
    let is_enough = |bits: u32| 1.0 - f32::from_bits(bits) >= score;
    // Numbers from zero on are in the order of their bits.
    let (mut good, mut bad) = (0.0f32.to_bits(), f32::INFINITY.to_bits());
    if !is_enough(good) || is_enough(bad) {
        return 1.0 - score;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match is_enough(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    f32::from_bits(good)
}

/// The largest number whose root is no larger: a score is rounded, and its square may be less than the distance was.
fn largest_square(root: f32) -> f32 {
    let mut square = root * root;
    while square.is_finite() && square.next_up().sqrt() <= root {
        square = square.next_up();
    }
    while square.sqrt() > root {
        square = square.next_down();
    }
    square
}

/// The names of the collections that the key may read.
pub(super) fn names(shared: &Shared, access: &Access) -> Vec<String> {
    let all = shared.catalog.names().into_iter();
    all.filter(|name| access.may(Scope::Read, Some(name)).is_ok()).collect()
}

pub(super) fn exists(call: &Call) -> Result<bool, Failure> {
    call.may(Scope::Read)?;
    Ok(call.shared.catalog.is_there(&call.name))
}

/// A collection, and how much is in it.
pub(super) struct Described {
    pub(super) collection: Arc<Collection>,
    /// `None` where a job has the points.
    pub(super) live: Option<u64>,
    pub(super) segments: u64,
}

pub(super) async fn describe(call: &Call) -> Result<Described, Failure> {
    let collection = call.read().await?;
    let stats = collection.stats().await?;
    let (live, segments) = (collection.live(), stats.tree.segments.max(1));
    Ok(Described { collection, live, segments })
}

pub(super) async fn create(
    call: &Call,
    new: impl TryInto<New, Error = Failure>,
) -> Result<(), Failure> {
    call.may(Scope::Admin)?;
    let settings = new.try_into()?.settings()?;
    call.changes();
    call.shared.catalog.create(&call.name, settings).await
}

/// Changes nothing: what a client may change is about parts that are not here.
pub(super) fn update(call: &Call) -> Result<(), Failure> {
    call.collection(Scope::Admin).map(drop)
}

/// Drops a collection; false if there is none.
pub(super) async fn drop_one(call: &Call) -> Result<bool, Failure> {
    call.may(Scope::Admin)?;
    call.changes();
    call.shared.leases.end(Some(&call.name));
    let was_there = call.shared.catalog.drop(&call.name).await?;
    call.shared.measured.forget(&call.name);
    Ok(was_there)
}

/// The kind of the attribute that an index needs. Errors: `BAD_REQUEST` for what is not supported.
fn kind_of(index: &str) -> Result<AttributeKind, Failure> {
    Ok(match index {
        "keyword" | "uuid" => AttributeKind::Keyword,
        "integer" => AttributeKind::I64,
        "float" => AttributeKind::F64,
        "bool" => AttributeKind::Bool,
        "datetime" => AttributeKind::Timestamp,
        "" => return Err(Failure::bad("give field_schema, such as keyword")),
        other => return Err(Failure::bad(format!("an index of {other} is not supported"))),
    })
}

/// Makes an index, which here is an attribute.
///
/// * `index`: what Qdrant calls its kind.
pub(super) async fn create_index(call: &Call, field: String, index: &str) -> Result<(), Failure> {
    let collection = call.collection(Scope::Write)?;
    let kind = kind_of(index)?;
    let added = move |rows: &mut NumberedWriter| {
        let schema = rows.engine().schema();
        let field = field.strip_suffix("[]").unwrap_or(&field);
        let there = schema.column(field).and_then(|column| schema.kind(column));
        match there {
            Some(there) if serves(there, kind) => Ok(()),
            _ => {
                rows.engine_mut().add_attribute(field, kind)?;
                Ok(())
            }
        }
    };
    call.changes();
    collection.writes.durable(added).await
}

/// Keeps the attribute: it costs little, and rows have values of it.
pub(super) fn delete_index(call: &Call) -> Result<(), Failure> {
    call.collection(Scope::Write).map(drop)
}

/// True if an attribute answers what an index of this kind is for.
fn serves(there: AttributeKind, wanted: AttributeKind) -> bool {
    use AttributeKind::{Keyword, Keywords, F64, I64};
    there == wanted || matches!((there, wanted), (Keywords, Keyword) | (F64, I64) | (I64, F64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row passes a threshold by its distance exactly if its score does.
    #[test]
    fn a_radius_has_the_rows_whose_score_is_enough() {
        for metric in [Metric::Cosine, Metric::InnerProduct, Metric::L2] {
            let mut bits = 0x2545_f491_u32;
            for _ in 0..20_000 {
                bits = bits.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                let distance = (bits >> 8) as f32 / (1 << 23) as f32;
                let threshold = score(metric, distance);
                // Scores of L2 are distances: smaller ones are better.
                let is_enough = |score: f32| match metric {
                    Metric::L2 => score <= threshold,
                    Metric::Cosine | Metric::InnerProduct => score >= threshold,
                };
                let radius = radius(metric, threshold);
                for near in [distance.next_down(), distance, distance.next_up(), radius.next_up()] {
                    let passes = near <= radius;
                    assert_eq!(
                        passes,
                        is_enough(score(metric, near)),
                        "{metric:?} {distance} {near}"
                    );
                }
            }
        }
        assert_eq!(radius(Metric::Cosine, 2.0), -1.0);
        assert_eq!(radius(Metric::Cosine, f32::NEG_INFINITY), f32::INFINITY);
    }
}
