//! Checks names, vectors and fields before anything is changed, and stores vectors as bytes.

use vstream_attribute::{
    AttributeKind, Attributes, Fields, IdKind, Refused, RefusedKind, Schema, PAYLOAD_BYTES_MAX,
    STRING_ID_BYTES_MAX,
};
use vstream_vector::{kernels, with_number, Element, Metric, Number, Widen};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::Error;
use crate::settings::GroupSettings;

/// Most bytes of the name of a group.
pub const GROUP_BYTES_MAX: usize = 512;
/// Most neighbours of a query.
pub const K_MAX: usize = 1000;
/// Largest norm of a vector under l2 and inner product: sums of products stay far below the largest
/// single.
const NORM_MAX: f64 = 1e15;

/// A row to be written.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// The user's id, unique in its group. In a store of string ids, a hash of it.
    pub id: u64,
    /// Version of the record. An older one never replaces a newer one.
    pub version: u64,
    /// `dimension` finite numbers.
    pub vector: &'a [f32],
    /// What the row carries beside its vector.
    pub fields: Fields<'a>,
}

/// The error of a text whose id is that of another row of the group.
pub(crate) fn other_text(name: &str) -> Error {
    let what = format!("The id '{name}' has the hash of another id of its group: rename it.");
    Refused::new(RefusedKind::BadId, what).into()
}

/// The hash by which a group is found. Runs are in its order.
pub(crate) type GroupHash = u128;

/// Hashes the name of a group. Errors: `BadGroup` if it is empty or too long.
pub(crate) fn group_hash(group: &str, seed: u64) -> Result<GroupHash, Error> {
    if group.is_empty() || group.len() > GROUP_BYTES_MAX {
        let what =
            format!("The name of a group has {} bytes: use 1 to {GROUP_BYTES_MAX}.", group.len());
        return Err(Refused::new(RefusedKind::BadGroup, what).into());
    }
    Ok(xxh3_128_with_seed(group.as_bytes(), seed))
}

/// The error of two names with one hash, which 2^64 groups would make likely.
pub(crate) fn same_hash(group: &str) -> Error {
    let what = format!("The name of the group '{group}' has the hash of another one: rename it.");
    Refused::new(RefusedKind::BadGroup, what).into()
}

/// Checks a query's vector and prepares it for distances: normalised under cosine.
pub(crate) fn query_vector(vector: &[f32], settings: &GroupSettings) -> Result<Vec<f32>, Error> {
    prepared(vector, settings)
}

/// Checks a row's vector and returns its bytes as stored.
pub(crate) fn row_vector(vector: &[f32], settings: &GroupSettings) -> Result<Box<[u8]>, Error> {
    let prepared = prepared(vector, settings)?;
    let element = settings.element;
    if let Some(at) = prepared.iter().position(|&x| !element.accepts(x)) {
        let what = format!(
            "The vector holds {} at position {at}: element {element} takes {}.",
            prepared[at],
            element.range()
        );
        return Err(Error::invalid(what));
    }
    let mut bytes = Vec::with_capacity(settings.vector_bytes());
    with_number!(element, N => prepared.iter().for_each(|&x| N::narrow(x).put(&mut bytes)));
    Ok(bytes.into())
}

fn prepared(vector: &[f32], settings: &GroupSettings) -> Result<Vec<f32>, Error> {
    if vector.len() != settings.dimension {
        let (found, wanted) = (vector.len(), settings.dimension);
        let what = format!("The vector has {found} dimensions, the store {wanted}.");
        return Err(Error::invalid(what));
    }
    let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    // The squares of finite singles have a finite sum in double precision.
    if !norm.is_finite() {
        let at = vector.iter().position(|x| !x.is_finite()).unwrap_or(0);
        let what = format!("The vector holds {} at position {at}.", vector[at]);
        return Err(Error::invalid(what));
    }
    match settings.metric {
        Metric::Cosine if norm == 0.0 || norm > f64::from(f32::MAX) => {
            Err(Error::invalid("The vector has no direction, which cosine needs."))
        }
        Metric::Cosine => Ok(vector.iter().map(|&x| (f64::from(x) / norm) as f32).collect()),
        _ if norm > NORM_MAX => {
            Err(Error::invalid(format!("The vector has a norm of {norm:.3e}, above {NORM_MAX:e}.")))
        }
        _ => Ok(vector.to_vec()),
    }
}

/// Checks what a row carries against the schema.
pub(crate) fn check_fields(fields: &Fields<'_>, schema: &Schema) -> Result<(), Error> {
    let refused = |kind, what: String| Err(Refused::new(kind, what).into());
    let wanted = schema.id == IdKind::String;
    if wanted == fields.name.is_empty() || fields.name.len() > STRING_ID_BYTES_MAX {
        let what = format!(
            "A string id of {} bytes; the store has {} ids.",
            fields.name.len(),
            if wanted { "string" } else { "number" }
        );
        return refused(RefusedKind::BadId, what);
    }
    check_payload(fields.payload)?;
    check_attributes(fields.attributes, schema)
}

/// Checks the length of a payload.
pub(crate) fn check_payload(payload: Option<&[u8]>) -> Result<(), Error> {
    match payload.map(<[u8]>::len).filter(|&bytes| bytes > PAYLOAD_BYTES_MAX) {
        Some(bytes) => {
            let what = format!("The payload has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}.");
            Err(Refused::new(RefusedKind::TooLarge, what).into())
        }
        None => Ok(()),
    }
}

/// Checks values against the schema.
pub(crate) fn check_attributes(values: Attributes<'_>, schema: &Schema) -> Result<(), Error> {
    for (column, value) in values.iter() {
        let kind = check_column(column, schema)?;
        if kind != value.kind() {
            let (kind, found) = (kind.name(), value.kind().name());
            let what = format!("Column {column} is of type {kind}, the value of type {found}.");
            return Err(Refused::new(RefusedKind::WrongType, what).into());
        }
    }
    Ok(())
}

/// The kind of a column. Errors: `UnknownAttribute` if the schema does not have it.
pub(crate) fn check_column(column: u16, schema: &Schema) -> Result<AttributeKind, Error> {
    schema.kind(column).ok_or_else(|| {
        let what = format!("The store has no column {column}.");
        Refused::new(RefusedKind::UnknownAttribute, what).into()
    })
}

/// Distances of a query to stored vectors, with the room to decode one.
pub(crate) struct Distances<'a> {
    metric: Metric,
    element: Element,
    query: &'a [f32],
    row: Vec<f32>,
}

impl<'a> Distances<'a> {
    /// * `query`: from [`query_vector`].
    pub(crate) fn new(settings: &GroupSettings, query: &'a [f32]) -> Distances<'a> {
        let (metric, element) = (settings.metric, settings.element);
        Distances { metric, element, query, row: vec![0.0; query.len()] }
    }

    /// Distance of the query to the vector with these bytes.
    pub(crate) fn to(&mut self, bytes: &[u8]) -> f32 {
        read_vector(self.element, bytes, &mut self.row);
        match self.metric {
            Metric::L2 => kernels::l2_squared(self.query, &self.row),
            Metric::Cosine => 1.0 - kernels::inner_product(self.query, &self.row),
            Metric::InnerProduct => -kernels::inner_product(self.query, &self.row),
        }
    }
}

/// Decodes a stored vector into `out`.
pub(crate) fn read_vector(element: Element, bytes: &[u8], out: &mut [f32]) {
    with_number!(element, N => {
        let numbers = bytes.chunks_exact(element.bytes());
        out.iter_mut().zip(numbers).for_each(|(x, bytes)| *x = N::take(bytes).widen());
    });
}
