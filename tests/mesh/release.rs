//! The Istio that the suite runs. `LASTSTREAM_MESH_ISTIO` chooses it; without it the newest runs.
//! tests/mesh/parts pins the sources of each, and tests/tools/program reads the same variable.

use std::env;

use laststream_local::envoy::{self, Version};

use kit::prelude::*;

const VARIABLE: &str = "LASTSTREAM_MESH_ISTIO";

/// An Istio, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Release {
    Istio1_30,
    Istio1_31,
}

impl Release {
    const ALL: [Self; 2] = [Self::Istio1_30, Self::Istio1_31];

    /// The Istio that this run has.
    pub(crate) fn chosen() -> Outcome<Self> {
        match env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::Istio1_31),
        }
    }

    fn named(name: &str) -> Outcome<Self> {
        let known = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|release| release.name() == name)
            .with_context(|| format!("{VARIABLE}={name}: no such Istio; there is {known}"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Istio1_30 => "1.30",
            Self::Istio1_31 => "1.31",
        }
    }

    /// The Envoy that runs with it: of an older Istio that of its own line, else the newest one.
    pub(crate) fn envoy(self) -> Version {
        match self {
            Self::Istio1_30 => Version::new(1, 38, 2),
            Self::Istio1_31 => envoy::NEWEST,
        }
    }
}
