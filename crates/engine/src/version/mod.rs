//! Versions of a collection: the manifest, the directory that holds its files, and the version set,
//! which publishes the next version together with the view that serves it.

mod cluster_sizes;
mod delete_bitmap;
mod directory;
mod entry_lists;
mod manifest;
mod remembered_file;
mod remote_level;
mod retained;
mod version_set;

pub(crate) use self::directory::Directory;
pub(crate) use self::manifest::Manifest;
pub(crate) use self::remembered_file::read_remembered;
pub use self::remote_level::{files_to_push, RemoteLevel};
pub(crate) use self::remote_level::{fresh_number, open_far, open_store, Tiers, REMOTE};
pub(crate) use self::version_set::{differs, AdoptedSegment, VersionSet};
