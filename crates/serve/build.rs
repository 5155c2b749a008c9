//! Makes Rust of the messages and services in `proto/`.
//!
//! The compiler of their language is a library, so a build needs no other program. Of Qdrant's services
//! the server gets the servers and tests get the clients, each from a folder of their own; of ours both
//! get both, because a replica is a client of its writer.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let folder = |name: &str| -> std::io::Result<PathBuf> {
        let folder = out.join(name);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    let qdrant = protox::compile(["qdrant.proto"], ["proto"])?;
    let ours = protox::compile(["vstream.proto"], ["proto"])?;
    let paths: Vec<String> = qdrant
        .file
        .iter()
        .chain(&ours.file)
        .flat_map(|file| file.service.iter().map(move |service| (file.package(), service)))
        .flat_map(|(package, service)| {
            let path = move |method: &str| format!("/{package}.{}/{method}", service.name());
            service.method.iter().map(move |method| path(method.name()))
        })
        .collect();
    write_paths(&out.join("paths.rs"), &paths)?;
    let made = [
        (&qdrant, "server", true, false),
        (&qdrant, "client", false, true),
        (&ours, "own", true, true),
    ];
    for (described, name, is_server, is_client) in made {
        tonic_prost_build::configure()
            .build_server(is_server)
            .build_client(is_client)
            .build_transport(false)
            .btree_map(".")
            .bytes(".vstream")
            .emit_rerun_if_changed(false)
            .out_dir(folder(name)?)
            .compile_fds((*described).clone())?;
    }
    Ok(())
}

/// Writes the paths of all methods, as an expression.
fn write_paths(to: &Path, paths: &[String]) -> std::io::Result<()> {
    fs::write(to, format!("{paths:?}"))
}
