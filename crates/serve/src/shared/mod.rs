//! What all requests share, and what they may take of it.

mod admission;
mod heavy;

use std::sync::Arc;

pub(crate) use self::admission::{Admission, Admitted};
pub(crate) use self::heavy::{Heavy, LARGE};
use crate::access::KeyFile;
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::observe::{Audit, Measured};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) keys: Option<KeyFile>,
    pub(crate) mcp_writes: bool,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) heavy: Heavy,
    pub(crate) audit: Audit,
    pub(crate) measured: Measured,
}
