//! The write-ahead log: records in groups, groups in files, and one sync for all threads that wait.

mod format;
mod group_commit;
mod record;
mod state;
mod window;
mod writer;

pub(crate) use self::format::{
    encode_header, Group, GroupHeader, LogHeader, LogIdentity, CHECKSUM, GROUP_HEADER, GROUP_MAGIC,
    HEADER, RECORDS_BYTES_MAX,
};
pub(crate) use self::group_commit::{Log, Ticket};
pub(crate) use self::record::Record;
pub(crate) use self::state::State;
pub(crate) use self::window::Window;
pub(crate) use self::writer::{LogEnd, LogWriter, Spare};
