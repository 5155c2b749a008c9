//! The server as a client sees it: real connections on the loopback interface.

mod access;
mod broken;
mod grpc;
mod hostile;
mod job;
mod mcp;
mod page;
mod points;
mod replica;
mod restart;
mod support;
mod watch;
