//! The router's settings, from a collection's settings.

use vstream_route::{Curve, EncoderSpec, RouteSettings};

use crate::collection::{CollectionSettings, CurveName, EncoderSettings};

impl CollectionSettings {
    /// The settings of the template that places this collection's records and routes its queries.
    pub fn route(&self) -> RouteSettings {
        let encoder = match self.encoder {
            EncoderSettings::Cells { cells, recall_target } => {
                EncoderSpec::Cells { cells, recall_target }
            }
            EncoderSettings::Lsh { curve, families, hashes, width, bits } => {
                EncoderSpec::Lsh { curve: curve.into(), families, hashes, width, bits }
            }
            EncoderSettings::Id => EncoderSpec::Id,
        };
        RouteSettings {
            encoder,
            dimension: self.dimension,
            metric: self.metric,
            shards: self.shards,
            seed: self.seed,
        }
    }
}

impl From<CurveName> for Curve {
    fn from(name: CurveName) -> Curve {
        match name {
            CurveName::ZOrder => Curve::ZOrder,
            CurveName::Hilbert => Curve::Hilbert,
            CurveName::Gray => Curve::Gray,
            CurveName::Peano => Curve::Peano,
            CurveName::Sierpinski => Curve::Sierpinski,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_schema_accepts_the_router_accepts() {
        for encoder in [
            r#"{"kind": "id"}"#,
            r#"{"kind": "cells", "cells": 256, "recall-target": 0.98}"#,
            r#"{"kind": "lsh", "curve": "peano", "families": 8, "hashes": 10}"#,
            r#"{"kind": "lsh", "curve": "sierpinski"}"#,
        ] {
            let text = format!(r#"{{"dimension": 8, "metric": "cosine", "encoder": {encoder}}}"#);
            let settings = CollectionSettings::from_json(&text).expect("accepted").route();
            settings.validate().expect("accepted by the router too");
        }
    }
}
