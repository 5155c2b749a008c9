//! What a server tells its operators: metrics, and who changed what.

mod audit;
mod measured;

pub(crate) use self::audit::{Audit, Changed};
pub(crate) use self::measured::Measured;
