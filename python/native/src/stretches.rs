//! Long calls in stretches.

use std::ops::Range;

use pyo3::prelude::*;

use crate::failure::{detached, Failure};

/// Runs `work` over `0..count` in stretches, each without the interpreter lock; between two of
/// them a pending signal, such as Ctrl-C, ends the call. `told` hears how many are done.
pub(crate) fn stretches(
    py: Python<'_>,
    count: usize,
    stretch: usize,
    told: impl Fn(usize) -> PyResult<()>,
    mut work: impl FnMut(Range<usize>) -> Result<(), Failure> + Send,
) -> PyResult<()> {
    let mut start = 0;
    while start < count {
        let end = (start + stretch).min(count);
        detached(py, || work(start..end))?;
        py.check_signals()?;
        told(end)?;
        start = end;
    }
    Ok(())
}
