//! The versions that Python gives to rows.

use numpy::PyReadonlyArray1;

use crate::failure::Failure;
use crate::rows::slice1;

/// One version per row, or none.
pub(crate) type GivenVersions<'py> = Option<PyReadonlyArray1<'py, i64>>;

/// Copies the versions of so many rows: another Python thread may change the array meanwhile.
pub(crate) fn versions_of(
    given: GivenVersions<'_>,
    rows: usize,
) -> Result<Option<Vec<u64>>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let versions = slice1(&given)?;
    if versions.len() != rows || versions.iter().any(|&version| version < 0) {
        let found = versions.len();
        let message = format!("there are {found} versions for {rows} rows, or one is negative");
        return Err(Failure::invalid(message));
    }
    Ok(Some(versions.iter().map(|&version| version as u64).collect()))
}

/// The version of a row, if versions were given.
pub(crate) fn version_at(versions: &Option<Vec<u64>>, at: usize) -> Option<u64> {
    versions.as_ref().map(|versions| versions[at])
}
