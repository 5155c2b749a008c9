//! The Java virtual machine that runs a job: how it is found, started, heard and stopped.

mod install;
mod process;
mod protocol;
mod tail;

pub(crate) use install::command;
pub(crate) use process::{Event, Jvm};
pub(crate) use protocol::{Answer, Message, Progress, Summary};
