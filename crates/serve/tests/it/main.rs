//! The server as a client sees it: real connections on the loopback interface.

mod access;
mod grpc;
mod hostile;
mod page;
mod points;
mod restart;
mod support;
