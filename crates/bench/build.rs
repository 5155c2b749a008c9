//! Makes a client of Qdrant's interface, by which `bench-serve` asks a server over gRPC.

use std::error::Error;

const PROTO: &str = "../serve/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .btree_map(".")
        .emit_rerun_if_changed(false)
        .compile_fds(protox::compile(["qdrant.proto"], [PROTO])?)?;
    Ok(())
}
