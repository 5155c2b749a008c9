//! The server as a client sees it: real connections on the loopback interface.

mod access;
mod broken;
mod changes;
mod faces;
mod grpc;
mod hostile;
mod job;
mod mcp;
mod page;
mod points;
mod pushed;
mod replica;
mod restart;
mod s3;
mod support;
mod watch;
