//! Asks a running job from outside of it, without a topic.
//!
//! A job whose file has `reads` publishes beside its checkpoints where its partitions answer and which of
//! them holds what. A [`JobReader`] reads that, asks the partitions that may hold an answer, and merges as
//! the job does. It goes on through failures, other parallelisms and hand-overs: a question is asked again
//! until its deadline where a partition is gone, or where answers do not go together.
//!
//! `docs/design/format.md` has the files and the protocol, `docs/design/handover.md` says why no row is
//! missing. The Java package `io.vstream.flink.ask` is the same reader.

#![forbid(unsafe_code)]

mod client;
mod error;
mod frontier;
mod place;
mod pool;
mod published;
mod question;
mod rank;
mod reader;
mod reply;
mod tls;
mod view;
mod wire;

pub use error::AskError;
pub use frontier::Frontier;
pub use pool::JobReaders;
pub use question::{Effort, Question};
pub use rank::Row;
pub use reader::{Answer, JobReader, ReadOptions};
pub use vstream_settings::CollectionSettings;
