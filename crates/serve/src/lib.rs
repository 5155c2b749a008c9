//! Serves collections over HTTP and gRPC: a subset of Qdrant's interface, so that its clients run
//! unchanged.
//!
//! | folder | what it does |
//! |---|---|
//! | `collection` | one collection: a thread that writes, readers that never wait for it |
//! | `catalog` | all collections of a folder: opened, made, dropped |
//! | `access` | keys, and what they allow |
//! | `shared` | what all requests share: room for bodies and searches |
//! | `observe` | metrics, and the audit log |
//! | `failure` | why a request has no answer, as HTTP and gRPC say it |
//! | `qdrant` | Qdrant's paths, bodies and messages, and what they mean here |
//! | `feed` | what is written, for replicas and for those who watch |
//! | `replica` | follows another server |
//! | `server` | connections, from the first byte to the end |
//!
//! This is the only asynchronous crate. A request is read and answered on the threads of the runtime;
//! what reads segments or many rows runs on threads that may wait; every collection has a thread of
//! its own that writes and one that waits for the disk.

#![forbid(unsafe_code)]

mod access;
mod catalog;
mod collection;
mod failure;
mod feed;
mod grpc;
mod limits;
mod observe;
mod proto;
mod qdrant;
mod replica;
mod server;
mod settings;
mod shared;
mod turns;

pub use access::{new_key, KeyFile, Scope};
pub use limits::Limits;
pub use server::{Running, Server};
pub use settings::{FollowSettings, ServeSettings, TlsFiles};
