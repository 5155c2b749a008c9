//! Names of files that every store accepts.

use crate::error::{Error, ErrorKind};

/// Suffix of the name of a file that is being written.
pub(crate) const PARTIAL: &str = ".partial";
const NAME_BYTES_MAX: usize = 128;

/// Errors: `Invalid` if a store does not accept the name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name) {
        let what = "a file name has 1 to 128 letters, digits, '.', '_' or '-', does not begin \
                    with '.' and does not end in '.partial'";
        return Err(Error::new(ErrorKind::Invalid, name, what));
    }
    Ok(())
}

/// True if every store accepts the name. Such a name cannot lead out of the store.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && !name.ends_with(PARTIAL)
}
