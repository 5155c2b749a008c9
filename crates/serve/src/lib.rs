//! Serves collections over HTTP and gRPC: a subset of Qdrant's interface, so that its clients run
//! unchanged, and tools of the Model Context Protocol for language models.
//!
//! | folder | what it does |
//! |---|---|
//! | `collection` | one collection: a thread that writes, readers that never wait for it; or a running job |
//! | `catalog` | all collections of a folder: opened, made, dropped |
//! | `coordinator` | how many replicas, how large a batch, which effort; no part of a server |
//! | `balance` | one address for the replicas of a coordinator |
//! | `access` | keys, and what they allow |
//! | `shared` | what all requests share: room for bodies and searches |
//! | `observe` | metrics, slow searches, and the audit log |
//! | `page` | a page for browsers that shows how a server or a job is doing |
//! | `failure` | why a request has no answer, as HTTP and gRPC say it |
//! | `qdrant` | Qdrant's paths, bodies and messages, and what they mean here |
//! | `mcp` | tools by which a language model asks, over the Model Context Protocol |
//! | `feed` | what is written, for replicas and for those who watch |
//! | `replica` | follows another server |
//! | `server` | connections, from the first byte to the end |
//!
//! This is the only asynchronous crate. A request is read and answered on the threads of the runtime;
//! what reads segments or many rows runs on threads that may wait; every collection has a thread of
//! its own that writes and one that waits for the disk.

#![forbid(unsafe_code)]

mod access;
mod balance;
mod catalog;
mod collection;
pub mod coordinator;
mod failure;
mod feed;
mod grpc;
mod limits;
mod mcp;
mod observe;
mod page;
mod proto;
mod qdrant;
mod replica;
mod server;
mod settings;
mod shared;
mod turns;

pub use access::{new_key, KeyFile, Scope};
pub use balance::{BalanceLaw, BalanceSettings, Balancer, Balancing};
pub use collection::JobSettings;
pub use limits::Limits;
pub use server::{JobPage, Running, Server};
pub use settings::{FollowSettings, PushedSettings, ServeSettings, TlsFiles};
