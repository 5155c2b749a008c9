//! What all requests share, and what they may take of it.

mod admission;
mod asks;
mod heavy;
mod leases;
mod moment;
mod role;
mod spare;

use std::sync::Arc;

use tokio::sync::{watch, Semaphore};

pub(crate) use self::admission::{Admission, Admitted, Counted, Counts};
pub(crate) use self::asks::Asks;
pub(crate) use self::heavy::{Heavy, LARGE};
pub(crate) use self::leases::Leases;
pub(crate) use self::moment::Moment;
pub(crate) use self::role::{Replica, Role};
use crate::access::KeyFile;
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::observe::{Audit, Measured};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) role: Role,
    pub(crate) keys: Option<KeyFile>,
    pub(crate) mcp_writes: bool,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) heavy: Heavy,
    pub(crate) audit: Audit,
    pub(crate) measured: Measured,
    pub(crate) leases: Leases,
    /// A permit is a stream that goes on until its client ends it.
    pub(crate) streams: Arc<Semaphore>,
    /// True when the server takes no more requests.
    pub(crate) stopping: watch::Receiver<bool>,
}
