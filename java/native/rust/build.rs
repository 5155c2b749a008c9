//! Links the library so that it is never unmapped.
//!
//! A JVM unmaps a library when the class loader that loaded it is collected. An engine's background
//! thread may still be on its way out then, and would execute pages that are gone.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
