//! Messages and services, as the build makes them of `proto/`.

#![expect(
    clippy::allow_attributes,
    clippy::large_enum_variant,
    clippy::enum_variant_names,
    reason = "the build makes this, with more than is used"
)]

include!(concat!(env!("OUT_DIR"), "/server/qdrant.rs"));
