//! Checks and normalises vectors, of rows and of queries; `fields.rs` checks what rows carry beside.

mod fields;

use vstream_vector::{kernels, Element, Metric};

pub use self::fields::check_fields;
pub(crate) use self::fields::{check_filter, check_update};
use crate::error::Error;
use crate::settings::Settings;

/// Largest norm of a row or query under l2 and inner product.
///
/// Up to this norm, sums of products of two vectors, over all dimensions and over millions of rows,
/// stay far below the largest single, about 3.4e38. Cosine has no such limit: it uses directions
/// alone.
pub const NORM_MAX: f64 = 1e15;

/// Least sum of squares that single precision computes correctly, but for a few last bits. Below
/// it, squares of small numbers begin to vanish.
const SQUARE_MIN: f32 = 1e-30;

/// Checks a vector that is to be stored. The error is text that follows "the vector".
///
/// Cost: one or two passes. Every interface of the engine that checks a batch before it writes any
/// of it calls this function, so that all refuse the same vectors.
pub fn check_row(vector: &[f32], settings: &Settings) -> Result<(), String> {
    check_finite(vector, settings.dimension)?;
    check_element(vector, settings.element)?;
    check_norm(vector, settings.metric)
}

/// Checks a row that was stored before. Limits that were added later do not apply. Under cosine the
/// row is a direction, whose numbers are fractions whatever the element.
pub(crate) fn check_restored(vector: &[f32], settings: &Settings) -> Result<(), String> {
    check_finite(vector, settings.dimension)?;
    match settings.metric {
        Metric::Cosine => Ok(()),
        Metric::L2 | Metric::InnerProduct => check_element(vector, settings.element),
    }
}

fn check_element(vector: &[f32], element: Element) -> Result<(), String> {
    match vector.iter().position(|&x| !element.accepts(x)) {
        Some(at) => Err(format!(
            "holds {} at position {at}: element {element} takes {}",
            vector[at],
            element.range()
        )),
        None => Ok(()),
    }
}

/// Checks the vector of a query, which may hold any finite number.
pub(crate) fn check_query(vector: &[f32], dimension: usize, metric: Metric) -> Result<(), String> {
    check_finite(vector, dimension)?;
    check_norm(vector, metric)
}

fn check_norm(vector: &[f32], metric: Metric) -> Result<(), String> {
    if metric == Metric::Cosine {
        return norm(vector).map(|_| ());
    }
    // Single precision is fast and decides most vectors; near the limit, double precision decides.
    let square = kernels::norm_squared(vector);
    if square <= (NORM_MAX * NORM_MAX / 2.0) as f32 || squares(vector) <= NORM_MAX * NORM_MAX {
        return Ok(());
    }
    let norm = squares(vector).sqrt();
    Err(format!("has a norm of {norm:.3e}: {metric} takes norms up to {NORM_MAX:e}"))
}

/// Checks dimension and finiteness alone.
fn check_finite(vector: &[f32], dimension: usize) -> Result<(), String> {
    if vector.len() != dimension {
        return Err(format!("has {} dimensions, the collection {dimension}", vector.len()));
    }
    match vector.iter().position(|x| !x.is_finite()) {
        Some(at) => {
            Err(format!("holds {} at position {at}: every value must be finite", vector[at]))
        }
        None => Ok(()),
    }
}

/// Makes an error of the text that a check returned.
pub(crate) fn refused(what: String) -> Error {
    Error::invalid(format!("the vector {what}"))
}

/// Writes `vector / ‖vector‖` to `out`.
pub(crate) fn normalise(vector: &[f32], out: &mut Vec<f32>) -> Result<(), Error> {
    let norm = norm(vector).map_err(refused)?;
    out.clear();
    match norm {
        Norm::Single(norm) => out.extend(vector.iter().map(|&x| x / norm)),
        Norm::Double(norm) => out.extend(vector.iter().map(|&x| (f64::from(x) / norm) as f32)),
    }
    Ok(())
}

/// The norm of a vector that has a direction.
#[derive(Clone, Copy)]
enum Norm {
    Single(f32),
    /// The square of the norm does not fit single precision, or loses too many bits there.
    Double(f64),
}

fn norm(vector: &[f32]) -> Result<Norm, String> {
    let square = kernels::norm_squared(vector);
    if square.is_finite() && square >= SQUARE_MIN {
        return Ok(Norm::Single(square.sqrt()));
    }
    let norm = squares(vector).sqrt();
    if norm == 0.0 || norm > f64::from(f32::MAX) {
        return Err(
            "has no direction (its norm is zero or too large): cosine cannot use it".to_owned()
        );
    }
    Ok(Norm::Double(norm))
}

/// Adds the squares in double precision, in order, so that other languages compute the same limit.
fn squares(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
}
