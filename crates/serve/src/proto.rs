//! Our own messages, services and clients, as the build makes them of `proto/vstream.proto`.

#![expect(clippy::allow_attributes, reason = "the build makes this, with more than is used")]

include!(concat!(env!("OUT_DIR"), "/own/vstream.rs"));
