//! What a server tells its operators: metrics, slow searches, and who changed what.

mod audit;
mod measured;
mod slow;
mod times;

pub(crate) use self::audit::{Audit, Changed};
pub(crate) use self::measured::{Answers, Measured};
pub(crate) use self::slow::SlowSearch;
pub(crate) use self::times::{percentile, Counts};
